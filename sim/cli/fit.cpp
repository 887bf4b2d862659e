#include "sim/cli/fit.hpp"

#include <map>

namespace {

std::function<Exit()> setup(CLI::App& app) {
  const auto actions = std::make_shared<std::map<CLI::App*, std::function<Exit()>>>();
  for (const auto& [name, kind] : Registry<FitKind>::entries()) {
    CLI::App* sub = app.add_subcommand(name, kind.help);
    sub->footer("\nexample: " + kind.example + "\n");
    (*actions)[sub] = kind.setup(*sub);
  }
  app.require_subcommand(1);
  return [&app, actions] { return (*actions)[app.get_subcommands().front()](); };
}

const Registered<Command> me(
    "fit", {6, "numbers of a build from measured rows",
            "ceiling fit build sglang-2026-03-b12x-sm120 scenarios/measured/glm-5-sglang-b12x.yaml",
            setup});

}  // namespace
