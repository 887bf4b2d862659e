#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/report/run_report.hpp"

/// How a build's predictions sit beside its measured rows, or those of all builds together. Errors
/// of a steady decode are those of the step time, of a cold prefill those of its rate: both
/// predicted / measured - 1.
struct BuildErrors {
  std::string build;
  RunKind kind = RunKind::steady_decode;
  std::vector<double> errors;
  std::int64_t left_out = 0;  // rows that count in no statistic
  /// By sequences of a decode, by tokens of a prompt: mean error.
  std::map<std::int64_t, std::vector<double>> by_size;
  std::vector<std::string> known_defects;  // met by these rows, each once

  double bias() const;
  double median() const;  // of the absolute errors
  double p90() const;
};

/// Predicted / measured - 1; of an output rate, that of the time between two tokens of a request.
double step_error(const ExpectResult& e);

/// One entry per build and kind in the order of the reports, then one per kind for all builds when
/// there are several. Runs with a scheduler are not counted.
std::vector<BuildErrors> errors_by_build(const std::vector<RunReport>& reports);

/// The table by build and concurrency (decode) or prompt length (prefill); empty without such runs.
std::string render_build_table(const std::vector<BuildErrors>& builds);
