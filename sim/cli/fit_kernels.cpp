// ceiling fit kernels: measured tables of one GPU -> hardware/tables/<gpu>/<class>.table.

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>

#include "calibrate/fit/kernels.hpp"
#include "calibrate/import/row_checks.hpp"
#include "sim/cli/fit.hpp"
#include "sim/report/table.hpp"
#include "sim/scenario/data.hpp"
#include "sim/scenario/kernel_files.hpp"

namespace {

namespace fs = std::filesystem;

struct Options {
  std::vector<std::string> paths;
  std::string gpu, output;
  double size_mb = 2;
  bool whole_curves = false;
  std::string measured_on, suffix;
};

// LLMServingSim's profiles hold several cards, by names that may be no alias of a file.
bool is_profile(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  return name.ends_with("_profile.csv") || name.ends_with("_profile.csv.gz");
}

bool of_card(const KernelRows& set, const Options& o, const GpuSpec& gpu) {
  if (set.gpu.empty()) return true;
  if (!o.measured_on.empty()) return set.gpu == o.measured_on;
  const auto id = find_gpu(set.gpu, {});
  return id && *id == gpu.id;
}

std::vector<std::string> tables_in(const std::vector<std::string>& paths, Diagnostics& errors) {
  std::vector<std::string> out;
  for (const auto& path : paths) {
    std::error_code code;
    if (!fs::is_directory(path, code)) {
      out.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(path, code)) {
      const auto name = entry.path().filename().string();
      if (name.ends_with(".csv") || name.ends_with(".csv.gz"))
        found.push_back(entry.path().string());
    }
    if (found.empty())
      errors.error({}, fmt::format("no tables in '{}'", path),
                   "a folder of files named OP__ENGINE_VERSION.csv or .csv.gz is wanted");
    std::sort(found.begin(), found.end());
    out.insert(out.end(), found.begin(), found.end());
  }
  return out;
}

// One line per class and engine version, errors on whole shapes that were left out of the fit.
struct Line {
  std::size_t sets = 0, rows = 0;
  std::vector<double> errors;
};

Exit fit(const Options& o) {
  Diagnostics errors;
  const auto gpu = load_gpu_file(o.gpu);
  if (!gpu) errors.append(gpu.error());
  const auto paths = tables_in(o.paths, errors);
  if (!errors.empty()) return report_errors(errors);

  std::vector<KernelRows> rows;
  std::map<std::string, std::size_t> left_out;
  std::vector<std::string> skipped;
  for (const auto& path : paths) {
    if (interrupted()) return progress(""), Exit::interrupted;
    progress(fmt::format("reading {}", path));
    const bool profile = is_profile(path);
    auto import = profile ? import_llmservingsim(path) : import_aiconfigurator(path);
    if (!import) {
      // a table of another kind in a folder is left alone; a damaged one is not
      if (!profile && !is_kernel_table(path))
        skipped.push_back(fs::path(path).filename().string());
      else
        errors.append(import.error());
      continue;
    }
    for (const auto& r : import->rejected) left_out[r.reason] += r.rows;
    for (auto& set : import->sets) {
      if (profile && !of_card(set, o, *gpu)) {
        left_out["measured on another card"] += set.rows.size();
        continue;
      }
      if (const auto bad = drop_faster_than(*gpu, set); bad > 0)
        left_out["of kernels faster than this card can be"] += bad;
      if (!set.rows.empty()) rows.push_back(std::move(set));
    }
  }
  progress("");
  if (!errors.empty()) return report_errors(errors);

  // The tightest tables that fit the size; only those are cross-validated. What takes less than a
  // hundredth of it is never thinned: little would be won.
  KernelFitOptions options;
  options.whole_curves = o.whole_curves;
  const double size = o.size_mb * 0.999e6;
  double tolerance = 0;
  std::set<std::string> small;
  std::map<std::string, std::vector<KernelSet>> by_class;
  std::map<std::string, Line> lines;
  std::map<std::string, std::string> texts;
  const auto fit_all = [&](bool judge) {
    by_class.clear();
    texts.clear();
    options.folds = judge ? KernelFitOptions{}.folds : 0;
    std::size_t done = 0, bytes = 0;
    for (const auto& set : rows) {
      if (interrupted()) return std::size_t{0};
      progress(fmt::format("{} {}/{} {} {} {}", judge ? "judging" : "fitting", ++done, rows.size(),
                           set.kernel_class, set.engine, set.version));
      options.shape_tolerance = small.count(set.kernel_class) ? 0 : tolerance;
      std::vector<double> cross;
      by_class[set.kernel_class].push_back(
          fit_kernel_set(set, *gpu, options, &cross, siblings_of(set, rows)));
      if (!judge) continue;
      for (const auto& part : judged_parts(set, cross)) {
        Line& line = lines[fmt::format("{:24}{} {}", part.name, set.engine, set.version)];
        ++line.sets;
        line.rows += part.errors.size();
        line.errors.insert(line.errors.end(), part.errors.begin(), part.errors.end());
      }
    }
    for (const auto& [name, sets] : by_class) {
      texts[name] = write_kernel_sets(gpu->id, sets);
      bytes += texts[name].size();
    }
    return bytes;
  };
  for (const double next : {0.0, 0.02, 0.03, 0.04, 0.06, 0.09}) {
    tolerance = next;
    if (static_cast<double>(fit_all(false)) <= size) break;
    for (const auto& [name, text] : texts)
      if (static_cast<double>(text.size()) < size / 100) small.insert(name);
  }
  fit_all(true);
  progress("");
  if (interrupted()) return Exit::interrupted;

  std::string report = fmt::format("{}: errors on whole shapes left out of the fit\n\n", gpu->name);
  Table table({"class and engine", "sets", "rows", "median", "p90"});
  for (auto& [name, line] : lines) {
    const auto s = summarise(line.errors);
    table.row({name, fmt::format("{}", line.sets), fmt::format("{}", line.rows), percent(s.median),
               percent(s.p90)});
  }
  report += table.text();
  std::size_t bytes = 0;
  for (const auto& [name, text] : texts) bytes += text.size();
  report +=
      fmt::format("\n  {:.2f} MB in {} files", static_cast<double>(bytes) / 1e6, texts.size());
  if (tolerance > 0)
    report += fmt::format("; shapes that neighbours give within {} are left out to keep it small",
                          percent(tolerance));
  report += "\n";
  for (const auto& [reason, count] : left_out)
    report += fmt::format("  {} rows left out: {}\n", count, reason);
  for (const auto& name : skipped)
    report += fmt::format("  {} left alone: no kernel class is measured so\n", name);

  std::error_code code;
  fs::create_directories(o.output, code);
  const std::string ending = (o.suffix.empty() ? "" : "." + o.suffix) + ".table";
  for (const auto& [name, text] : texts)
    if (!write_whole((fs::path(o.output) / (name + ending)).string(), text))
      errors.error({}, fmt::format("'{}' cannot be written", o.output));
  if (!errors.empty()) return report_errors(errors);
  print_result(report);
  return Exit::fine;
}

std::function<Exit()> setup(CommandLine& line) {
  const auto o = std::make_shared<Options>();
  line.add("TABLES", o->paths, "measured tables, or folders of them").required();
  line.add("--gpu", o->gpu, "the card they were measured on").required();
  line.add("-o,--output", o->output, "folder for the fitted tables").required();
  line.add("--measured-on", o->measured_on,
           "the card's name in an LLMServingSim profile: only its rows");
  line.add("--suffix", o->suffix, "files CLASS.SUFFIX.table, beside those of other measurements");
  line.add("--whole-curves", o->whole_curves, "keep every measured size of a curve");
  line.add("--size", o->size_mb, "at most this many MB (2)");
  return [o] { return fit(*o); };
}

const Registered<FitKind> me("kernels", {"laws and residual tables from measured kernel times",
                                         "ceiling fit kernels measured/h200 --gpu h200 -o "
                                         "hardware/tables/h200",
                                         setup});

}  // namespace
