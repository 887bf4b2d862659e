// Batched GEMM of the absorbed MLA projections: start-up plus the longer of traffic and arithmetic.
// Measured with 128-wide heads only; GLM-5's 192 and 256 are scaled by their bytes and flops.

#include <algorithm>

#include "models/cost/cost_model.hpp"
#include "sim/base/assert.hpp"

namespace {

class BatchedGemm final : public CostModel<BatchedGemmShape> {
 public:
  BatchedGemm(const GpuSpec& gpu, Section& s)
      : gpu_(gpu),
        quality_(read_quality(s)),
        start_us_(s.required<Duration>("start", plausible_time()).us()),
        peak_(s.required<FlopsPerSecond>("peak", plausible_peak()).count()) {}

  Prediction predict(const BatchedGemmShape& s) const override {
    SIM_ASSERT(s.batch > 0 && s.m > 0 && s.n > 0 && s.k > 0);
    const auto b = static_cast<double>(s.batch), m = static_cast<double>(s.m),
               n = static_cast<double>(s.n), k = static_cast<double>(s.k);
    const double flops = 2 * b * m * n * k;
    const Duration memory =
        Duration::from_seconds(b * (n * k + m * k + m * n) * 2 / gpu_.memory_bandwidth.count());
    const double us = start_us_ + std::max(memory.us(), flops / peak_ * 1e6);
    return predicted(us, Flops(flops) / gpu_.bf16, memory, quality_);
  }

 private:
  GpuSpec gpu_;
  ModelQuality quality_;
  double start_us_, peak_;
};

const Registered<CostModelFactory<BatchedGemmShape>> me(
    "start_and_roofline", make_cost_model<BatchedGemm, BatchedGemmShape>);

}  // namespace
