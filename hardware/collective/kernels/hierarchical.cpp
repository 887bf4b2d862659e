// Hierarchical all-reduce of stores: within each switch (or socket), across, and within again, so
// that a link between islands carries a share of the vector instead of all of it. Three rounds,
// each with its bytes at the slowest transfer's rate. The cost of going from one round to the next
// is fitted on four rows: sixteen GPUs in four islands, 14 to 168 KiB, 20.5 to 37.6 us
// (local-inference-lab/b12x PR 139, read 2026-08; errors 0 to 26 %).

#include <algorithm>

#include "hardware/collective/kernels/kernel.hpp"
#include "sim/base/assert.hpp"

namespace {

constexpr double start_us = 6.7;      // of one kernel, as the one-shot of four GPUs
constexpr double step_us = 6;         // from one round to the next, see above
constexpr double store_share = 0.65;  // of a link under stores to several peers, as one-shot

class Hierarchical final : public CollectiveKernel {
 public:
  bool supports(Collective op, const CollectiveBox& box) const override {
    return op == Collective::all_reduce && box.direct_stores() &&
           collective_algorithm("hierarchical").supports(op, box.arrangement());
  }
  CollectivePrice price(Collective op, Bytes size, const CollectiveBox& box) const override {
    const Schedule schedule =
        collective_algorithm("hierarchical").schedule(op, size, box.arrangement());
    double transfer_us = 0;
    for (const Round& round : schedule.rounds)
      transfer_us += schedule.chunk_bytes / (store_share * box.slowest_rate(round).count()) * 1e6;
    CollectivePrice out;
    out.kernel = out.algorithm = "hierarchical";
    out.transport = box.nvlink() ? Transport::nvlink : Transport::p2p;
    const double rounds = static_cast<double>(schedule.rounds.size());
    const double latency_us = start_us + (rounds - 1) * step_us;
    out.time = Duration::from_us(latency_us + transfer_us);
    out.limit = transfer_us < latency_us ? "kernel start" : "links";
    out.provenance = Provenance::fitted;
    out.spread = 1.5;
    return out;
  }
};

const CollectiveKernel& make() {
  static const Hierarchical kernel;
  return kernel;
}

const Registered<CollectiveKernelFactory> me("hierarchical", make);

}  // namespace
