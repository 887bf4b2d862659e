#include "sim/metrics/metrics.hpp"

#include <algorithm>

#include "sim/base/assert.hpp"
#include "sim/base/statistics.hpp"

namespace {

LatencySummary summarise(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {mean(values), percentile(values, 50), percentile(values, 90), percentile(values, 99),
          standard_deviation(values)};
}

}  // namespace

MetricsCollector::MetricsCollector(int decode_log_interval)
    : decode_log_interval_(decode_log_interval) {}

void MetricsCollector::on_clock(TimePoint at) {
  measuring_ = true;
  clock_ = end_ = at;
  prefill_time_ = busy_time_ = Duration();
  busiest_ = {};
  batch_max_ = 0;
  pages_free_min_ = -1;
}

void MetricsCollector::on_send(std::size_t index, RequestId id, TimePoint at) {
  records_[id] = {index, at, at, at, 0, 0, false};
}

void MetricsCollector::on_tokens(const Request& request, int new_tokens, TimePoint at_client) {
  const auto it = records_.find(request.id);
  if (it == records_.end()) return;  // a warm-up request
  Record& r = it->second;
  SIM_ASSERT(at_client >= r.last);
  if (r.tokens == 0)
    r.first = at_client;
  else
    for (int i = 0; i < new_tokens; ++i) itl_ms_.push_back((at_client - r.last).ms() / new_tokens);
  r.tokens += new_tokens;
  r.last = at_client;
}

void MetricsCollector::on_finish(const Request& request, TimePoint at_client) {
  const auto it = records_.find(request.id);
  if (it == records_.end()) return;
  it->second.finished = true;
  it->second.input = request.prompt;
  end_ = std::max(end_, at_client);
}

void MetricsCollector::on_reject(const Request& request, TimePoint at_client) {
  const auto it = records_.find(request.id);
  if (it == records_.end()) return;
  ++rejected_;
  end_ = std::max(end_, at_client);
}

void MetricsCollector::on_pass(const PassRecord& pass) {
  if (pass.shape.extend_sequences == 0) {
    // SGLang's counter is never reset, so a window may begin before the benchmark does.
    window_tokens_ += pass.batch;
    if (++window_passes_ == decode_log_interval_) {
      const double seconds = (pass.processed - window_start_).seconds();
      if (measuring_ && seconds > 0)
        window_best_ = std::max(window_best_, static_cast<double>(window_tokens_) / seconds);
      window_passes_ = window_tokens_ = 0;
      window_start_ = pass.processed;
    }
  }
  const TimePoint began = std::max({pass.launched, gpu_last_, clock_});
  gpu_last_ = pass.finished;
  if (!measuring_) return;
  const Duration busy = std::max(Duration(), pass.finished - began);
  busy_time_ += busy;
  if (pass.shape.extend_sequences > 0) prefill_time_ += busy;
  batch_max_ = std::max(batch_max_, pass.batch);
  pages_free_min_ =
      pages_free_min_ < 0 ? pass.free_pages : std::min(pages_free_min_, pass.free_pages);
  if (pass.shape.extend_sequences == 0 && pass.batch >= busiest_.batch) busiest_ = pass;
}

RunMetrics MetricsCollector::summary(const ServerCounts& counts) const {
  RunMetrics m;
  m.counts = counts;
  m.duration_s = (end_ - clock_).seconds();
  std::vector<double> ttft, tpot, e2e;
  double latency_sum = 0;
  for (const auto& [id, r] : records_) {
    if (!r.finished) continue;
    ++m.completed;
    m.input_tokens += r.input;
    m.output_tokens += r.tokens;
    ttft.push_back((r.first - r.sent).ms());
    e2e.push_back((r.last - r.sent).ms());
    if (r.tokens > 1) tpot.push_back((r.last - r.first).ms() / static_cast<double>(r.tokens - 1));
    latency_sum += (r.last - r.sent).seconds();
  }
  m.rejected = rejected_;
  if (m.duration_s > 0) {
    m.request_throughput = static_cast<double>(m.completed) / m.duration_s;
    m.input_throughput = static_cast<double>(m.input_tokens) / m.duration_s;
    m.output_throughput = static_cast<double>(m.output_tokens) / m.duration_s;
    m.total_throughput = m.input_throughput + m.output_throughput;
    m.concurrency = latency_sum / m.duration_s;
    m.time_in_prefill = prefill_time_.seconds() / m.duration_s;
    m.gpu_busy = busy_time_.seconds() / m.duration_s;
  }
  m.ttft_ms = summarise(std::move(ttft));
  m.tpot_ms = summarise(std::move(tpot));
  m.itl_ms = summarise(itl_ms_);
  m.e2e_ms = summarise(std::move(e2e));
  // In flight over time: +1 at each send, -1 at each end.
  std::vector<std::pair<TimePoint, int>> changes;
  for (const auto& [id, r] : records_)
    if (r.finished) changes.insert(changes.end(), {{r.sent, +1}, {r.last, -1}});
  std::sort(changes.begin(), changes.end());
  std::int64_t in_flight = 0;
  TimePoint before = clock_;
  double area = 0;
  for (const auto& [at, change] : changes) {
    area += static_cast<double>(in_flight) * (at - before).seconds();
    before = at;
    m.in_flight_max = std::max(m.in_flight_max, in_flight += change);
  }
  if (m.duration_s > 0) m.in_flight_mean = area / m.duration_s;
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
