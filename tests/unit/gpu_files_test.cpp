#include <catch2/catch.hpp>

#include "sim/scenario/data.hpp"
#include "tests/support/hardware.hpp"

namespace {

std::vector<GpuSpec> all_gpus() {
  std::vector<GpuSpec> out;
  for (const auto& file : repo_files("hardware/gpus", ".yaml"))
    out.push_back(load_gpu(std::filesystem::path(file).stem().string()));
  return out;
}

// The data of this source tree, wherever the test program lies.
struct DataHere {
  DataHere() { setenv("CEILING_DATA", repo_root().c_str(), 1); }
};

}  // namespace

TEST_CASE("every GPU file says where its numbers are from, and they agree with each other") {
  for (const auto& gpu : all_gpus()) {
    INFO(gpu.id);
    CHECK(gpu.boost_clock > Hertz(1e9));
    CHECK(gpu.memory > gpu.l2);
    CHECK(gpu.fp8 >= gpu.bf16);
    CHECK(gpu.nvfp4 >= gpu.fp8);
    // Dense BF16 peak per SM and clock is a power of two, give or take how a datasheet rounds and
    // at which clock it counts: 512 (GeForce with FP32 accumulation), 1024, 2048, 4096, 8192.
    const double per_clock = gpu.bf16.count() / gpu.sm_count / gpu.boost_clock.count();
    double nearest = 512;
    while (nearest * 1.4 < per_clock) nearest *= 2;
    CHECK(per_clock == Approx(nearest).epsilon(0.06));
  }
}

TEST_CASE("a GPU is found by its name, its aliases and whatever signs they are written with") {
  const DataHere here;
  const auto stem = [](const std::string& name) {
    const auto found = find_gpu(name, {});
    return found ? *found : found.error().render();
  };
  for (const auto& [name, id] : std::vector<std::pair<std::string, std::string>>{
           {"h100_sxm", "h100"},
           {"h200_sxm", "h200"},
           {"b200_sxm", "b200"},
           {"a100_sxm", "a100"},
           {"l40s", "l40s"},
           {"rtx_pro_6000_server", "rtx-pro-6000-server"},
           {"NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000-server"},
           {"RTX4090", "rtx-4090"},
           {"rtx 5090", "rtx-5090"}})
    CHECK(stem(name) == id);
  CHECK(stem("h100_smx").find("did you mean 'h100_sxm'?") != std::string::npos);
  // No single card: three editions carry that name.
  CHECK(stem("RTXPRO6000").find("there is no GPU 'RTXPRO6000'") != std::string::npos);
}

TEST_CASE("no name stands for two GPUs") {
  const DataHere here;
  for (const auto& gpu : all_gpus()) {
    CHECK(find_gpu(gpu.id, {}).value() == gpu.id);
    for (const auto& alias : gpu.aliases) {
      INFO(alias);
      CHECK(find_gpu(alias, {}).value() == gpu.id);
    }
  }
}

TEST_CASE("a clock needs its unit and lies where clocks lie") {
  const auto problem = [](const std::string& clock) {
    std::string text;
    for (const auto& line : {"schema: 1", "source: x", "name: x", "architecture: sm120",
                             "compute_capability: 12", "sm_count: 1", "memory: 1 GiB", "l2: 1 MiB",
                             "memory_bandwidth: 1 TB/s", "bf16: 1 TFLOP/s"})
      text += std::string(line) + "\n";
    const Settings file = yaml(text + "boost_clock: " + clock + "\n");
    Reading reading;
    read_gpu("x", file, reading);
    return reading.errors.render();
  };
  CHECK(problem("2430 MHz").empty());
  CHECK(problem("2.43 GHz").empty());
  CHECK(problem("2430").find("needs a unit") != std::string::npos);
  CHECK(problem("2430 GHz").find("must lie between 100 MHz and 10 GHz") != std::string::npos);
}
