// Memory-bound small kernels: a floor, plus the bytes at a share of the bandwidth. With
// `l2_bandwidth` what fits half of the L2 moves at that rate, since the kernel before has just
// written it, and between half of the L2 and all of it a growing part comes from DRAM. A kernel
// that works in place touches half of what it moves. Leaves out: everything that fusion would
// change; the number of kernels is the build's statement.

#include <algorithm>
#include <optional>

#include "models/cost/cost_model.hpp"
#include "sim/base/assert.hpp"

namespace {

class Elementwise final : public CostModel<ElementwiseShape> {
 public:
  Elementwise(const GpuSpec& gpu, Section& s)
      : gpu_(gpu),
        quality_(read_quality(s)),
        floor_us_(s.required<Duration>("floor", plausible_time()).us()),
        efficiency_(s.required<double>("bandwidth_efficiency", between(0.01, 1.0))),
        l2_bandwidth_(s.maybe<BytesPerSecond>("l2_bandwidth", plausible_bandwidth())) {}

  Prediction predict(const ElementwiseShape& s) const override {
    SIM_ASSERT(s.bytes >= 0);
    Duration memory = Bytes(s.bytes) / gpu_.memory_bandwidth;
    double l2_us = 0;
    if (l2_bandwidth_) {
      const double touched = static_cast<double>(s.bytes) / (s.in_place ? 2 : 1);
      const double fill = touched / static_cast<double>(gpu_.l2.count());
      const double outside = std::clamp(2 * fill - 1, 0.0, 1.0);
      l2_us = (Bytes(s.bytes) / *l2_bandwidth_).us() * (1 - outside);
      memory = memory.scaled(outside);
    }
    return predicted(floor_us_ + l2_us + memory.us() / efficiency_, Duration(), memory, quality_);
  }

 private:
  GpuSpec gpu_;
  ModelQuality quality_;
  double floor_us_, efficiency_;
  std::optional<BytesPerSecond> l2_bandwidth_;
};

const Registered<CostModelFactory<ElementwiseShape>> me(
    "floor_and_bytes", make_cost_model<Elementwise, ElementwiseShape>);

}  // namespace
