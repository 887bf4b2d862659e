// Result files of the two load generators, under their own field names. sglang: the JSON line that
// bench_serving v0.5.9 appends to --output-file. vllm: what `vllm bench serve
// --save-result` writes (vllm/benchmarks/serve.py @009e6d4).

#include "sim/report/bench_file.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/statistics.hpp"

namespace {

using Line = nlohmann::ordered_json;

template <class T>
Line or_null(const std::optional<T>& value) {
  return value ? Line(*value) : Line();
}

std::vector<double> all_gaps_ms(const BenchResult& r) {
  std::vector<double> out;
  for (const auto& q : r.requests)
    for (const double gap : q.gaps_s) out.push_back(1e3 * gap);
  std::sort(out.begin(), out.end());
  return out;
}

// A percentile that the summary does not hold; null without the gaps themselves.
Line gap_percentile_ms(const BenchResult& r, double percent) {
  const auto gaps = all_gaps_ms(r);
  return gaps.empty() ? Line() : Line(percentile(gaps, percent));
}

// Both tools count tokens and requests in seconds from the first request sent.
struct Buckets {
  double tokens_max = 0;
  std::int64_t requests_max = 0;  // in flight at some time in one second

  explicit Buckets(const std::vector<BenchRequest>& requests) {
    if (requests.empty()) return;
    double start = requests.front().sent_s, end = start;
    for (const auto& r : requests)
      if (!r.failed) start = std::min(start, r.sent_s), end = std::max(end, r.last_s);
    const auto seconds = static_cast<std::size_t>(std::ceil(end - start)) + 1;
    std::vector<double> tokens(seconds);
    std::vector<std::int64_t> in_flight(seconds);
    const auto second = [&](double at) { return static_cast<std::size_t>(at - start); };
    for (const auto& r : requests) {
      if (r.failed) continue;
      double at = r.first_s;
      tokens[second(at)] += 1;
      for (const double gap : r.gaps_s)
        if (second(at += gap) < seconds) tokens[second(at)] += 1;
      for (auto s = second(r.sent_s); s < std::min(second(r.last_s) + 1, seconds); ++s)
        ++in_flight[s];
    }
    tokens_max = *std::max_element(tokens.begin(), tokens.end());
    requests_max = *std::max_element(in_flight.begin(), in_flight.end());
  }
};

bool has_gaps(const BenchResult& r) {
  return std::any_of(r.requests.begin(), r.requests.end(),
                     [](const BenchRequest& q) { return !q.gaps_s.empty(); });
}

void put_latency(Line& out, const std::string& name, const LatencySummary& s) {
  out["mean_" + name] = s.mean;
  out["median_" + name] = s.p50;
  out["std_" + name] = s.std_dev;
}

void put_details(Line& out, const BenchResult& r, bool start_times) {
  const auto array = [&](const char* key, auto value) {
    Line list = Line::array();
    for (const auto& q : r.requests) list.push_back(value(q));
    out[key] = std::move(list);
  };
  array("input_lens", [](const BenchRequest& q) { return q.input; });
  array("output_lens", [](const BenchRequest& q) { return q.output; });
  array("ttfts", [](const BenchRequest& q) { return q.failed ? 0.0 : q.first_s - q.sent_s; });
  array("itls", [](const BenchRequest& q) { return q.gaps_s; });
  if (start_times) array("start_times", [](const BenchRequest& q) { return q.sent_s; });
  array("generated_texts", [](const BenchRequest&) { return ""; });
  array("errors", [](const BenchRequest& q) {
    return q.failed ? "rejected: longer than the server allows" : "";
  });
}

Line sglang_line(const BenchResult& r, bool details) {
  const RunMetrics& m = r.metrics;
  Line out;
  out["tag"] = r.label.empty() ? Line() : Line(r.label);
  out["backend"] = "sglang";
  out["dataset_name"] = r.dataset;
  out["request_rate"] = std::isinf(r.request_rate) ? Line("Infinity") : Line(r.request_rate);
  out["max_concurrency"] = or_null(r.max_concurrency);
  out["sharegpt_output_len"] = nullptr;
  out["random_input_len"] = or_null(r.random_input_len);
  out["random_output_len"] = or_null(r.random_output_len);
  out["random_range_ratio"] = or_null(r.random_range_ratio);
  out["server_info"] = nullptr;
  for (const auto& [flag, value] : r.server_info) out["server_info"][flag] = Line::parse(value);
  out["duration"] = m.duration_s;
  out["completed"] = m.completed;
  out["total_input_tokens"] = m.input_tokens;
  out["total_input_text_tokens"] = m.input_tokens;
  out["total_input_vision_tokens"] = 0;
  out["total_output_tokens"] = m.output_tokens;
  out["total_output_tokens_retokenized"] = nullptr;
  out["request_throughput"] = m.request_throughput;
  out["input_throughput"] = m.input_throughput;
  out["output_throughput"] = m.output_throughput;
  out["total_throughput"] = m.total_throughput;
  put_latency(out, "e2e_latency_ms", m.e2e_ms);
  out["p90_e2e_latency_ms"] = m.e2e_ms.p90;
  out["p99_e2e_latency_ms"] = m.e2e_ms.p99;
  put_latency(out, "ttft_ms", m.ttft_ms);
  out["p99_ttft_ms"] = m.ttft_ms.p99;
  put_latency(out, "tpot_ms", m.tpot_ms);
  out["p99_tpot_ms"] = m.tpot_ms.p99;
  put_latency(out, "itl_ms", m.itl_ms);
  out["p95_itl_ms"] = gap_percentile_ms(r, 95);
  out["p99_itl_ms"] = m.itl_ms.p99;
  out["concurrency"] = m.concurrency;
  out["accept_length"] = nullptr;
  const Buckets buckets(r.requests);
  out["max_output_tokens_per_s"] = has_gaps(r) ? Line(buckets.tokens_max) : Line();
  out["max_concurrent_requests"] = r.requests.empty() ? Line() : Line(buckets.requests_max);
  if (details) put_details(out, r, false);
  return out;
}

Line vllm_line(const BenchResult& r, bool details) {
  const RunMetrics& m = r.metrics;
  Line out;
  out["date"] = nullptr;
  out["endpoint_type"] = "openai";
  out["backend"] = "openai";
  out["label"] = r.label.empty() ? Line() : Line(r.label);
  out["model_id"] = r.model;
  out["tokenizer_id"] = r.model;
  out["num_prompts"] = r.num_prompts;
  out["request_rate"] = std::isinf(r.request_rate) ? Line("inf") : Line(r.request_rate);
  // Python writes an infinite burstiness without quotes.
  out["burstiness"] = std::isinf(r.burstiness) ? Line("Infinity") : Line(r.burstiness);
  out["max_concurrency"] = or_null(r.max_concurrency);
  if (r.ramp_up_strategy) {
    out["ramp_up_strategy"] = *r.ramp_up_strategy;
    out["ramp_up_start_rps"] = r.ramp_up_start_rps;
    out["ramp_up_end_rps"] = r.ramp_up_end_rps;
  }
  out["duration"] = m.duration_s;
  out["completed"] = m.completed;
  out["failed"] = m.rejected;
  out["total_input_tokens"] = m.input_tokens;
  out["total_output_tokens"] = m.output_tokens;
  out["request_throughput"] = m.request_throughput;
  out["request_goodput"] = nullptr;  // as without --goodput
  out["output_throughput"] = m.output_throughput;
  out["total_token_throughput"] = m.total_throughput;
  if (details) put_details(out, r, true);
  const Buckets buckets(r.requests);
  out["max_output_tokens_per_s"] = has_gaps(r) ? Line(buckets.tokens_max) : Line();
  out["max_concurrent_requests"] = m.in_flight_max;
  for (const auto& [name, s] :
       {std::pair<std::string, const LatencySummary*>{"ttft_ms", &m.ttft_ms},
        {"tpot_ms", &m.tpot_ms},
        {"itl_ms", &m.itl_ms},
        {"e2el_ms", &m.e2e_ms}}) {
    put_latency(out, name, *s);
    out["p99_" + name] = s->p99;
  }
  return out;
}

}  // namespace

