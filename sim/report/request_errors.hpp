#pragma once

#include <cstddef>
#include <string>
#include <vector>

/// Error of a mean, and mean of the errors of single requests (without their signs).
struct LatencyErrors {
  double measured_mean = 0, predicted_mean = 0;
  double of_mean = 0, per_request = 0;
};

/// One predictor's errors on one run.
struct RequestErrors {
  std::string run, predictor;
  std::size_t requests = 0;
  LatencyErrors ttft, tpot, e2e;
};

std::string render_request_errors(const std::vector<RequestErrors>& all);
/// {"schema", "runs": [{run, predictor, requests, ttft_ms: {measured_mean, ...}, ...}]}
std::string request_errors_to_json(const std::vector<RequestErrors>& all);
