#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/diagnostics.hpp"
#include "sim/base/registry.hpp"
#include "sim/cli/command_line.hpp"
#include "sim/report/run_report.hpp"
#include "sim/scenario/predict.hpp"

/// How a command ends: the exit codes of the contract.
enum class Exit { fine = 0, expectation_failed = 1, bad_input = 2, no_gpu = 3, interrupted = 130 };

/// One verb of the command line, in one file. `setup` declares its options on `line` and returns
/// what to do once they are parsed.
struct Command {
  int order = 0;  // in the help
  std::string help, example;
  std::function<Exit()> (*setup)(CommandLine& line);
};

/// A command of which each word below it is one file: all registered kinds (`help`, `example` and
/// `setup` as a Command has them) become words, and the one the user gives decides.
template <class Kind>
std::function<Exit()> choose(CommandLine& line) {
  std::vector<std::pair<const CommandLine*, std::function<Exit()>>> actions;
  for (const auto& [name, kind] : Registry<Kind>::entries()) {
    CommandLine& word = line.word(name, kind.help, kind.example);
    actions.emplace_back(&word, kind.setup(word));
  }
  return [actions] {
    for (const auto& [word, action] : actions)
      if (word->given()) return action();
    return Exit::bad_input;
  };
}

/// Options that run, validate and compare share.
struct CommonOptions {
  std::string format = "table";
  std::vector<std::string> set;
  bool dry_run = false;
};
void add_common(CommandLine& line, CommonOptions& options);

/// Prints diagnostics to stderr with their count.
Exit report_errors(const Diagnostics& errors);

/// `--set` arguments as overrides; errors are collected.
std::vector<Override> read_overrides(const std::vector<std::string>& set, Diagnostics& errors);

/// Writes a result to stdout.
void print_result(const std::string& text);

/// Puts a file in place once it is whole: what stood there before stays until then. False when it
/// cannot be written.
bool write_whole(const std::string& path, std::string_view text);
/// The same in parts: `write` hands them to the function that it is given.
bool write_whole(const std::string& path,
                 const std::function<void(const std::function<void(std::string_view)>&)>& write);

/// Predicts all scenarios and prints one result: JSON, or what `table` makes of the reports. With
/// `judge`, a failed expectation decides the exit code. Ctrl-C ends after the scenario under way
/// and prints what there is. A scenario that cannot run prints its errors and nothing else. `also`
/// takes the reports before they are printed and says what is wrong with them.
Exit predict_and_print(const std::vector<Scenario>& scenarios, const CommonOptions& options,
                       const PredictOptions& parts, bool judge,
                       std::string (*table)(const std::vector<RunReport>&),
                       const std::function<Diagnostics(const std::vector<RunReport>&)>& also = {});

/// Prints the resolved values of each scenario with their origin.
Exit print_dry_run(const std::vector<Scenario>& scenarios);

/// A line on stderr that overwrites itself, on a terminal only; empty text removes it.
void progress(const std::string& text);

/// True once the user pressed Ctrl-C: finish the point under way and print what there is.
bool interrupted();
