// The command that starts a server, as the engine of a scenario.

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include <fmt/format.h>

#include "sim/cli/import.hpp"
#include "sim/scenario/data.hpp"
#include "sim/scenario/launch_command.hpp"

namespace {

struct Options {
  std::string command, file, format = "yaml", output;
};

// A longer text is no command.
constexpr std::size_t text_max = 1 << 20;

Expected<std::string> read_text(const Options& o) {
  Diagnostics errors;
  if (o.command.empty() == o.file.empty()) {
    errors.error({}, o.file.empty() ? "there is no command" : "there are two commands",
                 "give it as one argument in quotes, or name its file with --file, or write - for "
                 "stdin");
    return tl::unexpected(errors);
  }
  std::string text = o.command;
  if (o.command == "-" || o.file == "-") {
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
  } else if (!o.file.empty()) {
    std::ifstream file(o.file, std::ios::binary);
    if (!file || std::filesystem::is_directory(o.file))
      errors.error({}, fmt::format("'{}' cannot be read", o.file));
    else
      text.assign(std::istreambuf_iterator<char>(file), {});
  }
  if (text.size() > text_max) errors.error({}, "this text is too long for a command");
  if (!errors.empty()) return tl::unexpected(errors);
  return text;
}

Exit refuse(const Diagnostics& errors) {
  fmt::print(stderr, "{}{} error{}; nothing was imported\n", errors.render(), errors.size(),
             errors.size() == 1 ? "" : "s");
  return Exit::bad_input;
}

Exit import_launch(const Options& o) {
  const auto text = read_text(o);
  if (!text) return refuse(text.error());
  const bool from_file = !o.file.empty() && o.file != "-";
  const auto block =
      read_launch_command(*text, from_file ? o.file : "command", data_names("models/zoo"));
  if (!block) return refuse(block.error());
  const std::string out = o.format == "json" ? launch_json(*block) : launch_yaml(*block);
  if (!o.output.empty() && !write_whole(o.output, out)) {
    Diagnostics errors;
    errors.error({}, fmt::format("'{}' cannot be written", o.output),
                 "name a file in a folder that exists and has room");
    return refuse(errors);
  }
  for (const auto& r : block->lacking)
    fmt::print(stderr, "warning: {} is not modelled ({})\n", r.from, r.why);
  if (!block->by_build.empty())
    fmt::print(stderr,
               "note: {} of its flags choose kernels, which engine.build does here; ceiling list "
               "shows the builds\n",
               block->by_build.size());
  fmt::print(stderr, "next: put it into a scenario with machine: and workload: (docs/import.md)\n");
  print_result(o.output.empty() ? out
                                : fmt::format("{}: {} settings of {}, {} edits of the machine, {} "
                                              "flags and variables not modelled\n",
                                              o.output, block->engine.size(), block->kind,
                                              block->edits.size(), block->lacking.size()));
  return Exit::fine;
}

std::function<Exit()> setup(CommandLine& line) {
  const auto o = std::make_shared<Options>();
  line.add("COMMAND", o->command,
           "the command in quotes: python -m sglang.launch_server, sglang serve, vllm serve, "
           "with what stands before it; - reads stdin");
  line.add("--file", o->file, "read the command from this file");
  line.add("--format", o->format, "yaml or json").one_of({"yaml", "json"});
  line.add("-o,--output", o->output, "write to this file instead of stdout");
  return [o] { return import_launch(*o); };
}

const Registered<ImportCommand> me(
    "launch",
    {"the command that starts a server, as the engine of a scenario",
     "ceiling import launch 'vllm serve Qwen/Qwen3-14B -tp 2 --max-num-seqs 256'", setup});

}  // namespace
