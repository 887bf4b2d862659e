#include "sim/report/request_errors.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/report/table.hpp"

std::string render_request_errors(const std::vector<RequestErrors>& all) {
  std::string text =
      "From the moment the engine queued each request. Error of the mean, then the mean error of\n"
      "single requests.\n";
  std::string run;
  Table table({"", "requests", "TTFT", "each", "TPOT", "each", "latency", "each"}, 2);
  const auto flush = [&] {
    if (!run.empty()) text += fmt::format("\n{}\n{}", run, table.text());
  };
  for (const auto& r : all) {
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
  return text;
}

std::string request_errors_to_json(const std::vector<RequestErrors>& all) {
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
