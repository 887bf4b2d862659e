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
  const std::string& path() const { return path_; }
  bool offers(const std::string& kernel_class, const std::string& source) const;
  /// Takes a GPU, or says why not.
  MeasuringBackEnd::Check open(int device);
  /// "id=value" lines of the GPU and the libraries.
  std::vector<std::pair<std::string, std::string>> facts() const;
  /// As MeasuringBackEnd's: `source` without its environment.
  MeasuringBackEnd::Check prepare(const CalibrationPoint& point, const std::string& source);
  tl::expected<std::vector<Sample>, std::string> measure(std::size_t count);
  /// For processes that are ranks of one collective.
  tl::expected<std::string, MeasuringBackEnd::Check> make_id();
  MeasuringBackEnd::Check join(const std::string& id, int rank, int ranks);

 private:
  Plugin(const PluginApi* api, std::string path) : api_(api), path_(std::move(path)) {}
  const PluginApi* api_;  // null: moved from
  std::string path_;
};

/// Where plug-ins are looked for: $CEILING_PLUGINS alone when set, else plugins/ beside the program
/// and ../lib/ceiling of it.
std::vector<std::string> plugin_folders();
/// The file of plug-in `name` in the first of the folders that has it; "" when none does.
std::string find_plugin(const std::string& name, const std::vector<std::string>& folders);
/// All that ceiling knows, in the order in which kernels are looked for.
inline constexpr const char* plugin_names[] = {"gemm", "attention", "kernels", "comm"};