std::string bench_json(const BenchResult& result, BenchFormat format, bool details) {
  details = details && !result.requests.empty();
  auto text =
      (format == BenchFormat::sglang ? sglang_line(result, details) : vllm_line(result, details))
          .dump();
  // Python's json writes infinity as a bare word; this library has no such number.
  for (const char* key : {"request_rate", "burstiness"}) {
    const auto quoted = fmt::format("\"{}\":\"Infinity\"", key);
    if (const auto at = text.find(quoted); at != std::string::npos)
      text.replace(at, quoted.size(), fmt::format("\"{}\":Infinity", key));
  }
  return text + "\n";
}

namespace {

std::string value_of(const RunReport& report, const std::string& path) {
  for (const auto& v : report.values)
    if (v.path == path) return v.value;
  return {};
}

std::optional<std::int64_t> count_of(const RunReport& report, const std::string& path) {
  const auto n = parse<std::int64_t>(value_of(report, path));
  return n ? std::optional(*n) : std::nullopt;
}

double rate_of(const RunReport& report, const std::string& path, double fallback) {
  const auto rate = parse<PerSecond>(value_of(report, path));
  return rate ? rate->count() : fallback;
}

}  // namespace

BenchFormat default_bench_format(const RunReport& report) {
  const auto workload = value_of(report, "workload.kind");
  if (workload == "bench_serving") return BenchFormat::sglang;
  if (workload == "vllm_bench") return BenchFormat::vllm;
  return value_of(report, "engine.kind") == "vllm" ? BenchFormat::vllm : BenchFormat::sglang;
}

