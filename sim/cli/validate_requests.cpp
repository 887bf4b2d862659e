#include "sim/cli/validate_requests.hpp"

#include "sim/scenario/measured_requests.hpp"

Exit validate_requests(const std::vector<Scenario>& scenarios, const std::string& log,
                       const std::string& format) {
  const auto all = compare_requests(scenarios, log);
  if (!all) return report_errors(all.error());
  print_result(format == "json" ? request_errors_to_json(*all) : render_request_errors(*all));
  return Exit::fine;
}
