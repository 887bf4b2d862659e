// SGLang 0.5.9's server: default sizes from the GPU's memory (server_args.py), the KV pool
// (model_runner_kv_cache_mixin.py), captured batch sizes (cuda_graph_runner.py).
// Leaves out: speculation, DP attention, pipeline parallelism.

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/engine/engine.hpp"
#include "sim/engine/sglang_scheduler.hpp"

namespace {

struct Defaults {
  int chunked_prefill_size;
  int cuda_graph_max_bs;
};

Defaults defaults_for(std::int64_t memory_mib, int tp) {
  if (memory_mib < 20480) return {2048, 8};
  if (memory_mib < 35840) return {2048, tp < 4 ? 24 : 80};
  if (memory_mib < 61440) return {4096, tp < 4 ? 32 : 160};
  if (memory_mib < 163840) return {8192, tp < 4 ? 256 : 512};
  return {16384, 512};
}

std::vector<int> captured_sizes(int max_bs, bool padding) {
  std::vector<int> sizes;
  if (!padding) {
    for (int b = 1; b <= max_bs; ++b) sizes.push_back(b);
    return sizes;
  }
  for (const int b : {1, 2, 4, 8, 12}) sizes.push_back(b);
  for (int b = 16; b <= 256; b += 8) sizes.push_back(b);
  for (int b = 272; b < 512; b += 16) sizes.push_back(b);
  for (int b = 512; b <= max_bs; b += 32) sizes.push_back(b);
  std::erase_if(sizes, [&](int b) { return b > max_bs; });
  if (sizes.empty() || sizes.back() != max_bs) sizes.push_back(max_bs);
  return sizes;
}

EngineSetup setup(const EngineFacts& f, Section& s) {
  EngineSetup out;
  EngineSizes& sizes = out.sizes;
  const std::int64_t memory_mib = f.gpu_memory.count() >> 20;
  const Defaults defaults = defaults_for(memory_mib, f.tensor_parallel);
  const auto positive_int = positive<int>();

  SglangOptions o;
  sizes.chunked_prefill_size = s.optional<int>(
      "chunked_prefill_size", f.prefill_chunk > 0 ? f.prefill_chunk : defaults.chunked_prefill_size,
      between(-1, 1 << 24));
  o.chunked_prefill_size = sizes.chunked_prefill_size;
  o.max_prefill_tokens = s.optional<int>("max_prefill_tokens", 16384, between(1, 1 << 24));
  o.schedule_conservativeness =
      s.optional<double>("schedule_conservativeness", 1.0, positive<double>());
  const auto context_length =
      s.optional<std::int64_t>("context_length", f.context_length, positive<std::int64_t>());
  const int default_page = f.sparse_model ? 64 : 1;
  sizes.page_size = s.optional<int>("page_size", default_page, between(1, 1 << 16));
  if (f.sparse_model && sizes.page_size != 64)
    s.error("page_size", "SGLang forces pages of 64 tokens for models with an indexer",
            "leave it out");
  if (sizes.chunked_prefill_size > 0 && sizes.chunked_prefill_size % sizes.page_size != 0)
    s.error("chunked_prefill_size",
            fmt::format("chunked_prefill_size {} is not a whole number of pages of {} tokens",
                        sizes.chunked_prefill_size, sizes.page_size),
            fmt::format("try {}",
                        (sizes.chunked_prefill_size / sizes.page_size + 1) * sizes.page_size));
  o.overlap = !s.optional("disable_overlap_schedule", false);
  o.prefill_max_requests = s.optional<int>("prefill_max_requests", 0, between(0, 1 << 20));
  o.mixed_chunk = s.optional("enable_mixed_chunk", false);
  o.radix_cache = !s.optional("disable_radix_cache", false);
  sizes.eviction =
      s.word("radix_eviction_policy", {"lru", "lfu", "fifo", "mru", "filo", "priority"}, "lru");
  sizes.prefix_cache = o.radix_cache ? "radix" : "none";
  const std::string policy = s.word("schedule_policy", {"fcfs", "lpm", "lof", "random"}, "fcfs");
  o.policy = policy == "lpm"      ? SglangPolicy::lpm
             : policy == "lof"    ? SglangPolicy::lof
             : policy == "random" ? SglangPolicy::random
                                  : SglangPolicy::fcfs;
  if (o.mixed_chunk && sizes.chunked_prefill_size <= 0)
    s.error("enable_mixed_chunk", "mixed chunks need chunked prefill",
            "set chunked_prefill_size, or leave enable_mixed_chunk out");
  sizes.decode_log_interval = s.optional<int>("decode_log_interval", 40, between(1, 1 << 20));
  sizes.reserve_clip = o.clip_max_new_tokens;
  sizes.loop_depth = o.overlap ? 2 : 1;
  sizes.makes_asynchronous = {"disable_overlap_schedule", "off"};

  const bool graphs = s.optional("cuda_graph", f.decode_graphs);
  if (graphs && !f.decode_graphs)
    s.error("cuda_graph", "this build cannot capture decode",
            "choose another build or cuda_graph: off");
  const int max_bs =
      s.optional<int>("cuda_graph_max_bs", defaults.cuda_graph_max_bs, between(1, 1 << 16));
  const bool padding = !s.optional("disable_cuda_graph_padding", false);

  // reserved MiB; the graph term is charged even when graphs are off
  double reserved = 512 + 1.5 * std::max(sizes.chunked_prefill_size, 2048) + 2.0 * max_bs +
                    1024.0 * f.tensor_parallel / 8;
  if (memory_mib > 61440) reserved = std::max(reserved, 10240.0);
  const auto memory = static_cast<double>(memory_mib);
  const double fraction = std::round((memory - reserved) / memory * 1000) / 1000;
  sizes.mem_fraction_static =
      s.optional<double>("mem_fraction_static", fraction, between(0.01, 0.999));

  // KV = what is free after the weights, less (1 - fraction) of what was free before them.
  const double before = f.gpu_memory.real() - f.reserved.real();
  const auto beside =
      Bytes(static_cast<std::int64_t>(f.gpu_memory.real() - before * sizes.mem_fraction_static));
  if (!size_pool(f, beside, sizes, s)) {
    s.take("max_running_requests");
    return out;
  }

  // The pool of request slots: 2048..4096 by how many full contexts fit, never above half the
  // tokens.
  const std::int64_t total = sizes.kv_tokens.count();
  const auto slots = static_cast<std::int64_t>(static_cast<double>(total) /
                                               static_cast<double>(context_length) * 512);
  const std::int64_t running = std::min(total / 2, std::clamp<std::int64_t>(slots, 2048, 4096));
  sizes.max_running_requests = s.optional<int>(
      "max_running_requests", static_cast<int>(std::max<std::int64_t>(running, 1)), positive_int);
  o.max_running_requests = sizes.max_running_requests;
  sizes.max_request_tokens = std::min(context_length, total) - 1;

  if (graphs) {
    sizes.graph_sizes = captured_sizes(max_bs, padding);
    std::erase_if(sizes.graph_sizes, [&](int b) { return b > sizes.max_running_requests; });
    if (sizes.graph_sizes.empty() || (sizes.graph_sizes.back() < sizes.max_running_requests &&
                                      sizes.max_running_requests < max_bs))
      sizes.graph_sizes.push_back(sizes.max_running_requests);
  }
  if (s.optional("enable_piecewise_cuda_graph", false)) {
    // Captured prefill shapes go up to the chunk; MLA models stop at 2,048 tokens.
    const int chunk = sizes.chunked_prefill_size > 0 ? sizes.chunked_prefill_size : 8192;
    sizes.piecewise_tokens =
        s.optional<int>("piecewise_cuda_graph_max_tokens",
                        f.sparse_model ? std::min(chunk, 2048) : chunk, between(1, 1 << 20));
  }
  out.scheduler = std::make_unique<SglangScheduler>(o);
  return out;
}

const Registered<EngineKind> me("sglang", {"SGLang 0.5.9: prefill first, overlap loop", setup});

}  // namespace
