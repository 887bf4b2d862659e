// One-shot all-reduce over PCIe: every GPU stores its whole vector to every other one and adds up
// what arrives, in one round: t = a + (n - 1) S / B. Fits the timed curves of five boxes within 0.4
// to 4 % (local-inference-lab/rtx6kpro @e2c2b957, hardware/*.md and
// optimization/pcie-oneshot-allreduce.md, read 2026-08). What a GPU gets out, B, is a share of its
// port that falls with the number of peers, and never more than what the links carry when all send
// to all. Leaves out: the posted-write collapse of some switches, kernels that add a residual on
// the way.

#include <algorithm>

#include "hardware/collective/collective.hpp"
#include "sim/base/assert.hpp"

namespace {

struct Constants {
  int ranks;
  double start_us;  // 4.3 to 4.5, 6.2 to 7.3, 7.3 to 7.4 us seen
  double port_share;
};
constexpr Constants constants[] = {{2, 4.4, 0.72}, {4, 6.7, 0.65}, {8, 7.35, 0.45}};

class OneShot final : public AllReduceKernel {
 public:
  CollectivePrice price(Bytes size, const KernelView& view) const override {
    SIM_ASSERT(view.ranks >= 2);
    const auto* c = std::find_if(std::begin(constants), std::end(constants) - 1,
                                 [&](const Constants& known) { return view.ranks <= known.ranks; });
    const double port = c->port_share * view.port.count();
    const double rate = std::min(port, view.exchange.count());
    CollectivePrice out;
    out.kernel = "one_shot";
    const double transfer_us = (view.ranks - 1) * size.real() / rate * 1e6;
    out.time = Duration::from_us(c->start_us + transfer_us);
    out.limit = transfer_us < c->start_us ? "kernel start" : rate < port ? "links" : "ports";
    return out;
  }
};

const AllReduceKernel& make() {
  static const OneShot kernel;
  return kernel;
}

const Registered<AllReduceKernelFactory> me("one_shot", make);

}  // namespace
