#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/report/request_errors.hpp"
#include "sim/scenario/scenario.hpp"

/// Latencies of one request as an engine tells them itself: from the moment it queued the request.
struct RequestLatencies {
  double ttft_ms = 0, tpot_ms = 0, e2e_ms = 0;
};

/// One measured request, and what other simulators predicted for it.
struct MeasuredRequest {
  std::int64_t input = 0, output = 0;
  RequestLatencies measured;
  std::map<std::string, RequestLatencies> predicted_by;  // "lss" from columns lss_pred_ttft_ms, ...
};

/// A log of requests by run (its column `run`; one without a name where there is none). Columns:
/// input_tokens, output_tokens, ttft_ms, tpot_ms, latency_ms, and NAME_pred_ of the last three.
Expected<std::map<std::string, std::vector<MeasuredRequest>>> load_measured_requests(
    const std::string& path);

/// Plays each scenario and compares request by request with the run of its name: the workload must
/// be the same list. The errors of others who predicted the run come behind its own.
Expected<std::vector<RequestErrors>> compare_requests(const std::vector<Scenario>& scenarios,
                                                      const std::string& log);
