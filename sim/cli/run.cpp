#include "sim/cli/command.hpp"
#include "sim/scenario/predict.hpp"

namespace {

struct Options : CommonOptions {
  std::string file;
};

Exit run(const Options& o) {
  Diagnostics errors;
  const auto overrides = read_overrides(o.set, errors);
  const auto scenarios = load_scenarios(o.file, overrides);
  if (!scenarios) errors.append(scenarios.error());
  if (!errors.empty()) return report_errors(errors);
  if (o.dry_run) return print_dry_run(*scenarios);
  std::vector<RunReport> reports;
  bool failed = false, stopped = false;
  for (const auto& scenario : *scenarios) {
    progress(scenario.name);
    auto report = predict(scenario, {});
    if (!report)
      errors.append(report.error());
    else
      failed |= report->failed(), reports.push_back(std::move(*report));
    if ((stopped = interrupted())) break;
  }
  progress("");
  if (!errors.empty()) return report_errors(errors);
  std::string out;
  if (o.format == "json")
    out = to_json(reports);
  else
    for (const auto& r : reports) out += (out.empty() ? "" : "\n") + render(r);
  print_result(out);
  return stopped ? Exit::interrupted : failed ? Exit::expectation_failed : Exit::fine;
}

std::function<Exit()> setup(CLI::App& app) {
  const auto o = std::make_shared<Options>();
  app.add_option("FILE", o->file, "a scenario")->required();
  add_common(app, *o);
  return [o] { return run(*o); };
}

const Registered<Command> me("run", {1, "predict a benchmark",
                                     "ceiling run scenarios/seed/64-at-16.yaml", setup});

}  // namespace
