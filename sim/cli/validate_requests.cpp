#include "sim/cli/validate_requests.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/report/table.hpp"
#include "sim/scenario/request_log.hpp"

namespace {

std::string as_json(const std::vector<RequestErrors>& all) {
  nlohmann::ordered_json out = {{"schema", 1}, {"runs", nlohmann::ordered_json::array()}};
  const auto part = [](const LatencyErrors& e) {
    return nlohmann::ordered_json{{"measured_mean", e.measured_mean},
                                  {"predicted_mean", e.predicted_mean},
                                  {"error_of_mean", e.of_mean},
                                  {"error_per_request", e.per_request}};
  };
  for (const auto& r : all)
    out["runs"].push_back({{"run", r.run},
                           {"predictor", r.predictor},
                           {"requests", r.requests},
                           {"ttft_ms", part(r.ttft)},
                           {"tpot_ms", part(r.tpot)},
                           {"e2e_ms", part(r.e2e)}});
  return out.dump(2) + "\n";
}

}  // namespace

Exit validate_requests(const std::vector<Scenario>& scenarios, const std::string& log,
                       const std::string& format) {
  const auto all = compare_requests(scenarios, log);
  if (!all) return report_errors(all.error());
  if (format == "json") {
    print_result(as_json(*all));
    return Exit::fine;
  }
  std::string text =
      "From the moment the engine queued each request. Error of the mean, then the mean error of\n"
      "single requests.\n";
  std::string run;
  Table table({"", "requests", "TTFT", "each", "TPOT", "each", "latency", "each"}, 2);
  const auto flush = [&] {
    if (!run.empty()) text += fmt::format("\n{}\n{}", run, table.text());
  };
  for (const auto& r : *all) {
    if (r.run != run) {
      flush();
      run = r.run;
      table = Table({"", "requests", "TTFT", "each", "TPOT", "each", "latency", "each"}, 2);
      const auto ms = [](const LatencyErrors& e) { return figure(e.measured_mean) + " ms"; };
      table.row(
          {"measured", std::to_string(r.requests), ms(r.ttft), "", ms(r.tpot), "", ms(r.e2e), ""});
    }
    table.row({r.predictor, std::to_string(r.requests), percent_error(r.ttft.of_mean),
               percent(r.ttft.per_request), percent_error(r.tpot.of_mean),
               percent(r.tpot.per_request), percent_error(r.e2e.of_mean),
               percent(r.e2e.per_request)});
  }
  flush();
  print_result(text);
  return Exit::fine;
}
