#include <catch2/catch.hpp>

#include "sim/scenario/scaled_laws.hpp"
#include "tests/support/hardware.hpp"

namespace {

GpuSpec card(double bandwidth, double bf16, int sms) {
  GpuSpec gpu;
  gpu.name = "card";
  gpu.sm_count = sms;
  gpu.memory_bandwidth = BytesPerSecond(bandwidth);
  gpu.bf16 = FlopsPerSecond(bf16);
  gpu.fp8 = FlopsPerSecond(2 * bf16);
  gpu.nvfp4 = FlopsPerSecond(4 * bf16);
  return gpu;
}

const char* const two_laws = R"(
gemm:
  cutlass:
    model: wave_k
    source: a table
    scale: { label: GEMM times, value: 1, basis: fitted, spread: 1.1 }
    bf16: { start: 3 us, bandwidth: 1 TB/s, peak: 400 TFLOP/s, wave_per_k: 4 ns }
moe:
  b12x:
    source: a table
    scale: { label: MoE times, value: 1, basis: assumed, spread: 1.6 }
    bandwidth: 1 TB/s
    peak: 100 TFLOP/s
)";

}  // namespace

TEST_CASE("laws of another card keep their start-up and follow its bandwidth, peak and SMs") {
  Settings laws = yaml(two_laws);
  // half the bandwidth, twice the arithmetic on as many SMs
  scale_laws(laws, card(2e12, 1e14, 100), card(1e12, 2e14, 100));
  CHECK(laws.at("gemm.cutlass.bf16.start")->text() == "3 us");
  CHECK(parse<BytesPerSecond>(laws.at("gemm.cutlass.bf16.bandwidth")->text())->count() ==
        Approx(0.5e12));
  CHECK(parse<FlopsPerSecond>(laws.at("gemm.cutlass.bf16.peak")->text())->count() ==
        Approx(800e12));
  CHECK(parse<Duration>(laws.at("gemm.cutlass.bf16.wave_per_k")->text())->us() == Approx(2e-3));
  CHECK(parse<FlopsPerSecond>(laws.at("moe.b12x.peak")->text())->count() == Approx(200e12));
}

TEST_CASE("a wave takes longer on a card with more SMs for the same peak") {
  Settings laws = yaml(two_laws);
  scale_laws(laws, card(2e12, 1e14, 100), card(2e12, 1e14, 200));
  CHECK(parse<Duration>(laws.at("gemm.cutlass.bf16.wave_per_k")->text())->us() == Approx(8e-3));
}

TEST_CASE("a scaled law is assumed, with a spread of at least 1.25, and says from where") {
  Settings laws = yaml(two_laws);
  scale_laws(laws, card(2e12, 1e14, 100), card(2e12, 1e14, 100));
  CHECK(laws.at("gemm.cutlass.scale.basis")->text() == "assumed");
  CHECK(laws.at("gemm.cutlass.scale.spread")->text() == "1.25");
  CHECK(laws.at("moe.b12x.scale.spread")->text() == "1.6");
  CHECK(laws.at("gemm.cutlass.source")->text() == "a table; measured on card, scaled to card");
  CHECK(laws.at("gemm.cutlass.bf16.bandwidth")->text() == "1 TB/s");
}
