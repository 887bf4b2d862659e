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
  std::string left_out;  // why it counts in no statistic; empty when it does
  bool failed() const { return within && (error > *within || error < -*within); }
};

/// The throughput if only one resource counted.
struct Ceiling {
  std::string resource;
  double throughput = 0;
};

/// A change and the throughput it brings.
struct WhatIf {
  std::string change;  // as a --set argument
  double throughput = 0;
  double ratio = 0;
};

/// What a run was: requests through a scheduler, or passes that follow by themselves.
enum class RunKind { serving, steady_decode, cold_prefill };

struct BreakdownRow {
  std::string operators, resource;
  std::string via;   // the transport of a collective: "staged", "P2P", "NVLink"
  std::string link;  // and the link that holds its ring: "gpu0 - switch0, 53.4 GB/s"
  double ms = 0, share = 0;
  Provenance provenance = Provenance::exact;
  std::string rests_on;
};

/// Everything that `ceiling run` says about one scenario.
struct RunReport {
  ReportContext context;
  std::string name, title, workload;
  RunKind kind = RunKind::serving;
  std::string build;                // its id
  std::int64_t sequences = 0;       // steady decode: how many; cold prefill: one
  std::int64_t kv_tokens_each = 0;  // before a steady decode begins; cold prefill: the prompt
  std::vector<std::string> known_defects;  // of the build, in whose range this run lies
  std::vector<std::string> notes;
  std::vector<ResolvedValue> values;
  RunMetrics metrics;
  std::vector<RequestRecord> requests;  // in the order of their ends; empty when not asked for
  std::vector<Interval> intervals;      // one per metric; empty when not asked for
  std::vector<std::pair<std::string, double>> drivers;  // constants by their effect on output tok/s
  std::vector<ExpectResult> expect;

  std::int64_t step_batch = 0;
  std::int64_t step_kv_mean = 0;
  double step_ms = 0;  // of the busiest decode pass, in a steady row of such passes; cold prefill:
                       // of all its passes
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

  /// The metric that the run is about: "output_throughput", of a cold prefill "prefill_throughput".
  std::string headline() const;
  double throughput() const { return *metrics.find(headline()); }
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
