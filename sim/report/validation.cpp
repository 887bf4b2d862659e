#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "sim/base/statistics.hpp"
#include "sim/report/build_table.hpp"
#include "sim/report/run_report.hpp"
#include "sim/report/table.hpp"

namespace {

std::string remark(const RunReport& r, const ExpectResult& e) {
  if (e.failed()) return "MISS";
  if (!e.left_out.empty()) return "left out: " + e.left_out;
  return r.known_defects.empty() ? "" : "known defect";
}

// A table per file of runs without a scheduler: they come in series, and decode is judged by its
// step.
std::string steady_rows(const std::vector<RunReport>& reports) {
  std::string out;
  for (std::size_t i = 0; i < reports.size();) {
    const RunReport& first = reports[i];
    if (first.kind == RunKind::serving) {
      ++i;
      continue;
    }
    const bool decode = first.kind == RunKind::steady_decode;
    const std::string& file = first.context.scenario_file;
    Table table({decode ? "step in ms" : "prefill in tok/s", "measured", "predicted", "error", ""},
                4);
    table.left(4);
    for (; i < reports.size() && reports[i].context.scenario_file == file &&
           reports[i].kind == first.kind;
         ++i) {
      const RunReport& r = reports[i];
      const auto bracket = r.name.find(" [");
      const std::string name = bracket == std::string::npos
                                   ? r.name
                                   : r.name.substr(bracket + 2, r.name.size() - bracket - 3);
      const double predicted = decode ? r.metrics.tpot_ms.mean : r.throughput();
      if (r.expect.empty()) table.row({name, "-", figure(predicted)});
      for (const auto& e : r.expect) {
        const double error = step_error(e);
        const bool rate = e.metric == "output_throughput";
        table.row({name, figure(rate ? predicted / (1 + error) : e.measured),
                   figure(rate ? predicted : e.predicted), percent_error(error), remark(r, e)});
      }
    }
    out += fmt::format("  {}\n{}\n", file, table.text());
  }
  return out;
}

}  // namespace

std::string render_validation(const std::vector<RunReport>& reports) {
  Table table({"", "metric", "measured", "predicted", "error", "bar", ""}, 2);
  table.left(1).left(6);
  std::vector<std::string> order;
  std::map<std::string, std::vector<double>> by_file;
  std::size_t failed = 0, judged = 0;
  bool serving = false;
  for (const auto& r : reports) {
    for (const auto& e : r.expect) {
      if (e.within) {
        const auto& file = r.context.scenario_file;
        if (!by_file.contains(file)) order.push_back(file);
        by_file[file].push_back(std::abs(e.error));
        ++judged;
        failed += e.failed();
      }
      if (r.kind != RunKind::serving) continue;
      table.row({r.name, e.metric, figure(e.measured), figure(e.predicted), percent_error(e.error),
                 e.within ? "+-" + percent(*e.within) : "not judged", remark(r, e)});
    }
    if (r.kind != RunKind::serving) continue;
    serving = true;
    if (r.expect.empty())
      table.row({r.name, r.headline(), "-", figure(r.throughput()), "", "none", ""});
  }
  std::string out = serving ? table.text() + "\n" : "";
  out += steady_rows(reports);
  Table files({"file", "judged", "median error", "p90"}, 2);
  for (const auto& file : order) {
    auto errors = by_file[file];
    std::sort(errors.begin(), errors.end());
    files.row({file, fmt::format("{}", errors.size()), percent(percentile(errors, 50)),
               percent(percentile(errors, 90))});
  }
  if (!order.empty()) out += files.text() + "\n";
  out += render_build_table(errors_by_build(reports));
  if (judged > 0 || serving)
    out += fmt::format("  {} of {} judged values within their bar\n", judged - failed, judged);
  return out;
}
