// Tables of measured kernels: one command for each form, all with the same options and answers.

#include <fmt/format.h>

#include "calibrate/import/import_report.hpp"
#include "sim/cli/import.hpp"

namespace {

using Importer = Expected<KernelImport> (*)(const std::string& path);

struct Options {
  std::vector<std::string> files;
  std::string format = "table", output;
};

Exit refuse(const Diagnostics& errors) {
  fmt::print(stderr, "{}{} error{}; nothing was imported\n", errors.render(), errors.size(),
             errors.size() == 1 ? "" : "s");
  return Exit::bad_input;
}

Exit import_files(const Options& o, Importer importer) {
  Diagnostics errors;
  std::vector<ImportedFile> files;
  for (const auto& path : o.files) {
    if (interrupted()) return progress(""), Exit::interrupted;
    progress(fmt::format("{}/{} {}", files.size() + 1, o.files.size(), path));
    auto import = importer(path);
    if (!import)
      errors.append(import.error());
    else
      files.push_back({path, std::move(*import)});
  }
  progress("");
  if (errors.empty() && !o.output.empty() &&
      !write_whole(o.output, [&](const auto& put) { write_imports(files, put); }))
    errors.error({}, fmt::format("'{}' cannot be written", o.output),
                 "name a file in a folder that exists and has room");
  if (!errors.empty()) return refuse(errors);
  print_result(o.format == "json" ? imports_to_json(files) : render_imports(files));
  return Exit::fine;
}

std::function<Exit()> declare(CommandLine& line, Importer importer) {
  const auto o = std::make_shared<Options>();
  line.add("FILE", o->files, "tables as CSV, plain or gz").required();
  line.add("--format", o->format, "table or json").one_of({"table", "json"});
  line.add("-o,--output", o->output, "write all rows to this file, as one CSV");
  return [o, importer] { return import_files(*o, importer); };
}

const Registered<ImportCommand> aiconfigurator(
    "aiconfigurator",
    {"kernel tables of aiconfigurator: OP__ENGINE_VERSION.csv[.gz]",
     "ceiling import aiconfigurator tests/fixtures/kernels/gemm__sglang_0.5.14.csv",
     [](CommandLine& line) { return declare(line, import_aiconfigurator); }});
const Registered<ImportCommand> llmservingsim(
    "llmservingsim",
    {"layer profiles of LLMServingSim: ..._vllm019_profile.csv[.gz]",
     "ceiling import llmservingsim tests/fixtures/kernels/tiny_vllm019_profile.csv",
     [](CommandLine& line) { return declare(line, import_llmservingsim); }});

}  // namespace
