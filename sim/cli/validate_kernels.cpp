#include "sim/cli/validate_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "calibrate/fit/kernels.hpp"
#include "calibrate/import/row_checks.hpp"
#include "sim/report/kernel_errors.hpp"
#include "sim/scenario/kernel_files.hpp"

namespace {

std::string shape_text(const KernelClass& kind, const KernelRows& rows, const KernelRow& row) {
  std::string out;
  for (const auto& [word, value] : rows.words) out += (out.empty() ? "" : " ") + value;
  for (std::size_t a = 0; a < kind.axes.size(); ++a)
    out += fmt::format(" {}={:.6g}", kind.axes[a].column, row.x[a]);
  return out;
}

}  // namespace

Exit validate_kernels(const std::vector<std::string>& files, const std::string& gpu_name,
                      const std::string& format) {
  Diagnostics errors;
  const auto gpu = load_gpu_file(gpu_name);
  if (!gpu) return report_errors(gpu.error());
  const auto tables = load_kernel_tables(*gpu, gpu->id);
  if (!tables) return report_errors(tables.error());
  if (tables->empty())
    errors.error({}, fmt::format("no kernel was measured on {}", gpu->name),
                 "ceiling fit kernels TABLES --gpu " + gpu->id + " -o hardware/tables/" + gpu->id);

  struct Part {
    std::vector<double> errors;
    double worst = -1;
    std::string worst_shape;
  };
  std::map<std::pair<std::string, std::string>, Part> parts;
  KernelErrorReport report;
  report.gpu = gpu->id;
  std::map<std::string, std::size_t> left_out;
  for (const auto& path : files) {
    if (!errors.empty()) break;
    progress(path);
    auto import = import_aiconfigurator(path);
    if (!import) {
      // among others, a table that no class is measured by is left out; a damaged one never
      if (is_kernel_table(path) || files.size() == 1)
        errors.append(import.error());
      else
        report.notes.push_back(fmt::format("{} left out: no kernel class is measured so", path));
      continue;
    }
    for (const auto& r : import->rejected) left_out[r.reason] += r.rows;
    for (auto& rows : import->sets) {
      if (const auto bad = drop_faster_than(*gpu, rows); bad > 0)
        left_out["of kernels faster than this card can be"] += bad;
      if (rows.rows.empty()) continue;
      const KernelClass& kind = *KernelClasses::find(rows.kernel_class);
      const auto choice = tables->find(rows.kernel_class, rows.engine, rows.version, rows.words);
      if (!choice.set) {
        left_out[fmt::format("{} {} {}: no fitted table has this back end and precision",
                             rows.kernel_class, rows.engine, rows.version)] += rows.rows.size();
        continue;
      }
      if (!choice.same_version)
        report.notes.push_back(
            fmt::format("{}: priced by the table of {}", rows.kernel_class, choice.substitution));
      for (const auto& row : rows.rows) {
        Part& part =
            parts[{judged_name(rows.kernel_class, row.x), rows.engine + " " + rows.version}];
        const double error = std::abs(choice.set->predict(row.x.data()).us / row.time_us - 1);
        part.errors.push_back(error);
        if (error <= part.worst) continue;
        part.worst = error;
        part.worst_shape = shape_text(kind, rows, row);
      }
    }
  }
  progress("");
  if (errors.empty() && parts.empty())
    errors.error({}, "no row of these tables could be judged",
                 "ceiling import aiconfigurator FILE... says what each of them holds");
  if (!errors.empty()) return report_errors(errors);
  for (auto& [key, part] : parts) {
    const auto s = summarise(std::move(part.errors));
    report.lines.push_back(
        {key.first, key.second, s.points, s.median, s.p90, s.worst, part.worst_shape});
  }
  for (const auto& [reason, count] : left_out)
    report.notes.push_back(fmt::format("{} rows left out: {}", count, reason));
  print_result(format == "json" ? kernel_errors_to_json(report) : render_kernel_errors(report));
  return Exit::fine;
}
