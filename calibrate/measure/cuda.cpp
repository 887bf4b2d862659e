// The GPU of this machine, through the plug-ins: each point goes to the plug-in that offers its
// kernel. What takes several ranks goes to processes of their own, and so does what runs under a
// setting. A plug-in that is missing fails its own points, with the reason, and no others.

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "calibrate/measure/nvml.hpp"
#include "calibrate/measure/plugin.hpp"
#include "calibrate/measure/probe.hpp"
#include "calibrate/measure/ranks.hpp"

namespace {

// "nccl NCCL_PROTO=Simple NCCL_P2P_LEVEL=SYS" as the kernel and its environment.
struct Source {
  std::string kernel;
  std::map<std::string, std::string> environment;
};
Source parse_source(const std::string& text) {
  std::istringstream in(text);
  Source out;
  in >> out.kernel;
  for (std::string word; in >> word;)
    if (const auto equals = word.find('='); equals != std::string::npos)
      out.environment[word.substr(0, equals)] = word.substr(equals + 1);
  return out;
}

// Every process that computes on a GPU now; none where the driver does not say.
std::set<unsigned> computing_processes() {
  std::set<unsigned> out;
  if (const auto facts = ask_nvml("libnvidia-ml.so.1"))
    for (const auto& gpu : facts->gpus) out.insert(gpu.processes.begin(), gpu.processes.end());
  return out;
}

class Cuda final : public MeasuringBackEnd {
 public:
  /// `others`: processes that computed before any of ours did. By then numbers need not mean the
  /// same processes here and to the driver (in a container they do not).
  Cuda(const GpuSpec& gpu, std::vector<Plugin> plugins, std::map<std::string, std::string> missing,
       std::string driver, std::set<unsigned> others)
      : plugins_(std::move(plugins)), missing_(std::move(missing)), others_(std::move(others)) {
    for (const auto& plugin : plugins_)
      for (const auto& [id, value] : plugin.facts()) take_fact(id, value);
    if (!driver.empty()) device_.driver = std::move(driver);
    device_.gpu = is_card(gpu, device_.device) ? gpu.id : device_.device;
  }

  DeviceFacts device() const override { return device_; }

  Check prepare(const CalibrationPoint& p) override {
    const Source source = parse_source(p.source);
    plugin_ = nullptr;
    for (auto& plugin : plugins_)
      if (plugin.offers(p.kernel_class, source.kernel)) plugin_ = &plugin;
    if (!plugin_) {
      std::string why =
          fmt::format("no plug-in has the kernel {} of {}", source.kernel, p.kernel_class);
      for (const auto& [name, reason] : missing_) why += fmt::format("; {}", reason);
      return {PointState::failed, why};
    }
    if (p.ranks == 1 && source.environment.empty())
      team_.reset();
    else
      form_team(p.ranks, source.environment);
    auto check = team_ ? team_->prepare(p, source.kernel) : plugin_->prepare(p, source.kernel);
    if (check.state == PointState::ok && is_disturbed())
      check.reason = "another process computes on the GPUs";
    return check;
  }

  tl::expected<std::vector<Sample>, std::string> measure(std::size_t count) override {
    auto samples = team_ ? team_->measure(count) : plugin_->measure(count);
    if (samples && is_disturbed())
      for (auto& s : *samples) s.stolen = true;
    return samples;
  }

 private:
  // Kept while the next points ask for the same: starting ranks takes seconds.
  void form_team(int ranks, const std::map<std::string, std::string>& environment) {
    if (team_ && team_ranks_ == ranks && team_environment_ == environment &&
        team_plugin_ == plugin_->path())
      return;
    team_.reset();
    team_ranks_ = ranks;
    team_environment_ = environment;
    team_plugin_ = plugin_->path();
    RankTeamOptions options;
    options.plugin = team_plugin_;
    options.ranks = ranks;
    options.environment = environment;
    team_.emplace(std::move(options));
  }
  bool is_disturbed() const {
    if (others_.empty()) return false;
    const auto now = computing_processes();
    return std::any_of(others_.begin(), others_.end(),
                       [&](unsigned process) { return now.count(process) > 0; });
  }
  void take_fact(const std::string& id, const std::string& value) {
    if (id == "device")
      device_.device = value;
    else if (id == "cuda_driver")
      device_.driver = "CUDA " + value;
    else if (id == "sm_clock_mhz")
      device_.sm_clock_mhz = std::atof(value.c_str());
    else if (id == "memory_clock_mhz")
      device_.memory_clock_mhz = std::atof(value.c_str());
    else
      device_.libraries += fmt::format("{}{} {}", device_.libraries.empty() ? "" : ", ", id, value);
  }

  std::vector<Plugin> plugins_;
  std::map<std::string, std::string> missing_;
  std::set<unsigned> others_;
  DeviceFacts device_;
  Plugin* plugin_ = nullptr;  // of the point last prepared
  std::optional<RankTeam> team_;
  int team_ranks_ = 0;
  std::map<std::string, std::string> team_environment_;
  std::string team_plugin_;
};

tl::expected<std::unique_ptr<MeasuringBackEnd>, BackEndRefusal> open(
    const BackEndOptions& options) {
  BackEndRefusal refusal{true, {}};
  const auto refuse = [&](const std::string& why) {
    refusal.errors.error({}, why);
    return tl::unexpected(refusal);
  };
  if (const auto why = no_gpu_reason("libcuda.so.1"); !why.empty()) return refuse(why);
  const auto others = computing_processes();
  const auto facts = ask_nvml("libnvidia-ml.so.1");
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
    if (const auto opened = plugin->open(0); opened.state != PointState::ok)
      missing[name] = fmt::format("the plug-in {} cannot take the GPU: {}", name, opened.reason);
    else
      plugins.push_back(std::move(*plugin));
  }
  if (plugins.empty()) {
    for (const char* name : plugin_names)  // one that is there but does not load says more
      if (!find_plugin(name, folders).empty()) return refuse(missing[name]);
    return refuse(fmt::format("there are no plug-ins in {}; build ceiling where a CUDA toolkit is",
                              fmt::join(folders, " or ")));
  }
  return std::make_unique<Cuda>(options.gpu, std::move(plugins), std::move(missing),
                                facts ? facts->driver : "", others);
}

const Registered<MeasuringBackEndKind> me("cuda",
                                          {"the GPU of this machine, through plug-ins", open});

}  // namespace
