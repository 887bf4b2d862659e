// Memory-bound small kernels: a floor, plus the bytes at a share of the bandwidth.
// Leaves out: everything that fusion would change; the number of kernels is the build's statement.

#include "models/cost/cost_model.hpp"
#include "sim/base/assert.hpp"

namespace {

class Elementwise final : public CostModel<ElementwiseShape> {
 public:
  Elementwise(const GpuSpec& gpu, Section& s)
      : gpu_(gpu),
        quality_(read_quality(s)),
        floor_us_(s.required<Duration>("floor", plausible_time()).us()),
        efficiency_(s.required<double>("bandwidth_efficiency", between(0.01, 1.0))) {}

  Prediction predict(const ElementwiseShape& s) const override {
    SIM_ASSERT(s.bytes >= 0);
    const Duration memory = Bytes(s.bytes) / gpu_.memory_bandwidth;
    return predicted(floor_us_ + memory.us() / efficiency_, Duration(), memory, quality_);
  }

 private:
  GpuSpec gpu_;
  ModelQuality quality_;
  double floor_us_, efficiency_;
};

const Registered<CostModelFactory<ElementwiseShape>> me(
    "floor_and_bytes", make_cost_model<Elementwise, ElementwiseShape>);

}  // namespace
