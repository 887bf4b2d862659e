#include "sim/scenario/kernel_files.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>

#include <fmt/format.h>

#include "sim/scenario/data.hpp"
#include "sim/scenario/yaml.hpp"

namespace fs = std::filesystem;

Expected<GpuSpec> load_gpu_file(const std::string& name) {
  const auto id = find_gpu(name, {});
  if (!id) return tl::unexpected(id.error());
  const auto path = find_data_file("hardware/gpus", *id, {});
  if (!path) return tl::unexpected(path.error());
  const auto file = load_yaml(*path, {});
  if (!file) return tl::unexpected(file.error());
  Reading reading;
  auto gpu = read_gpu(*id, *file, reading);
  if (!reading.errors.empty()) return tl::unexpected(reading.errors);
  return gpu;
}

Expected<KernelTables> load_kernel_tables(const GpuSpec& gpu, const std::string& tables_of,
                                          const std::vector<std::string>& classes) {
  const fs::path folder = fs::path(data_folder()) / "hardware/tables" / tables_of;
  std::vector<fs::path> files;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    if (entry.path().extension() != ".table") continue;
    // gemm.table and gemm.SOURCE.table hold one class, measured by two
    const auto name = entry.path().stem().string();
    const auto stem = name.substr(0, name.find('.'));
    if (classes.empty() || std::find(classes.begin(), classes.end(), stem) != classes.end())
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  KernelTables out;
  Diagnostics errors;
  for (const auto& path : files) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    auto sets = read_kernel_sets(path.string(), text.str());
    if (!sets)
      errors.append(sets.error());
    else
      out.add(std::move(*sets), gpu);
  }
  if (!errors.empty()) return tl::unexpected(errors);
  return out;
}

Expected<std::shared_ptr<const KernelTables>> shared_kernel_tables(const GpuSpec& gpu,
                                                                   const std::string& tables_of) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const KernelTables>> loaded;
  const std::lock_guard lock(mutex);
  auto& tables = loaded[fmt::format("{} {} {}", data_folder(), tables_of, gpu.id)];
  if (!tables) {
    auto fresh =
        load_kernel_tables(gpu, tables_of,
                           {"gemm", "mla_bmm", "moe", "generation_mla", "context_mla",
                            "generation_attention", "context_attention", "mixed_attention"});
    if (!fresh) return tl::unexpected(fresh.error());
    tables = std::make_shared<const KernelTables>(std::move(*fresh));
  }
  return tables;
}
