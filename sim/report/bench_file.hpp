#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/metrics/metrics.hpp"
#include "sim/report/run_report.hpp"

/// Whose result file is written: sglang.bench_serving's (v0.5.9) or vllm bench serve's.
enum class BenchFormat { sglang, vllm };

/// One request as a load generator's details have it; times in seconds on the
/// benchmark's clock.
struct BenchRequest {
  std::int64_t input = 0, output = 0;
  double sent_s = 0, first_s = 0, last_s = 0;
  std::vector<double> gaps_s;  // between its chunks
  bool failed = false;         // the server turned it away
};

/// What a load generator knows at the end of one run.
struct BenchResult {
  std::string label;               // sglang's tag, vllm's label
  std::string model;               // vllm: model_id
  std::string dataset = "random";  // dataset_name
  double request_rate = 0;         // per second; infinity is one
  double burstiness = 1;           // vllm
  std::optional<std::int64_t> max_concurrency;
  std::int64_t num_prompts = 0;  // vllm
  /// vllm: written only with a ramp; its name, start and end.
  std::optional<std::string> ramp_up_strategy;
  double ramp_up_start_rps = 0, ramp_up_end_rps = 0;
  std::optional<std::int64_t> random_input_len, random_output_len;  // sglang
  std::optional<double> random_range_ratio;                         // sglang
  /// Flags of the server under the engine's own names, as JSON values ("8", "false", "\"fp8\"").
  std::map<std::string, std::string> server_info;  // sglang
  RunMetrics metrics;
  std::vector<BenchRequest> requests;  // empty: aggregates only, and what needs them is null
};

/// What a report of a serving run tells of the benchmark.
BenchResult bench_result(const RunReport& report);

/// sglang where the engine or the workload is SGLang's, else vllm.
BenchFormat default_bench_format(const RunReport& report);

/// One JSON object on one line, with the field names of the tool. `details` adds the arrays of
/// --output-details or --save-detailed, where `result.requests` are there. Null is what a
/// simulation cannot know: re-tokenised counts, dates; texts are empty.
std::string bench_json(const BenchResult& result, BenchFormat format, bool details);
