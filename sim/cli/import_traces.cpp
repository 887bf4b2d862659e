// Kernel times and idle times from a profiler's trace of a running engine.

#include <fmt/format.h>

#include "calibrate/import/kernel_trace.hpp"
#include "sim/cli/import.hpp"

namespace {

struct Options {
  std::vector<std::string> files;
  std::string format = "table", output;
};

Exit import_traces(const Options& o) {
  const auto trace = read_traces(o.files);
  if (!trace) return report_errors(trace.error());
  const TraceSummary summary = summarise(*trace);
  if (trace->malformed > 0)
    fmt::print(stderr, "left out: {} event{} without name, start or duration\n", trace->malformed,
               trace->malformed == 1 ? "" : "s");
  if (!o.output.empty() && !write_whole(o.output, trace_to_csv(summary))) {
    Diagnostics errors;
    errors.error({}, fmt::format("'{}' cannot be written", o.output),
                 "name a file in a folder that exists and has room");
    return report_errors(errors);
  }
  print_result(o.format == "json" ? trace_to_json(summary) : render_trace(summary));
  return Exit::fine;
}

std::function<Exit()> setup(CommandLine& line) {
  const auto o = std::make_shared<Options>();
  line.add("FILE", o->files,
           "chrome traces of torch.profiler, plain or gz, or databases of nsys export; one a rank")
      .required();
  line.add("--format", o->format, "table or json").one_of({"table", "json"});
  line.add("-o,--output", o->output, "write all kernels to this file, as CSV");
  return [o] { return import_traces(*o); };
}

const Registered<ImportCommand> me(
    "traces", {"an engine's own kernels and what its GPUs waited for, from a profiler",
               "ceiling import traces rank0.pt.trace.json.gz -o kernels.csv", setup});

}  // namespace
