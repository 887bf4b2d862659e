#include <fmt/format.h>

#include "sim/cli/command.hpp"
#include "sim/report/bench_file.hpp"

namespace {

struct Options : CommonOptions {
  std::string file;
  std::string bench_output, bench_format;
};

// The result file of a load generator: a line for each run.
Diagnostics write_bench_file(const std::vector<RunReport>& reports, const Options& o) {
  Diagnostics errors;
  std::string text;
  for (const auto& r : reports) {
    if (r.kind != RunKind::serving) {
      errors.error({}, fmt::format("{}: a workload without requests has no load generator", r.name),
                   "leave --bench-output out, or choose a serving workload");
      continue;
    }
    const BenchFormat format = o.bench_format.empty()     ? default_bench_format(r)
                               : o.bench_format == "vllm" ? BenchFormat::vllm
                                                          : BenchFormat::sglang;
    text += bench_json(bench_result(r), format, false);
  }
  if (errors.empty() && !write_whole(o.bench_output, text))
    errors.error({}, fmt::format("'{}' cannot be written", o.bench_output),
                 "name a file in a folder that exists and has room");
  return errors;
}

Exit run(const Options& o) {
  Diagnostics errors;
  const auto overrides = read_overrides(o.set, errors);
  const auto scenarios = load_scenarios(o.file, overrides);
  if (!scenarios) errors.append(scenarios.error());
  if (!errors.empty()) return report_errors(errors);
  std::function<Diagnostics(const std::vector<RunReport>&)> also;
  if (!o.bench_output.empty())
    also = [&o](const std::vector<RunReport>& reports) { return write_bench_file(reports, o); };
  return predict_and_print(
      *scenarios, o, {}, true,
      [](const std::vector<RunReport>& reports) {
        std::string out;
        for (const auto& r : reports) out += (out.empty() ? "" : "\n") + render(r);
        return out;
      },
      also);
}

std::function<Exit()> setup(CommandLine& line) {
  const auto o = std::make_shared<Options>();
  line.add("FILE", o->file, "a scenario").required();
  add_common(line, *o);
  line.add("--bench-output", o->bench_output,
           "write the load generator's own result file, a JSON line a run");
  line.add("--bench-format", o->bench_format,
           "whose: sglang or vllm (default: the workload's, else the engine's)")
      .one_of({"sglang", "vllm"});
  return [o] { return run(*o); };
}

const Registered<Command> me("run", {1, "predict a benchmark",
                                     "ceiling run scenarios/seed/64-at-16.yaml", setup});

}  // namespace
