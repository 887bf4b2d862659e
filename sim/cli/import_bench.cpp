// The workload and the measurements of a benchmark from its result file.

#include <fmt/format.h>

#include "calibrate/import/bench_results.hpp"
#include "sim/cli/import.hpp"

namespace {

struct Options {
  std::string file, output;
};

Exit import_file(const Options& o) {
  const auto runs = import_bench(o.file);
  Diagnostics errors;
  std::string text;
  if (!runs)
    errors = runs.error();
  else if (text = bench_scenario(o.file, *runs); !o.output.empty() && !write_whole(o.output, text))
    errors.error({}, fmt::format("'{}' cannot be written", o.output),
                 "name a file in a folder that exists and has room");
  if (!errors.empty()) {
    fmt::print(stderr, "{}{} error{}; nothing was imported\n", errors.render(), errors.size(),
               errors.size() == 1 ? "" : "s");
    return Exit::bad_input;
  }
  for (const auto& note : runs->front().notes) fmt::print(stderr, "note: {}\n", note);
  if (o.output.empty())
    print_result(text);
  else
    print_result(fmt::format("{} run{} of {} written to {}; machine and model are yours to name\n",
                             runs->size(), runs->size() == 1 ? "" : "s", runs->front().tool,
                             o.output));
  return Exit::fine;
}

std::function<Exit()> setup(CommandLine& line) {
  const auto o = std::make_shared<Options>();
  line.add("FILE", o->file, "JSONL of sglang.bench_serving or JSON of vllm bench serve").required();
  line.add("-o,--output", o->output, "write the scenario to this file instead of stdout");
  return [o] { return import_file(*o); };
}

const Registered<ImportCommand> me(
    "bench", {"a scenario's workload and expect from a benchmark's result file",
              "ceiling import bench sglang_1202_64_256_256.jsonl -o measured.yaml", setup});

}  // namespace
