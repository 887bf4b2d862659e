// One-shot all-reduce: every GPU stores its whole vector to every other one and adds up what
// arrives, in one round: t = a + (n - 1) S / B. Fits the timed curves of five PCIe boxes within 0.4
// to 4 % and of H200 and B200 within 1.4 to 8 % (local-inference-lab/rtx6kpro @e2c2b957,
// hardware/*.md and optimization/pcie-oneshot-allreduce.md; aiconfigurator @095f58a5; read
// 2026-08). What a GPU gets out, B, is a share of its port that falls with the number of peers, and
// never more than what the links carry when all send to all. Leaves out: kernels that add a
// residual on the way.

#include <algorithm>

#include "hardware/collective/kernels/kernel.hpp"
#include "sim/base/assert.hpp"

namespace {

struct Constants {
  int ranks;
  double start_us;
  double port_share;
};
// PCIe: 4.3 to 4.5, 6.2 to 7.3, 7.3 to 7.4 us seen.
constexpr Constants pcie[] = {{2, 4.4, 0.72}, {4, 6.7, 0.65}, {8, 7.35, 0.45}};
// 260 to 300 GB/s out of 450 on H200, 320 to 390 out of 900 on B200.
constexpr Constants hopper[] = {{2, 2.5, 0.62}, {4, 2.7, 0.62}, {8, 3.2, 0.62}};
constexpr Constants blackwell[] = {{2, 4.1, 0.39}, {4, 4.5, 0.39}, {8, 4.8, 0.39}};

// Stores that may not cross a root complex are staged by the hardware: about fifteen times slower
// (local-inference-lab/rtx6kpro @e2c2b957, topology.md).
constexpr double staged_stores = 15;

class OneShot final : public CollectiveKernel {
 public:
  bool supports(Collective op, const CollectiveBox& box) const override {
    return op == Collective::all_reduce && box.peers();
  }
  CollectivePrice price(Collective, Bytes size, const CollectiveBox& box) const override {
    const int n = box.ranks();
    SIM_ASSERT(n >= 2);
    const Constants* table = !box.nvlink()                    ? pcie
                             : box.compute_capability() >= 10 ? blackwell
                                                              : hopper;
    const Constants* c =
        std::find_if(table, table + 2, [&](const Constants& known) { return n <= known.ranks; });
    const double port = c->port_share * box.port().count();
    const double links = box.exchange(true).count();
    const double rate = std::min(port, links);
    CollectivePrice out;
    out.kernel = out.algorithm = "one_shot";
    out.transport = box.nvlink() ? Transport::nvlink : Transport::p2p;
    const double transfer_us = (n - 1) * size.real() / rate * 1e6;
    double us = c->start_us + transfer_us;
    out.limit = transfer_us < c->start_us ? "kernel start" : rate < port ? "links" : "ports";
    if (!box.direct_stores()) us *= staged_stores, out.limit = "stores staged through the host";
    out.time = Duration::from_us(us);
    out.provenance = box.direct_stores() ? Provenance::fitted : Provenance::assumed;
    out.spread = box.direct_stores() ? 1.25 : 2;
    return out;
  }
};

const CollectiveKernel& make() {
  static const OneShot kernel;
  return kernel;
}

const Registered<CollectiveKernelFactory> me("one_shot", make);

}  // namespace
