// The plug-ins as they were built, on a machine that need not have a GPU.

#include <cstdlib>
#include <set>

#include <catch2/catch.hpp>

#include "calibrate/measure/plan.hpp"
#include "calibrate/measure/plugin.hpp"
#include "calibrate/measure/probe.hpp"
#include "sim/scenario/data.hpp"
#include "sim/scenario/kernel_files.hpp"
#include "sim/scenario/yaml.hpp"

namespace {

std::vector<Plugin> built_plugins() {
  std::vector<Plugin> out;
  for (const char* name : plugin_names) {
    const auto path = find_plugin(name, {std::getenv("CEILING_BUILT_PLUGINS")});
    INFO(name);
    REQUIRE(!path.empty());
    auto plugin = Plugin::load(path);
    if (!plugin) FAIL(plugin.error());
    CHECK(plugin->name() == name);
    out.push_back(std::move(*plugin));
  }
  return out;
}

CalibrationPlan plan_of(const std::string& card, const std::string& model, int tensor_parallel,
                        Precision kv) {
  const auto file = load_yaml(*find_data_file("models/zoo", model, {}), {});
  REQUIRE(file);
  Reading reading;
  const ModelSpec spec = read_model(model, *file, reading);
  REQUIRE(reading.errors.empty());
  PlanOptions options;
  options.profile = "full";
  options.tensor_parallel = tensor_parallel;
  options.kv = kv;
  return make_plan(spec, *load_gpu_file(card), options);
}

}  // namespace

TEST_CASE("every kernel that a plan names is in exactly one plug-in") {
  const auto plugins = built_plugins();
  std::set<std::pair<std::string, std::string>> kernels;
  for (const char* card : {"rtx-pro-6000-server", "h200", "b200"})
    for (const auto& [model, ways] :
         {std::pair("glm-5-nvfp4", 8), std::pair("llama-3.1-8b", 1), std::pair("qwen3-32b", 2)})
      for (const auto& p : plan_of(card, model, ways, Precision::bf16).points)
        kernels.emplace(p.kernel_class, p.source.substr(0, p.source.find(' ')));
  CHECK(kernels.size() > 8);
  for (const auto& [kernel_class, source] : kernels) {
    INFO(kernel_class << " " << source);
    int offered = 0;
    for (const auto& plugin : plugins) offered += plugin.offers(kernel_class, source);
    CHECK(offered == 1);
  }
}

TEST_CASE("a plug-in says which libraries it stands on, and why it cannot take a GPU") {
  std::set<std::string> libraries;
  for (auto& plugin : built_plugins()) {
    for (const auto& fact : plugin.facts()) libraries.insert(fact.first);
    if (no_gpu_reason("libcuda.so.1").empty()) continue;  // this machine has one
    const auto opened = plugin.open(0);
    CHECK(opened.state == PointState::failed);
    INFO(opened.reason);
    CHECK(opened.reason.find("counting GPUs: ") == 0);
  }
  for (const char* library : {"cublaslt", "cudnn", "nccl"}) CHECK(libraries.count(library) == 1);
}
