#include "sim/report/kernel_errors.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/report/table.hpp"

std::string render_kernel_errors(const KernelErrorReport& report) {
  Table table({"class", "engine", "points", "median", "p90", "worst", "worst shape"});
  table.left(1).left(6);
  for (const auto& l : report.lines)
    table.row({l.kernel_class, l.engine, fmt::format("{}", l.points), percent(l.median),
               percent(l.p90), percent(l.worst), l.worst_shape});
  std::string out = fmt::format("Fitted kernel tables of {} against measured rows\n\n{}",
                                report.gpu, table.text());
  if (!report.notes.empty()) out += "\n";
  for (const auto& note : report.notes) out += wrapped(note, 2);
  return out;
}

std::string kernel_errors_to_json(const KernelErrorReport& report) {
  nlohmann::ordered_json classes = nlohmann::ordered_json::array();
  for (const auto& l : report.lines)
    classes.push_back({{"class", l.kernel_class},
                       {"engine", l.engine},
                       {"points", l.points},
                       {"median_error", l.median},
                       {"p90_error", l.p90},
                       {"worst_error", l.worst},
                       {"worst_shape", l.worst_shape}});
  const nlohmann::ordered_json out{
      {"schema", 1}, {"gpu", report.gpu}, {"classes", classes}, {"notes", report.notes}};
  return out.dump(2) + "\n";
}
