// Two-shot all-reduce: reduce-scatter and all-gather by direct stores, t = a + 2 (n - 1) / n S / B.
// Known from one box: 8x H200 at 1 to 4 MiB, 6.8 us + 1.75 S / 291 GB/s within 1 % (aiconfigurator
// @095f58a5, custom_allreduce, read 2026-08). Elsewhere the same start and the same share of the
// port (0.65), assumed; never more than the links carry when all send to all.

#include <algorithm>

#include "hardware/collective/kernels/kernel.hpp"
#include "sim/base/assert.hpp"

namespace {

constexpr double start_us = 6.8, port_share = 291.0 / 450;

class TwoShot final : public CollectiveKernel {
 public:
  bool supports(Collective op, const CollectiveBox& box) const override {
    return op == Collective::all_reduce && box.direct_stores();
  }
  CollectivePrice price(Collective, Bytes size, const CollectiveBox& box) const override {
    const int n = box.ranks();
    SIM_ASSERT(n >= 2);
    const double port = port_share * box.port().count();
    const double rate = std::min(port, box.exchange(true).count());
    CollectivePrice out;
    out.kernel = out.algorithm = "two_shot";
    out.transport = box.nvlink() ? Transport::nvlink : Transport::p2p;
    const double transfer_us = 2.0 * (n - 1) / n * size.real() / rate * 1e6;
    out.time = Duration::from_us(start_us + transfer_us);
    out.limit = transfer_us < start_us ? "kernel start" : rate < port ? "links" : "ports";
    const bool known = box.nvlink() && box.compute_capability() < 10;
    out.provenance = known ? Provenance::fitted : Provenance::assumed;
    out.spread = known ? 1.15 : 1.5;
    return out;
  }
};

const CollectiveKernel& make() {
  static const TwoShot kernel;
  return kernel;
}

const Registered<CollectiveKernelFactory> me("two_shot", make);

}  // namespace
