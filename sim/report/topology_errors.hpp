#pragma once

#include <string>
#include <vector>

/// How far off predictions may be, as absolute fractions; 0: no such bar.
struct ErrorBar {
  double each = 0, median = 0, p90 = 0;
};

/// One measured transfer or collective beside its prediction.
struct TopologyLine {
  std::string file, machine;  // the machine's id in the catalogue, or its file's name
  std::string name, kind;
  std::string unit;  // of both: "GB/s", "us"
  double measured = 0, predicted = 0;
  ErrorBar bar;          // of all rows of its kind
  std::string limit;     // what holds the prediction
  std::string left_out;  // why it is not judged; empty: it is

  double error() const { return predicted / measured - 1; }
  bool missed() const {
    return left_out.empty() && bar.each > 0 && (error() > bar.each || error() < -bar.each);
  }
};

struct TopologyReport {
  std::vector<TopologyLine> lines;
  /// Rows beyond the bar of each, and kinds beyond their bar of the median or of nine in ten.
  std::size_t missed() const;
};

/// A table per file, then a line per kind with its bar.
std::string render_topology_errors(const TopologyReport& report);
/// {"schema", "rows": [{file, machine, name, kind, unit, measured, predicted, error, bar, limit,
/// left_out}], "kinds": [{kind, rows, median_error, p90_error, worst_error, bar, median_bar,
/// p90_bar, missed}]}; the kinds' errors are absolute fractions, a bar of 0 is none.
std::string topology_errors_to_json(const TopologyReport& report);
