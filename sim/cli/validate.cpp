#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "sim/cli/command.hpp"
#include "sim/cli/validate_kernels.hpp"
#include "sim/cli/validate_requests.hpp"
#include "sim/cli/validate_topology.hpp"
#include "sim/scenario/topology_rows.hpp"

namespace {

namespace fs = std::filesystem;

struct Options : CommonOptions {
  std::vector<std::string> paths;
  std::vector<std::string> kernel_tables;
  std::string gpu;
  std::vector<std::string> topologies;
  std::string requests;
};

// Every .yaml below a folder, in order; a file stands for itself.
std::vector<std::string> yaml_files(const std::vector<std::string>& paths) {
  std::vector<std::string> out;
  for (const auto& path : paths) {
    std::error_code code;
    if (!fs::is_directory(path, code)) {
      out.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(path, code))
      if (entry.path().extension() == ".yaml") found.push_back(entry.path().string());
    std::sort(found.begin(), found.end());
    out.insert(out.end(), found.begin(), found.end());
  }
  return out;
}

Exit validate(const Options& o) {
  Diagnostics errors;
  const auto overrides = read_overrides(o.set, errors);
  std::vector<Scenario> scenarios;
  auto files = yaml_files(o.paths);
  // Files of measured transfers stand among the scenarios.
  const auto rows = std::stable_partition(files.begin(), files.end(),
                                          [](const auto& file) { return !is_topology_file(file); });
  const std::vector<std::string> topologies(rows, files.end());
  files.erase(rows, files.end());
  if (files.empty() && !topologies.empty()) return validate_topologies(topologies, o.format);
  if (files.empty())
    errors.error({}, o.paths.empty() ? "nothing to validate" : "no scenario files there",
                 "name a file or a folder that holds .yaml files");
  for (const auto& file : files) {
    auto loaded = load_scenarios(file, overrides);
    if (!loaded)
      errors.append(loaded.error());
    else
      scenarios.insert(scenarios.end(), loaded->begin(), loaded->end());
  }
  if (!errors.empty()) return report_errors(errors);
  if (!o.requests.empty()) return validate_requests(scenarios, o.requests, o.format);
  const Exit judged =
      predict_and_print(scenarios, o, {false, false, false}, true, render_validation);
  if (topologies.empty() || o.dry_run || judged == Exit::interrupted || judged == Exit::bad_input)
    return judged;
  if (o.format == "json") {
    std::fprintf(stderr, "note: %zu files of measured transfers are another result: --topology\n",
                 topologies.size());
    return judged;
  }
  print_result("\n");
  const Exit also = validate_topologies(topologies, o.format);
  return also == Exit::fine ? judged : also;
}

std::function<Exit()> setup(CommandLine& line) {
  const auto o = std::make_shared<Options>();
  auto paths = line.add("PATH", o->paths, "scenario files, or folders of them");
  auto tables = line.add("--kernel-table", o->kernel_tables,
                         "measured kernel times instead: OP__ENGINE_VERSION.csv[.gz]");
  auto gpu = line.add("--gpu", o->gpu, "the card that --kernel-table was measured on");
  tables.needs(gpu).excludes(paths);
  gpu.needs(tables);
  line.add("--topology", o->topologies,
           "measured transfers between GPUs instead: files, or folders of them")
      .excludes(paths)
      .excludes(tables);
  line.add("--requests", o->requests, "an engine's log, to compare request by request")
      .needs(paths);
  add_common(line, *o);
  return [o] {
    if (!o->kernel_tables.empty()) return validate_kernels(o->kernel_tables, o->gpu, o->format);
    if (!o->topologies.empty()) return validate_topologies(yaml_files(o->topologies), o->format);
    return validate(*o);
  };
}

const Registered<Command> me("validate", {2, "predictions beside measurements, point by point",
                                          "ceiling validate scenarios/seed", setup});

}  // namespace
