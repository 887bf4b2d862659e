// A table of collectives from the output of nccl-tests.

#include <fmt/format.h>

#include "calibrate/import/nccl_tests.hpp"
#include "sim/cli/import.hpp"

namespace {

struct Options {
  std::vector<std::string> files;
  NcclTestsOptions open;
  std::string output;
};

Exit import_files(const Options& o) {
  const auto import = import_nccl_tests(o.files, o.open);
  Diagnostics errors;
  if (!import)
    errors = import.error();
  else if (!o.output.empty() && !write_whole(o.output, collectives_text(*import)))
    errors.error({}, fmt::format("'{}' cannot be written", o.output),
                 "name a file in a folder that exists and has room");
  if (!errors.empty()) {
    fmt::print(stderr, "{}{} error{}; nothing was imported\n", errors.render(), errors.size(),
               errors.size() == 1 ? "" : "s");
    return Exit::bad_input;
  }
  for (const auto& left : import->left_out)
    fmt::print(stderr, "left out: {} row{}: {} ({})\n", left.rows, left.rows == 1 ? "" : "s",
               left.reason, left.where);
  for (const auto& note : import->notes) fmt::print(stderr, "warning: {}\n", note);
  print_result(o.output.empty() ? collectives_text(*import) : summarise(*import));
  return Exit::fine;
}

std::function<Exit()> setup(CommandLine& line) {
  const auto o = std::make_shared<Options>();
  line.add("FILE", o->files, "output of all_reduce_perf and the like, or JSON of -J").required();
  line.add("--op", o->open.op, "the operation, where output and file name do not say")
      .one_of(collective_ops());
  line.add("--gpus", o->open.gpus, "the number of GPUs, where there are no '# Rank' lines")
      .range(1, 1024);
  line.add("--in-place", o->open.in_place, "take the in-place times");
  line.add("-o,--output", o->output, "write the table to this file instead of stdout");
  return [o] { return import_files(*o); };
}

const Registered<ImportCommand> me(
    "nccl-tests", {"collectives timed by nccl-tests: text or JSON",
                   "ceiling import nccl-tests all_reduce_8.txt -o collectives.yaml", setup});

}  // namespace
