// A ring all-reduce moved by the copy engines: NCCL's Simple ring without its limit per channel, as
// engines of 2026-07 take it for large payloads (local-inference-lab/rtx6kpro @e2c2b957,
// models/glm5.2_v14.md: prefill at ring rate). Nobody timed it alone; start and steps are NCCL's.

#include "hardware/collective/kernels/kernel.hpp"
#include "sim/base/assert.hpp"

namespace {

constexpr double start_us = 12.1, step_us = 2.18, pipeline_fill = 0.536;  // see nccl/ring.cpp

class DmaRing final : public CollectiveKernel {
 public:
  bool supports(Collective op, const CollectiveBox& box) const override {
    return op == Collective::all_reduce && box.peers();
  }
  CollectivePrice price(Collective, Bytes size, const CollectiveBox& box) const override {
    SIM_ASSERT(box.ranks() >= 2);
    const double steps = 2.0 * (box.ranks() - 1);
    CollectivePrice out;
    out.kernel = "dma_ring";
    out.provenance = Provenance::assumed;
    out.spread = 1.3;
    const double latency_us = start_us + steps * step_us;
    const double transfer_us =
        (steps + pipeline_fill) * size.real() / box.ranks() / box.path_rate().count() * 1e6;
    out.time = Duration::from_us(latency_us + transfer_us);
    out.limit = latency_us >= transfer_us ? "hop latency" : "links";
    return out;
  }
};

const CollectiveKernel& make() {
  static const DmaRing kernel;
  return kernel;
}

const Registered<CollectiveKernelFactory> me("dma_ring", make);

}  // namespace
