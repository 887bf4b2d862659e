#pragma once

#include <functional>

#include "sim/scenario/scenario.hpp"

/// The two numbers of a build: microseconds of small kernels a layer, and the rate at which the
/// weights of touched experts are read.
struct TwoNumbers {
  double small_kernels_us = 0;
  double moe_rate = 0;  // B/s
};

/// Where they may lie.
struct TwoNumbersBounds {
  double small_kernels_us_max = 300;
  double moe_rate_min = 0.2e12, moe_rate_max = 1.792e12;  // at most what the memory delivers
};

/// log(predicted / measured) of every row with these numbers.
using LogErrors = std::function<std::vector<double>(const TwoNumbers&)>;

/// The numbers of least squared log error, with factors within which the rows hold each nine times
/// out of ten.
struct TwoNumbersFit {
  TwoNumbers numbers;
  double small_kernels_spread = 1, moe_rate_spread = 1;
  bool small_kernels_at_bound = false, moe_rate_at_bound = false;
  std::vector<double> errors;         // predicted / measured - 1 of each row
  std::vector<double> leave_one_out;  // each row predicted from the others, to first order
};

/// Gauss-Newton in (small kernels, log rate) from `start`, inside the bounds. Needs three rows.
TwoNumbersFit fit_two_numbers(const LogErrors& log_errors, const TwoNumbers& start,
                              const TwoNumbersBounds& bounds);

/// One measured row that a fit uses.
struct FitRow {
  std::string name;
  std::int64_t sequences = 0;
};

struct BuildFit {
  std::string build;
  std::vector<FitRow> rows;
  std::vector<std::string> fitted_on;  // "measured glm-5-sglang-cutlass"
  std::vector<double> unfitted;        // errors of the step time without the two numbers
  std::vector<double> before;          // with those that the build has; empty when it has none
  TwoNumbersFit fit;
};

/// Fits the two numbers of `build` on the decode rows of these scenarios that are not left out.
/// Every scenario must run that build under a workload that needs no scheduler.
Expected<BuildFit> fit_build(const std::string& build, const std::vector<Scenario>& scenarios);
