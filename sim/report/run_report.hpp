#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/base/settings.hpp"
#include "sim/metrics/metrics.hpp"

/// What a result rests on, so that it can be made again.
struct ReportContext {
  std::string version, commit;
  std::string scenario_file, scenario_hash;
  std::vector<std::string> files;  // of the data folder by their path in it
  std::int64_t seed = 0;
};

/// A metric with the interval in which it lies nine times out of ten, as far as the spreads of the
/// constants go.
struct Interval {
  std::string metric;
  double value = 0, low = 0, high = 0;
};

/// A measured value beside the predicted one. `error` is predicted / measured - 1.
struct ExpectResult {
  std::string metric;
  double measured = 0, predicted = 0, error = 0;
  std::optional<double> within;
  std::string source;
  bool failed() const { return within && (error > *within || error < -*within); }
};

/// The output throughput if only one resource counted.
struct Ceiling {
  std::string resource;
  double output_throughput = 0;
};

/// A change and the output throughput it brings.
struct WhatIf {
  std::string change;  // as a --set argument
  double output_throughput = 0;
  double ratio = 0;
};

struct BreakdownRow {
  std::string operators, resource;
  std::string via;  // the transport of a collective: "staged", "P2P"
  double ms = 0, share = 0;
  Provenance provenance = Provenance::exact;
  std::string rests_on;
};

/// Everything that `ceiling run` says about one scenario.
struct RunReport {
  ReportContext context;
  std::string name, title, workload;
  std::vector<std::string> notes;
  std::vector<ResolvedValue> values;
  RunMetrics metrics;
  std::vector<Interval> intervals;                      // one per metric; empty when not asked for
  std::vector<std::pair<std::string, double>> drivers;  // constants by their effect on output tok/s
  std::vector<ExpectResult> expect;

  std::int64_t step_batch = 0;
  std::int64_t step_kv_mean = 0;
  double step_ms = 0;  // of the busiest decode pass, in a steady row of such passes
  double step_device_ms = 0, step_host_ms = 0;
  std::vector<BreakdownRow> breakdown;  // adds up to step_ms
  std::vector<std::string> breakdown_notes;
  std::vector<std::pair<Provenance, double>> provenance_shares;
  std::vector<Ceiling> ceilings;  // lowest first
  std::string verdict;
  std::vector<WhatIf> what_ifs;
  std::vector<std::string> warnings;
  std::string next;  // a hint what to measure next
  Tokens kv_tokens;
  bool little_holds = false, conserved = false;
  double little_l = 0, little_rate = 0, little_w = 0;

  const Interval* interval(const std::string& metric) const;
  bool failed() const;
};

/// The report of one run as text.
std::string render(const RunReport& report);

/// Side by side: a base and what-ifs.
std::string render_comparison(const std::vector<RunReport>& reports);

/// A row per point and metric, then median and p90 per file.
std::string render_validation(const std::vector<RunReport>& reports);

/// The machine-readable form: {"schema", "context", "results"}.
std::string to_json(const std::vector<RunReport>& reports);
