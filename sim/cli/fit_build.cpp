#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include <fmt/format.h>

#include "sim/base/statistics.hpp"
#include "sim/cli/fit.hpp"
#include "sim/report/table.hpp"
#include "sim/scenario/build_file.hpp"
#include "sim/scenario/fit_build.hpp"

namespace {

struct Options {
  std::string build, output;
  std::vector<std::string> files;
};

double median(std::vector<double> errors) {
  for (double& e : errors) e = std::abs(e);
  std::sort(errors.begin(), errors.end());
  return percentile(errors, 50);
}

std::vector<std::string> summary(const std::string& name, const std::vector<double>& errors) {
  std::vector<double> absolute;
  for (const double e : errors) absolute.push_back(std::abs(e));
  std::sort(absolute.begin(), absolute.end());
  return {name, fmt::format("{}", errors.size()), percent_error(mean(errors)),
          percent(percentile(absolute, 50)), percent(percentile(absolute, 90))};
}

std::string yaml_lines(const BuildFit& f) {
  const auto& n = f.fit.numbers;
  std::string list;
  for (const auto& name : f.fitted_on) list += (list.empty() ? "" : ", ") + name;
  const auto constant = [&](const char* key, const char* label, const std::string& value,
                            double spread, bool at_bound) {
    std::string out =
        fmt::format("  {}:\n    label: {}\n    value: {}\n    basis: fitted\n", key, label, value);
    out += fmt::format("    spread: {:.2f}\n", std::clamp(spread, 1.01, 10.0));
    out += fmt::format("    fitted_on: [{}]\n", list);
    out += fmt::format("    source: ceiling fit build {}, {} rows{}\n", f.build, f.rows.size(),
                       at_bound ? "; at the end of its range, so not known" : "");
    return out;
  };
  return "fitted:\n" +
         constant("small_kernels", "small kernels a layer",
                  fmt::format("{:.1f} us", n.small_kernels_us), f.fit.small_kernels_spread,
                  f.fit.small_kernels_at_bound) +
         constant("moe_rate", "rate of the experts' weights",
                  fmt::format("{:.3f} TB/s", n.moe_rate / 1e12), f.fit.moe_rate_spread,
                  f.fit.moe_rate_at_bound) +
         fmt::format("  error: {:.1f} %   # median of those steps\n", median(f.fit.errors) * 100);
}

// The build's own file with its `fitted:` block replaced, or added at the end.
std::string with_block(const std::string& path, const std::string& block) {
  std::ifstream in(path);
  std::string out, line;
  bool inside = false, done = false;
  while (std::getline(in, line)) {
    if (line.starts_with("fitted:")) {
      inside = done = true;
      out += block;
      continue;
    }
    if (inside && (line.empty() || line.front() == ' ')) {
      if (!line.empty()) continue;
    }
    inside = false;
    out += line + "\n";
  }
  return done ? out : out + "\n" + block;
}

Exit fit(const Options& o) {
  Diagnostics errors;
  const auto file = load_build(o.build, {});
  if (!file) errors.append(file.error());
  std::vector<Scenario> scenarios;
  for (const auto& path : o.files) {
    auto loaded = load_scenarios(path, {});
    if (!loaded)
      errors.append(loaded.error());
    else
      scenarios.insert(scenarios.end(), loaded->begin(), loaded->end());
  }
  if (!errors.empty()) return report_errors(errors);
  const auto fitted = fit_build(o.build, scenarios);
  if (!fitted) return report_errors(fitted.error());

  std::string out =
      fmt::format("{}: two numbers on {} rows, least squares on the log of the step\n\n", o.build,
                  fitted->rows.size());
  Table table({"error of the step time", "rows", "bias", "median", "p90"}, 2);
  table.row(summary("without the two numbers", fitted->unfitted));
  if (!fitted->before.empty()) table.row(summary("with those of the file", fitted->before));
  table.row(summary("fitted", fitted->fit.errors));
  table.row(summary("fitted without the row itself", fitted->fit.leave_one_out));
  out += table.text() + "\n";
  std::map<std::int64_t, std::vector<double>> by_size;
  for (std::size_t i = 0; i < fitted->rows.size(); ++i)
    by_size[fitted->rows[i].sequences].push_back(fitted->fit.errors[i]);
  std::string line = "mean error left:";
  for (const auto& [size, list] : by_size)
    line += fmt::format(" c{} {}", size, percent_error(mean(list)));
  out += wrapped(line, 2) + "\n";
  const std::string block = yaml_lines(*fitted);
  print_result(out + block);
  if (o.output.empty()) return Exit::fine;
  if (!write_whole(o.output, with_block(file->files.front(), block))) {
    errors.error({}, fmt::format("cannot write '{}'", o.output));
    return report_errors(errors);
  }
  return Exit::fine;
}

std::function<Exit()> setup(CommandLine& line) {
  const auto o = std::make_shared<Options>();
  line.add("BUILD", o->build, "a build of hardware/builds").required();
  line.add("FILE", o->files, "scenarios with measured decode rows of it").required();
  line.add("-o", o->output, "write the build's file with the new numbers here");
  return [o] { return fit(*o); };
}

const Registered<FitKind> me(
    "build", {"the two numbers of a build: small kernels a layer, rate of the experts' weights",
              "ceiling fit build vllm-2026-05-cutlass-sm120 "
              "scenarios/measured/glm-5.1-vllm-2026-05-cutlass.yaml",
              setup});

}  // namespace
