#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "sim/base/statistics.hpp"
#include "sim/report/run_report.hpp"
#include "sim/report/table.hpp"

std::string render_validation(const std::vector<RunReport>& reports) {
  Table table({"", "metric", "measured", "predicted", "error", "bar", ""}, 2);
  table.left(1).left(6);
  std::vector<std::string> order;
  std::map<std::string, std::vector<double>> by_file;
  std::size_t failed = 0, judged = 0;
  for (const auto& r : reports) {
    for (const auto& e : r.expect) {
      table.row({r.name, e.metric, figure(e.measured), figure(e.predicted), percent_error(e.error),
                 e.within ? "+-" + percent(*e.within) : "not judged", e.failed() ? "MISS" : ""});
      if (!e.within) continue;
      const auto& file = r.context.scenario_file;
      if (!by_file.contains(file)) order.push_back(file);
      by_file[file].push_back(std::abs(e.error));
      ++judged;
      failed += e.failed();
    }
    if (r.expect.empty())
      table.row(
          {r.name, "output_throughput", "-", figure(r.metrics.output_throughput), "", "none", ""});
  }
  std::string out = table.text() + "\n";
  Table files({"file", "judged", "median error", "p90"}, 2);
  for (const auto& file : order) {
    auto errors = by_file[file];
    std::sort(errors.begin(), errors.end());
    files.row({file, fmt::format("{}", errors.size()), percent(percentile(errors, 50)),
               percent(percentile(errors, 90))});
  }
  if (!order.empty()) out += files.text() + "\n";
  out += fmt::format("  {} of {} judged values within their bar\n", judged - failed, judged);
  return out;
}
