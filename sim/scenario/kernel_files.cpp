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

Diagnostics add_table_folder(KernelTables& tables, const std::string& folder, const GpuSpec& gpu,
                             const std::vector<std::string>& classes) {
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
  Diagnostics errors;
  for (const auto& path : files) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    auto sets = read_kernel_sets(path.string(), text.str());
    if (!sets)
      errors.append(sets.error());
    else
      tables.add(std::move(*sets), gpu);
  }
  return errors;
}

Expected<KernelTables> load_kernel_tables(const GpuSpec& gpu, const std::string& tables_of,
                                          const std::vector<std::string>& classes) {
  KernelTables out;
  const auto folder = fs::path(data_folder()) / "hardware/tables" / tables_of;
  if (auto errors = add_table_folder(out, folder.string(), gpu, classes); !errors.empty())
    return tl::unexpected(std::move(errors));
  return out;
}

Expected<std::shared_ptr<const KernelTables>> shared_kernel_tables(
    const GpuSpec& gpu, const std::string& tables_of, const std::vector<std::string>& classes,
    const std::string& box_folder) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const KernelTables>> loaded;
  const std::lock_guard lock(mutex);
  auto& tables = loaded[fmt::format("{} {} {} {} {}", data_folder(), tables_of, gpu.id, box_folder,
                                    fmt::join(classes, " "))];
  if (!tables) {
    auto fresh = load_kernel_tables(gpu, tables_of, classes);
    if (!fresh) return tl::unexpected(fresh.error());
    if (!box_folder.empty())
      if (auto errors = add_table_folder(*fresh, box_folder, gpu); !errors.empty())
        return tl::unexpected(std::move(errors));
    tables = std::make_shared<const KernelTables>(std::move(*fresh));
  }
  return tables;
}
