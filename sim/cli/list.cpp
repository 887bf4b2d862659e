#include <fmt/format.h>

#include "hardware/collective/kernels/kernel.hpp"
#include "hardware/machine.hpp"
#include "models/cost/cost_model.hpp"
#include "models/graph/model_spec.hpp"
#include "sim/cli/command.hpp"
#include "sim/engine/engine.hpp"
#include "sim/report/table.hpp"
#include "sim/scenario/build_file.hpp"
#include "sim/scenario/data.hpp"
#include "sim/scenario/machine_file.hpp"
#include "sim/scenario/yaml.hpp"
#include "sim/step/build.hpp"
#include "sim/workload/workload.hpp"

namespace {

// Reads one data file with its reader; errors are collected.
template <class Reader>
void each(const std::string& folder, Diagnostics& errors, Reader read) {
  for (const auto& name : data_names(folder)) {
    const auto path = find_data_file(folder, name, {});
    if (!path) continue;
    const auto file = load_yaml(*path, {});
    Reading reading;
    if (!file)
      errors.append(file.error());
    else
      read(name, *file, reading);
    errors.append(reading.errors);
  }
}

std::string billions(std::int64_t n) {
  return fmt::format("{:.1f} B", static_cast<double>(n) / 1e9);
}

Exit list() {
  Diagnostics errors;
  std::string out = "models\n";
  Table models(
      {"", "parameters", "active", "weights a GPU at TP8", "KV a token and GPU, bf16 / fp8"}, 2);
  each("models/zoo", errors, [&](const std::string& name, const Settings& file, Reading& reading) {
    const ModelSpec m = read_model(name, file, reading);
    if (!reading.errors.empty()) return;
    const auto count = count_parameters(m);
    models.row({name, billions(count.total), billions(count.active),
                text(weight_bytes_per_gpu(m, 8, false).total),
                fmt::format("{} / {} B", grouped(kv_bytes_per_token(m, Precision::bf16, 8).count()),
                            grouped(kv_bytes_per_token(m, Precision::fp8, 8).count()))});
  });
  out += models.text() + "\nmachines\n";
  Table machines({"", "id", "GPUs", "P2P", "what"}, 2);
  machines.left(1).left(4);
  for (const auto& name : data_names("hardware/machines")) {
    const auto file = load_machine_file(name, {});
    Reading reading;
    if (file) {
      const Machine m = read_machine(name, file->settings, reading);
      machines.row({name, m.topology_id, fmt::format("{}", m.gpu_count()),
                    text(m.interconnect.p2p_capable), m.name});
    }
    errors.append(file ? reading.errors : file.error());
  }
  out += machines.text() + "\nGPUs (dense TFLOP/s)\n";
  Table gpus({"", "memory", "bandwidth", "bf16", "nvfp4", "what"}, 2);
  gpus.left(5);
  each("hardware/gpus", errors,
       [&](const std::string& name, const Settings& file, Reading& reading) {
         const GpuSpec g = read_gpu(name, file, reading);
         gpus.row({name, text(g.memory), text(g.memory_bandwidth), figure(g.bf16.count() / 1e12),
                   figure(g.nvfp4.count() / 1e12), g.name});
       });
  out += gpus.text() + "\nbuilds\n";
  Table builds({"", "engine", "GPU", "what"}, 2);
  builds.left(1).left(2).left(3);
  for (const auto& name : data_names("hardware/builds")) {
    const auto file = load_build(name, {});
    Reading reading;
    if (file) {
      const Build b = read_build(name, file->settings, reading);
      builds.row({name, b.engine + " " + b.version, b.architecture, b.name});
    }
    errors.append(file ? reading.errors : file.error());
  }
  out += builds.text() + "\n";
  const auto line = [&](const char* what, const std::vector<std::string>& names) {
    // What does not fit on the line goes on below it, under the first name.
    const std::string text = wrapped(fmt::format("{}", fmt::join(names, ", ")), 19, 99);
    out += fmt::format("{:<18} {}", what, text.substr(19));
  };
  line("engines", Registry<EngineKind>::names());
  line("workloads", Registry<WorkloadKind>::names());
  line("collectives", Registry<CollectiveAlgorithmFactory>::names());
  line("all-reduce kernels", Registry<CollectiveKernelFactory>::names());
  line("machine edits", Registry<MachineEdit>::names());
  line("GEMM models", Registry<CostModelFactory<GemmShape>>::names());
  line("MoE models", Registry<CostModelFactory<MoeShape>>::names());
  line("attention models", Registry<CostModelFactory<MlaDecodeShape>>::names());
  if (!errors.empty()) return report_errors(errors);
  print_result(out);
  return Exit::fine;
}

std::function<Exit()> setup(CommandLine&) { return list; }

const Registered<Command> me("list", {5, "machines, models, GPUs, builds and plug-ins",
                                      "ceiling list", setup});

}  // namespace
