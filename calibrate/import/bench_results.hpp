#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/diagnostics.hpp"

/// One run as a load generator recorded it.
struct BenchRun {
  std::string tool;  // sglang, vllm
  std::string name;  // its tag or label, else empty
  int line = 0;
  /// Options of the workload in scenario words with their values as text, in the order in which
  /// they are written; of `bench_serving` or `vllm_bench`.
  std::vector<std::pair<std::string, std::string>> workload;
  /// Flags of the server that the engine section knows; sglang only.
  std::vector<std::pair<std::string, std::string>> engine;
  /// Measured metrics by their path ("ttft_ms.mean") with value and unit.
  std::vector<std::pair<std::string, std::string>> measured;
  std::string model;               // as the file names it; empty: it does not
  std::vector<std::string> notes;  // what the file does not tell, or tells only in part
};

/// Reads a result file of sglang.bench_serving (a JSON line a run) or of vllm bench serve (one
/// object, or a line each). Refused: what is neither, fields that are missing or no numbers, runs
/// without a finished request, runs of both tools in one file.
Expected<std::vector<BenchRun>> import_bench(const std::string& path);

/// The runs as a scenario file without its machine: workload, engine, expect and points.
std::string bench_scenario(const std::string& path, const std::vector<BenchRun>& runs);
