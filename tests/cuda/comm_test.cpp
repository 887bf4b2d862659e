// The plug-in of collectives, copies and launches, as far as it goes without a GPU.

#include <cstdlib>

#include <catch2/catch.hpp>

#include "calibrate/measure/plugin.hpp"

namespace {

Plugin comm() {
  const auto path = find_plugin("comm", {std::getenv("CEILING_BUILT_PLUGINS")});
  REQUIRE(!path.empty());
  auto plugin = Plugin::load(path);
  if (!plugin) FAIL(plugin.error());
  return std::move(*plugin);
}

}  // namespace

TEST_CASE("collectives, copies and launches have their kernels, of classes that exist") {
  const auto plugin = comm();
  for (const auto& [kernel_class, source] :
       {std::pair("nccl", "nccl"), std::pair("nccl", "nccl_eager"), std::pair("copy", "cuda"),
        std::pair("launch", "cuda")}) {
    INFO(kernel_class << " " << source);
    CHECK(plugin.offers(kernel_class, source));
    CHECK(KernelClasses::find(kernel_class) != nullptr);
  }
}

TEST_CASE("an id for ranks is text of 128 bytes, and what is none is refused before any waiting") {
  auto plugin = comm();
  const auto id = plugin.make_id();
  if (!id) FAIL(id.error().reason);
  CHECK(id->size() == 256);
  CHECK(id->find_first_not_of("0123456789abcdef") == std::string::npos);
  for (const std::string& wrong : {std::string(), id->substr(1), std::string(256, 'x')}) {
    const auto joined = plugin.join(wrong, 1, 2);
    CHECK(joined.state == PointState::failed);
    CHECK(joined.reason == "this is no id of NCCL");
  }
}
