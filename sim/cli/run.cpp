#include "sim/cli/command.hpp"

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
  return predict_and_print(*scenarios, o, {}, true, [](const std::vector<RunReport>& reports) {
    std::string out;
    for (const auto& r : reports) out += (out.empty() ? "" : "\n") + render(r);
    return out;
  });
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
