#include "sim/scenario/steady.hpp"

#include <algorithm>

#include "sim/base/assert.hpp"

namespace {

SteadyPass price(const PassShape& shape, const SteadyServer& server) {
  SteadyPass out;
  PassRecord& r = out.record;
  r.shape = shape;
  r.batch = shape.decode_sequences + shape.extend_sequences;
  const int size = shape.extend_sequences > 0 ? 0 : server.sizes.captured_size(r.batch);
  r.captured = size > 0;
  r.padded = r.captured ? size : shape.decode_sequences;
  out.cost = server.step.cost(shape.padded_to(r.padded), r.captured);
  const Duration around = server.host.per_step + r.batch * server.host.per_sequence;
  out.host = out.cost.host + around;
  out.time =
      server.sizes.loop_depth > 1 ? std::max(out.cost.device, out.host) : out.cost.span + around;
  return out;
}

// The rate decides how many tokens were decoded, those lengthen the KV, and that the rate: a token
// of KV moves a step by less than a millionth, so a few rounds settle it.
SteadyPass price(const SteadyDecode& d, const SteadyServer& server) {
  std::int64_t kv = d.prompt + 1;
  SteadyPass pass;
  for (int round = 0; round < 8; ++round) {
    pass = price(PassShape::decode(d.sequences, kv, server.sparse_top_k), server);
    const double decoded = pass.time > Duration() ? d.decoded_for / pass.time : 0;
    const auto next = d.prompt + 1 + static_cast<std::int64_t>(std::min(decoded, 1e9));
    if (next == kv) break;
    kv = next;
  }
  return pass;
}

LatencySummary always(double ms) { return {ms, ms, ms, ms, 0}; }

}  // namespace

std::vector<SteadyPass> steady_passes(const WorkloadPlan& plan, const SteadyServer& server) {
  if (const auto* decode = std::get_if<SteadyDecode>(&plan.passes)) return {price(*decode, server)};
  const auto& prefill = std::get<ColdPrefill>(plan.passes);
  std::int64_t chunk = prefill.chunk > 0 ? prefill.chunk : server.sizes.chunked_prefill_size;
  if (chunk <= 0) chunk = prefill.prompt;
  std::vector<SteadyPass> out;
  for (std::int64_t done = 0; done < prefill.prompt; done += chunk)
    out.push_back(
        price(PassShape::extend(std::min(chunk, prefill.prompt - done), done, server.sparse_top_k),
              server));
  return out;
}

RunMetrics steady_metrics(const WorkloadPlan& plan, const std::vector<SteadyPass>& passes) {
  SIM_ASSERT(!passes.empty());
  RunMetrics m;
  Duration time, device;
  for (const SteadyPass& p : passes) {
    time += p.time;
    device += p.cost.device;
  }
  const double seconds = time.seconds();
  m.busiest = passes.back().record;
  m.batch_max = m.in_flight_max = m.busiest.batch;
  m.concurrency = m.in_flight_mean = static_cast<double>(m.busiest.batch);
  m.passes = static_cast<std::int64_t>(passes.size());
  m.duration_s = seconds;
  if (seconds <= 0) return m;
  m.gpu_busy = std::min(1.0, device.seconds() / seconds);
  if (const auto* prefill = std::get_if<ColdPrefill>(&plan.passes)) {
    m.input_tokens = prefill->prompt;
    m.output_tokens = m.completed = 1;
    m.prefill_throughput = static_cast<double>(prefill->prompt) / seconds;
    m.time_in_prefill = 1;
    m.ttft_ms = always(time.ms());
  } else {
    m.decode_passes = 1;
    m.output_tokens = m.busiest.batch;
    m.output_throughput = m.total_throughput = static_cast<double>(m.busiest.batch) / seconds;
    m.tpot_ms = m.itl_ms = always(time.ms());
  }
  return m;
}