BenchResult bench_result(const RunReport& report) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  BenchResult out;
  out.label = report.name;
  out.model = value_of(report, "model.name");
  out.metrics = report.metrics;
  // The tools list requests as they sent them.
  std::vector<const RequestRecord*> as_sent;
  for (const RequestRecord& r : report.requests) as_sent.push_back(&r);
  std::sort(as_sent.begin(), as_sent.end(),
            [](const auto* a, const auto* b) { return a->index < b->index; });
  for (const auto* record : as_sent) {
    const RequestRecord& r = *record;
    out.requests.push_back({r.input,
                            r.output,
                            r.sent.since_start().seconds(),
                            r.first.since_start().seconds(),
                            r.last.since_start().seconds(),
                            {},
                            r.rejected});
    for (const Duration gap : r.gaps) out.requests.back().gaps_s.push_back(gap.seconds());
  }
  const auto kind = value_of(report, "workload.kind");
  const auto at = [](const char* key) { return std::string("workload.") + key; };
  if (const auto dataset = value_of(report, at("dataset")); !dataset.empty()) out.dataset = dataset;
  if (kind != "bench_serving" && kind != "vllm_bench") out.dataset = kind;
  out.request_rate = rate_of(report, at("request_rate"), inf);
  out.max_concurrency = count_of(report, at("max_concurrency"));
  if (!out.max_concurrency) out.max_concurrency = count_of(report, at("concurrency"));
  out.num_prompts = report.metrics.completed + report.metrics.rejected;
  if (const auto burstiness = value_of(report, at("burstiness")); burstiness == "inf")
    out.burstiness = inf;
  else if (const auto b = parse<double>(burstiness))
    out.burstiness = *b;
  if (const auto ramp = value_of(report, at("ramp_up_strategy")); !ramp.empty()) {
    out.ramp_up_strategy = ramp;
    out.ramp_up_start_rps = rate_of(report, at("ramp_up_start_rps"), 0);
    out.ramp_up_end_rps = rate_of(report, at("ramp_up_end_rps"), 0);
  }
  const bool vllm = kind == "vllm_bench";
  out.random_input_len = count_of(report, at(vllm ? "random_input_len" : "input_tokens"));
  out.random_output_len = count_of(report, at(vllm ? "random_output_len" : "output_tokens"));
  if (const auto r =
          parse<double>(value_of(report, at(vllm ? "random_range_ratio" : "range_ratio"))))
    out.random_range_ratio = *r;
  if (value_of(report, "engine.kind") != "sglang") return out;
  // Flags that a reader of the file needs to run the same server.
  const auto put = [&](const char* flag, const std::string& path) {
    const auto text = value_of(report, "engine." + path);
    if (text.empty()) return;
    if (const auto n = parse<double>(text))
      out.server_info[flag] =
          Line(*n == std::floor(*n) && std::abs(*n) < 9e15 ? Line(static_cast<std::int64_t>(*n))
                                                           : Line(*n))
              .dump();
    else if (const auto b = parse<bool>(text))
      out.server_info[flag] = *b ? "true" : "false";
    else
      out.server_info[flag] = Line(text).dump();
  };
  if (const auto version = value_of(report, "build.version"); !version.empty())
    out.server_info["version"] = Line(version).dump();
  put("tp_size", "tensor_parallel");
  for (const char* flag :
       {"chunked_prefill_size", "max_prefill_tokens", "schedule_conservativeness", "context_length",
        "page_size", "disable_overlap_schedule", "cuda_graph_max_bs", "disable_cuda_graph_padding",
        "mem_fraction_static", "max_running_requests", "kv_cache_dtype"})
    put(flag, flag);
  if (const auto graph = parse<bool>(value_of(report, "engine.cuda_graph")))
    out.server_info["disable_cuda_graph"] = *graph ? "false" : "true";
  return out;
}
