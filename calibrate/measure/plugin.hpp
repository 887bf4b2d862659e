#pragma once

#include <memory>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "calibrate/cuda/plugin.hpp"
#include "calibrate/measure/back_end.hpp"

/// A plug-in that was loaded: kernels of one library, on one GPU. Closed with its owner, never
/// unloaded (CUDA keeps threads of its own).
class Plugin {
 public:
  /// The error is the loader's own words, which name a library that is missing, or says why the
  /// file is no plug-in of this ceiling.
  static tl::expected<Plugin, std::string> load(const std::string& path);
  ~Plugin();
  Plugin(Plugin&& other) noexcept;
  Plugin& operator=(Plugin&&) = delete;

  std::string name() const { return api_->name; }
  bool offers(const std::string& kernel_class, const std::string& source) const;
  /// Takes a GPU. The error says why not.
  tl::expected<void, std::string> open(int device);
  /// "id=value" lines of the GPU and the libraries.
  std::vector<std::pair<std::string, std::string>> facts() const;
  /// As MeasuringBackEnd's: `source` without its environment.
  MeasuringBackEnd::Check prepare(const CalibrationPoint& point, const std::string& source);
  tl::expected<std::vector<Sample>, std::string> measure(std::size_t count);
  /// For processes that are ranks of one collective.
  tl::expected<std::string, std::string> make_id();
  tl::expected<void, std::string> join(const std::string& id, int rank, int ranks);

 private:
  explicit Plugin(const PluginApi* api) : api_(api) {}
  const PluginApi* api_;  // null: moved from
};

/// Where plug-ins are looked for: $CEILING_PLUGINS alone when set, else plugins/ beside the program
/// and ../lib/ceiling of it.
std::vector<std::string> plugin_folders();
/// The file of plug-in `name` in the first of the folders that has it; "" when none does.
std::string find_plugin(const std::string& name, const std::vector<std::string>& folders);
/// All that ceiling knows, in the order in which kernels are looked for.
inline constexpr const char* plugin_names[] = {"gemm", "attention", "kernels", "comm"};
