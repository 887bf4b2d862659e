// Eager collectives: 21 curves of eager against graphed calls, two framework ops a call (NCCL and
// the engines' custom all-reduce on RTX PRO 6000, H200, B200 and L40S, aiconfigurator @095f58a5,
// read 2026-08): 0.5 to 4.8 % off with each curve's own numbers. These are their middles, assumed.
// Leaves out: how fast the host is. L40S hosts needed 40 to 92 us where the others need 19 to 32.

#include "hardware/collective/eager.hpp"

#include <algorithm>

namespace {

// H, the host's time of a call: 28.7 to 31.6 us seen for NCCL, 18.6 to 21 for kernels of an engine.
constexpr double host_nccl_us = 30;
constexpr double host_own_kernel_us = 20;
// c0 and Bc, of the clone of the payload beside it: 1 to 5 us on PCIe, 4 to 16 on NVLink seen.
constexpr double clone_pcie_us = 3;
constexpr double clone_nvlink_us = 10;
constexpr double clone_rate = 1.5e12;  // B/s

}  // namespace

Duration eager_time(const CollectivePrice& price, Bytes size) {
  if (price.transport == Transport::local) return Duration();
  const double host = price.kernel == "nccl" ? host_nccl_us : host_own_kernel_us;
  const double clone = price.transport == Transport::nvlink ? clone_nvlink_us : clone_pcie_us;
  return std::max(Duration::from_us(host),
                  price.time + Duration::from_us(clone) + size / BytesPerSecond(clone_rate));
}
