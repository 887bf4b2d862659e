#include "sim/cli/import.hpp"

namespace {

std::function<Exit()> setup(CLI::App& app) {
  app.require_subcommand(1);
  std::vector<std::pair<CLI::App*, std::function<Exit()>>> forms;
  for (const auto& [name, form] : Registry<ImportCommand>::entries()) {
    CLI::App* sub = app.add_subcommand(name, form.help);
    sub->footer("\nexample: " + form.example + "\n");
    forms.emplace_back(sub, form.setup(*sub));
  }
  return [forms] {
    for (const auto& [sub, action] : forms)
      if (sub->parsed()) return action();
    return Exit::bad_input;
  };
}

const Registered<Command> me(
    "import",
    {7, "read what was measured and what a box says of itself; say what is left out",
     "ceiling import aiconfigurator tests/fixtures/kernels/gemm__sglang_0.5.14.csv", setup});

}  // namespace
