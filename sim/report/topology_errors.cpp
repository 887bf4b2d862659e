#include "sim/report/topology_errors.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/statistics.hpp"
#include "sim/report/table.hpp"

namespace {

struct Kind {
  std::vector<double> errors;  // absolute, ascending
  ErrorBar bar;
  std::size_t rows_missed = 0;

  double median() const { return percentile(errors, 50); }
  double p90() const { return percentile(errors, 90); }
  std::size_t missed() const {
    return rows_missed + (bar.median > 0 && median() > bar.median) +
           (bar.p90 > 0 && p90() > bar.p90);
  }
};

std::string bar_text(const ErrorBar& bar) {
  std::string out;
  if (bar.each > 0) out = "each " + percent(bar.each);
  if (bar.median > 0) out = "median " + percent(bar.median);
  if (bar.p90 > 0) out += ", p90 " + percent(bar.p90);
  return out;
}

std::map<std::string, Kind> by_kind(const TopologyReport& report) {
  std::map<std::string, Kind> out;
  for (const auto& l : report.lines) {
    if (!l.left_out.empty()) continue;
    Kind& kind = out[l.kind];
    kind.errors.push_back(std::abs(l.error()));
    kind.bar = l.bar;
    kind.rows_missed += l.missed();
  }
  for (auto& [name, kind] : out) std::sort(kind.errors.begin(), kind.errors.end());
  return out;
}

}  // namespace

std::size_t TopologyReport::missed() const {
  std::size_t out = 0;
  for (const auto& [name, kind] : by_kind(*this)) out += kind.missed();
  return out;
}

std::string render_topology_errors(const TopologyReport& report) {
  std::string out;
  for (std::size_t i = 0; i < report.lines.size();) {
    const std::string& file = report.lines[i].file;
    Table table({"", "kind", "measured", "predicted", "error", ""}, 4);
    table.left(1).left(5);
    std::string notes;
    const std::string heading = fmt::format("  {} ({})\n", file, report.lines[i].machine);
    for (; i < report.lines.size() && report.lines[i].file == file; ++i) {
      const TopologyLine& l = report.lines[i];
      const auto value = [&](double v) { return figure(v) + " " + l.unit; };
      if (!l.left_out.empty())
        notes += wrapped(fmt::format("{}: left out, {}", l.name, l.left_out), 4);
      if (l.missed()) notes += wrapped(fmt::format("{}: held by {}", l.name, l.limit), 4);
      table.row({l.name, l.kind, value(l.measured), value(l.predicted), percent_error(l.error()),
                 l.missed()           ? "MISS"
                 : l.left_out.empty() ? ""
                                      : "left out"});
    }
    out += heading + table.text() + notes + "\n";
  }
  Table kinds({"kind", "judged", "median error", "p90", "worst", "bar", ""}, 2);
  kinds.left(5);
  std::size_t judged = 0;
  for (const auto& [name, kind] : by_kind(report)) {
    kinds.row({name, fmt::format("{}", kind.errors.size()), percent(kind.median()),
               percent(kind.p90()), percent(kind.errors.back()), bar_text(kind.bar),
               kind.missed() > 0 ? "MISS" : ""});
    judged += kind.errors.size();
  }
  out += kinds.text();
  const std::size_t missed = report.missed();
  out += fmt::format("\n  {} rows judged, {}\n", judged,
                     missed == 0 ? "every bar held" : fmt::format("{} bars missed", missed));
  return out;
}

std::string topology_errors_to_json(const TopologyReport& report) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const auto& l : report.lines)
    rows.push_back({{"file", l.file},
                    {"machine", l.machine},
                    {"name", l.name},
                    {"kind", l.kind},
                    {"unit", l.unit},
                    {"measured", l.measured},
                    {"predicted", l.predicted},
                    {"error", l.error()},
                    {"bar", l.bar.each},
                    {"limit", l.limit},
                    {"left_out", l.left_out}});
  nlohmann::ordered_json kinds = nlohmann::ordered_json::array();
  for (const auto& [name, kind] : by_kind(report))
    kinds.push_back({{"kind", name},
                     {"rows", kind.errors.size()},
                     {"median_error", kind.median()},
                     {"p90_error", kind.p90()},
                     {"worst_error", kind.errors.back()},
                     {"bar", kind.bar.each},
                     {"median_bar", kind.bar.median},
                     {"p90_bar", kind.bar.p90},
                     {"missed", kind.missed()}});
  const nlohmann::ordered_json out{{"schema", 1}, {"rows", rows}, {"kinds", kinds}};
  return out.dump(2) + "\n";
}
