#include "sim/metrics/metrics.hpp"

#include <algorithm>
#include <array>

#include "sim/base/assert.hpp"
#include "sim/base/statistics.hpp"

namespace {

LatencySummary summarise(const std::vector<double>& values) {
  const auto p = percentiles(values, std::array{50.0, 90.0, 99.0});
  const double m = mean(values);
  return {m, p[0], p[1], p[2], standard_deviation(values, m)};
}

}  // namespace

void MetricsCollector::InFlight::until(TimePoint at) {
  area_s_ += static_cast<double>(now_) * (at - before_).seconds();
  before_ = at;
}

void MetricsCollector::InFlight::begins(TimePoint at) {
  for (; !ends_.empty() && ends_.front() <= at; ends_.pop_front()) until(ends_.front()), --now_;
  until(at);
  most_ = std::max(most_, ++now_);
}

void MetricsCollector::InFlight::close() {
  for (; !ends_.empty(); ends_.pop_front()) until(ends_.front()), --now_;
}

MetricsCollector::MetricsCollector(int decode_log_interval, Keep keep)
    : decode_log_interval_(decode_log_interval), keep_(keep) {}

void MetricsCollector::expect(std::int64_t requests) {
  // A run may be given up long before its end: room for some, the rest as it comes.
  const auto n = static_cast<std::size_t>(std::min<std::int64_t>(requests, 1 << 24));
  for (auto* values : {&ttft_ms_, &tpot_ms_, &e2e_ms_}) values->reserve(n);
}

void MetricsCollector::on_clock(TimePoint at) {
  measuring_ = true;
  clock_ = end_ = at;
  in_flight_.start(at);
  itl_.clear();
  prefill_time_ = busy_time_ = Duration();
  busiest_ = {};
  batch_max_ = 0;
  pages_free_min_ = -1;
}

void MetricsCollector::on_sent(const Request& r) { in_flight_.begins(r.sent); }

void MetricsCollector::on_gaps(const GapRun& run) {
  if (measuring_) itl_.add(run.gap, run.step, run.passes, run.requests);
}

void MetricsCollector::on_finish(const Request& r) {
  if (r.index < 0) return;  // a warm-up request
  SIM_ASSERT(r.first_token >= r.sent && r.last_token >= r.first_token);
  const Duration latency = r.last_token - r.sent;
  ttft_ms_.push_back((r.first_token - r.sent).ms());
  e2e_ms_.push_back(latency.ms());
  if (r.output > 1)
    tpot_ms_.push_back((r.last_token - r.first_token).ms() / static_cast<double>(r.output - 1));
  if (keep_ != Keep::latencies) {
    auto stream = streams_.extract(r.index);
    requests_.push_back({r.index, r.prompt, r.output, r.sent, r.queued, r.first_token, r.last_token,
                         stream ? std::move(stream.mapped().gaps) : std::vector<Duration>(),
                         false});
  }
  ++completed_;
  input_tokens_ += r.prompt;
  output_tokens_ += r.output;
  cached_tokens_ += r.cached;
  latency_sum_s_ += latency.seconds();
  in_flight_.ends(r.last_token);
  end_ = std::max(end_, r.last_token);
}

void MetricsCollector::on_token(const Request& r, TimePoint at_client) {
  if (keep_ != Keep::gaps || r.index < 0) return;
  const auto [stream, first] = streams_.try_emplace(r.index);
  if (!first) stream->second.gaps.push_back(at_client - stream->second.last);
  stream->second.last = at_client;
}

void MetricsCollector::on_reject(const Request& r, TimePoint at_client) {
  if (r.index < 0) return;
  if (keep_ != Keep::latencies)
    requests_.push_back({r.index, r.prompt, 0, r.sent, r.queued, at_client, at_client, {}, true});
  ++rejected_;
  in_flight_.ends(at_client);
  end_ = std::max(end_, at_client);
}

// SGLang's lines: tokens of so many decode passes over the time they took, here of a run that ends
// at least one. The counter is never reset, so a window may begin before the benchmark does.
[[gnu::noinline]] void MetricsCollector::log_windows(const PassRun& run) {
  const auto close = [&](std::int64_t pass) {
    const TimePoint at = run.processed(pass);
    const double seconds = (at - window_start_).seconds();
    if (measuring_ && seconds > 0)
      window_best_ = std::max(window_best_, static_cast<double>(window_tokens_) / seconds);
    window_passes_ = window_tokens_ = 0;
    window_start_ = at;
  };
  for (std::int64_t pass = 0; pass < run.passes;) {
    const std::int64_t here =
        std::min<std::int64_t>(run.passes - pass, decode_log_interval_ - window_passes_);
    window_passes_ += here;
    window_tokens_ += here * run.last.batch;
    pass += here;
    if (window_passes_ < decode_log_interval_) break;
    close(pass - 1);
    // Of whole windows of one run the first is the fastest; the others only pass.
    const std::int64_t more = (run.passes - pass) / decode_log_interval_;
    if (more > 1) {
      window_tokens_ = std::int64_t{decode_log_interval_} * run.last.batch;
      close(pass + decode_log_interval_ - 1);
      pass += more * decode_log_interval_;
      window_start_ = run.processed(pass - 1);
    }
  }
}

