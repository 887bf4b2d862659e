#include "sim/scenario/box_tables.hpp"

#include <filesystem>

#include <fmt/format.h>

#include "sim/scenario/kernel_files.hpp"

namespace fs = std::filesystem;

namespace {

// Kernel of a pass, by the class of its table.
constexpr std::pair<const char*, const char*> kernels[] = {
    {"gemm", "gemm"},
    {"mla_bmm", "batched_gemm"},
    {"moe", "moe"},
    {"generation_mla", "mla_decode"},
    {"context_mla", "mla_prefill"},
    {"generation_attention", "attention_decode"},
    {"context_attention", "attention_prefill"}};

}  // namespace

std::string box_collectives_of(const Settings& folder) {
  const auto path = fs::path(folder.text()) / box_collectives;
  std::error_code code;
  return fs::exists(path, code) ? path.string() : "";
}

void use_box_tables(const Settings& folder, const GpuSpec& gpu, Settings& build, Settings& laws,
                    std::vector<std::string>& files, Diagnostics& errors) {
  std::error_code code;
  if (!folder.is_scalar() || !fs::is_directory(folder.text(), code))
    return errors.error(folder.where(),
                        folder.is_scalar() ? fmt::format("there is no folder '{}'", folder.text())
                                           : "kernel_tables must name a folder",
                        "ceiling calibrate fit -o FOLDER makes one");
  KernelTables tables;
  if (const auto damaged = add_table_folder(tables, folder.text(), gpu); !damaged.empty())
    return errors.append(damaged);
  for (const auto& set : tables.sets())
    if (set.measured_on != gpu.id)
      return errors.error(
          folder.where(),
          fmt::format("'{}' holds tables of {}, the machine has {}", folder.text(),
                      set.measured_on.empty() ? "a GPU it does not name" : set.measured_on, gpu.id),
          "ceiling calibrate run measures this machine's card");
  bool any = false;
  for (const auto& entry : kernels) {
    const char *kernel_class = entry.first, *kernel = entry.second;
    for (const auto& set : tables.sets()) {
      if (set.kernel_class != kernel_class) continue;
      const auto put = [&](const char* key, const std::string& value) {
        laws.set(fmt::format("{}.{}.{}", kernel, box_back_end, key),
                 Settings::scalar(value, folder.where()));
      };
      put("model", "table");
      put("engine", set.engine);
      put("version", set.version);
      put("source", set.source);
      build.set(fmt::format("back_ends.{}", kernel),
                Settings::scalar(box_back_end, folder.where()));
      files.push_back((fs::path(folder.text()) / (set.kernel_class + ".table")).string());
      any = true;
      break;
    }
  }
  if (!any)
    errors.error(folder.where(),
                 fmt::format("'{}' holds no table that a pass is priced from", folder.text()),
                 "ceiling calibrate fit -o FOLDER makes some");
}
