// The GPU of this machine, through the plug-ins: each point goes to the plug-in that offers its
// kernel. What takes several ranks goes to processes of their own, and so does what runs under a
// setting. A plug-in that is missing fails its own points, with the reason, and no others.

#include <map>
#include <optional>

#include <fmt/format.h>

#include "calibrate/measure/plugin.hpp"
#include "calibrate/measure/probe.hpp"

namespace {

class Cuda final : public MeasuringBackEnd {
 public:
  Cuda(const GpuSpec& gpu, std::vector<Plugin> plugins, std::map<std::string, std::string> missing)
      : plugins_(std::move(plugins)), missing_(std::move(missing)) {
    for (const auto& plugin : plugins_)
      for (const auto& [id, value] : plugin.facts()) take_fact(id, value);
    device_.gpu = is_card(gpu, device_.device) ? gpu.id : device_.device;
  }

  DeviceFacts device() const override { return device_; }

  Check prepare(const CalibrationPoint& p) override {
    const auto source = p.source.substr(0, p.source.find(' '));
    now_ = nullptr;
    for (auto& plugin : plugins_)
      if (plugin.offers(p.kernel_class, source)) {
        now_ = &plugin;
        return plugin.prepare(p, source);
      }
    std::string why = fmt::format("no plug-in has the kernel {} of {}", source, p.kernel_class);
    for (const auto& [name, reason] : missing_) why += fmt::format("; {}", reason);
    return {PointState::failed, why};
  }
  tl::expected<std::vector<Sample>, std::string> measure(std::size_t count) override {
    return now_->measure(count);
  }

 private:
  static bool is_card(const GpuSpec& gpu, const std::string& device) {
    for (const auto& alias : gpu.aliases)
      if (alias == device) return true;
    return gpu.name == device || "NVIDIA " + gpu.name == device;
  }
  void take_fact(const std::string& id, const std::string& value) {
    if (id == "device")
      device_.device = value;
    else if (id == "driver")
      device_.driver = value;
    else if (id == "sm_clock_mhz")
      device_.sm_clock_mhz = std::atof(value.c_str());
    else if (id == "memory_clock_mhz")
      device_.memory_clock_mhz = std::atof(value.c_str());
    else
      device_.libraries += fmt::format("{}{} {}", device_.libraries.empty() ? "" : ", ", id, value);
  }

  std::vector<Plugin> plugins_;
  std::map<std::string, std::string> missing_;
  DeviceFacts device_;
  Plugin* now_ = nullptr;
};

tl::expected<std::unique_ptr<MeasuringBackEnd>, BackEndRefusal> open(
    const BackEndOptions& options) {
  BackEndRefusal refusal{true, {}};
  const auto refuse = [&](const std::string& why) {
    refusal.errors.error({}, why);
    return tl::unexpected(refusal);
  };
  if (const auto why = no_gpu_reason("libcuda.so.1"); !why.empty()) return refuse(why);
  std::vector<Plugin> plugins;
  std::map<std::string, std::string> missing;
  const auto folders = plugin_folders();
  for (const char* name : plugin_names) {
    const auto path = find_plugin(name, folders);
    if (path.empty()) {
      missing[name] = fmt::format("the plug-in {} is missing", name);
      continue;
    }
    auto plugin = Plugin::load(path);
    if (!plugin) {
      missing[name] = fmt::format("the plug-in {} cannot be loaded: {}", name, plugin.error());
      continue;
    }
    if (const auto opened = plugin->open(0); !opened)
      missing[name] = fmt::format("the plug-in {} cannot take the GPU: {}", name, opened.error());
    else
      plugins.push_back(std::move(*plugin));
  }
  if (plugins.empty())
    return refuse(missing.size() == std::size(plugin_names) && !find_plugin("gemm", folders).empty()
                      ? missing.begin()->second
                      : fmt::format("there are no plug-ins in {}: build ceiling where a CUDA "
                                    "toolkit is",
                                    fmt::join(folders, " or ")));
  return std::make_unique<Cuda>(options.gpu, std::move(plugins), std::move(missing));
}

const Registered<MeasuringBackEndKind> me("cuda",
                                          {"the GPU of this machine, through plug-ins", open});

}  // namespace
