// Routed experts: start-up, plus the weights of every expert that is touched at all, plus the
// arithmetic. Decode time follows the number of distinct experts, not the number of tokens: one
// pair (start, bandwidth) covers balanced and skewed routing once that number is right (1 to 2.5 %
// median on SM120 up to 256 tokens). The three parts add up; they hardly overlap in a grouped GEMM.
// Activations of 16 bits (A16) slow the arithmetic by a factor of the back end.
// Leaves out: load imbalance between GPUs under expert parallelism, kernel switches at 4-8 rows.

#include "models/cost/cost_model.hpp"
#include "sim/base/assert.hpp"

namespace {

class DistinctExpertsMoe final : public CostModel<MoeShape> {
 public:
  DistinctExpertsMoe(const GpuSpec& gpu, Section& s)
      : gpu_(gpu),
        quality_(read_quality(s)),
        start_us_(s.required<Duration>("start", plausible_time()).us()),
        bandwidth_(s.required<BytesPerSecond>("bandwidth", plausible_bandwidth()).count()),
        peak_(s.required<FlopsPerSecond>("peak", plausible_peak()).count()),
        a16_arithmetic_(s.optional<double>("a16_arithmetic", 1.0, between(0.1, 10.0))) {
    // Fixed when a build's rate is fitted on served steps; then it stands under 'start' instead.
    s.take("fit_start");
  }

  Prediction predict(const MoeShape& s) const override {
    SIM_ASSERT(s.tokens > 0 && s.hidden > 0 && s.inter > 0 && s.distinct_experts > 0);
    const double weights = 3.0 * s.hidden * s.inter;  // gate, up and down projection
    const double bytes = s.distinct_experts * weights * bytes_per_element(s.precision);
    const double flops = 2 * weights * static_cast<double>(s.tokens * s.experts_per_token);
    const double slower = s.bf16_activations ? a16_arithmetic_ : 1;
    const double us = start_us_ + bytes / bandwidth_ * 1e6 + flops / peak_ * slower * 1e6;
    return predicted(us, Flops(flops) / gpu_.peak(s.precision),
                     Duration::from_seconds(bytes / gpu_.memory_bandwidth.count()), quality_);
  }

 private:
  GpuSpec gpu_;
  ModelQuality quality_;
  double start_us_, bandwidth_, peak_, a16_arithmetic_;
};

const Registered<CostModelFactory<MoeShape>> me("distinct_experts",
                                                make_cost_model<DistinctExpertsMoe, MoeShape>);

}  // namespace