void MetricsCollector::on_passes(const PassRun& run) {
  const PassRecord& pass = run.last;
  const bool decodes = pass.shape.extend_sequences == 0;
  if (decodes && decode_log_interval_ > 0) {
    if (window_passes_ + run.passes < decode_log_interval_) {
      window_passes_ += run.passes;
      window_tokens_ += run.passes * pass.batch;
    } else {
      log_windows(run);
    }
  }
  if (!measuring_) return;
  busy_time_ += run.device;
  if (!decodes) prefill_time_ += run.device;
  batch_max_ = std::max(batch_max_, pass.batch);
  pages_free_min_ =
      pages_free_min_ < 0 ? pass.free_pages : std::min(pages_free_min_, pass.free_pages);
  if (decodes && pass.batch >= busiest_.batch) busiest_ = pass;
}

RunMetrics MetricsCollector::summary(const ServerCounts& counts) const {
  RunMetrics m;
  m.counts = counts;
  m.duration_s = (end_ - clock_).seconds();
  m.completed = completed_;
  m.rejected = rejected_;
  m.input_tokens = input_tokens_;
  m.output_tokens = output_tokens_;
  InFlight in_flight = in_flight_;
  in_flight.close();
  if (m.duration_s > 0) {
    m.request_throughput = static_cast<double>(m.completed) / m.duration_s;
    m.input_throughput = static_cast<double>(m.input_tokens) / m.duration_s;
    m.output_throughput = static_cast<double>(m.output_tokens) / m.duration_s;
    m.total_throughput = m.input_throughput + m.output_throughput;
    m.concurrency = latency_sum_s_ / m.duration_s;
    m.time_in_prefill = prefill_time_.seconds() / m.duration_s;
    m.gpu_busy = busy_time_.seconds() / m.duration_s;
    m.in_flight_mean = in_flight.area_s() / m.duration_s;
  }
  if (m.input_tokens > 0)
    m.prefix_hit_rate = static_cast<double>(cached_tokens_) / static_cast<double>(m.input_tokens);
  m.in_flight_max = in_flight.most();
  m.ttft_ms = summarise(ttft_ms_);
  m.tpot_ms = summarise(tpot_ms_);
  m.e2e_ms = summarise(e2e_ms_);
  const auto itl = itl_.percentiles_ms({50, 90, 99});
  m.itl_ms = {itl_.mean_ms(), itl[0], itl[1], itl[2], itl_.std_dev_ms()};
  m.batch_max = batch_max_;
  if (counts.pages_total > 0 && pages_free_min_ >= 0)
    m.kv_use_max =
        1 - static_cast<double>(pages_free_min_) / static_cast<double>(counts.pages_total);
  m.retractions = counts.retractions;
  m.passes = counts.passes;
  m.decode_passes = counts.decode_passes;
  m.server_decode_throughput_peak = window_best_;
  m.busiest = busiest_;
  return m;
}

std::vector<std::pair<std::string, double>> RunMetrics::all() const {
  std::vector<std::pair<std::string, double>> out = {
      {"output_throughput", output_throughput},
      {"total_throughput", total_throughput},
      {"input_throughput", input_throughput},
      {"request_throughput", request_throughput},
      {"prefill_throughput", prefill_throughput},
      {"duration_s", duration_s},
      {"completed", static_cast<double>(completed)},
      {"rejected", static_cast<double>(rejected)},
      {"input_tokens", static_cast<double>(input_tokens)},
      {"output_tokens", static_cast<double>(output_tokens)},
  };
  for (const auto& [name, s] : {std::pair<std::string, const LatencySummary*>{"ttft_ms", &ttft_ms},
                                {"tpot_ms", &tpot_ms},
                                {"itl_ms", &itl_ms},
                                {"e2e_ms", &e2e_ms}}) {
    out.emplace_back(name + ".mean", s->mean);
    out.emplace_back(name + ".p50", s->p50);
    out.emplace_back(name + ".p90", s->p90);
    out.emplace_back(name + ".p99", s->p99);
    out.emplace_back(name + ".std", s->std_dev);
  }
  out.emplace_back("concurrency", concurrency);
  out.emplace_back("in_flight_max", static_cast<double>(in_flight_max));
  out.emplace_back("batch_max", static_cast<double>(batch_max));
  out.emplace_back("kv_use_max", kv_use_max);
  out.emplace_back("prefix_hit_rate", prefix_hit_rate);
  out.emplace_back("retractions", static_cast<double>(retractions));
  out.emplace_back("server_decode_throughput_peak", server_decode_throughput_peak);
  return out;
}

std::optional<double> RunMetrics::find(const std::string& path) const {
  for (const auto& [name, value] : all())
    if (name == path) return value;
  return std::nullopt;
}

std::vector<std::string> metric_names() {
  std::vector<std::string> out;
  for (const auto& [name, value] : RunMetrics().all()) out.push_back(name);
  return out;
}
