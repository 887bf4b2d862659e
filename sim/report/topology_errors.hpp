#pragma once

#include <string>
#include <vector>

/// One measured transfer beside its prediction.
struct TopologyLine {
  std::string file, machine;  // the machine's id in the catalogue, or its file's name
  std::string name, kind;
  std::string unit;  // of both: "GB/s"
  double measured = 0, predicted = 0;
  double bar = 0;        // absolute error that is still good
  std::string limit;     // what holds the prediction
  std::string left_out;  // why it is not judged; empty: it is

  double error() const { return predicted / measured - 1; }
  bool missed() const { return left_out.empty() && (error() > bar || error() < -bar); }
};

struct TopologyReport {
  std::vector<TopologyLine> lines;
  std::size_t missed() const;
};

/// A table per file, then a line per kind with its bar.
std::string render_topology_errors(const TopologyReport& report);
/// {"schema", "rows": [{file, machine, name, kind, unit, measured, predicted, error, bar, limit,
/// left_out}], "kinds": [{kind, rows, median_error, worst_error, bar, missed}]}; the kinds' errors
/// are absolute fractions.
std::string topology_errors_to_json(const TopologyReport& report);
