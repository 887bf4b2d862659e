#include "hardware/collective/eager.hpp"

#include <algorithm>

namespace {

constexpr double host_us = 30;  // two framework operations and NCCL's launch: 21 to 32 us
constexpr double host_own_kernel_us = 20;  // and an engine's own kernel: 18.6 to 30 us
constexpr double copy_start_us = 3, copy_start_nvlink_us = 10;  // 1 to 5 and 4 to 16 us
constexpr double copy_rate = 1.5e12;                            // B/s, at least

}  // namespace

Duration eager_time(const CollectivePrice& price, Bytes size) {
  const double copy_us =
      (price.transport == Transport::nvlink ? copy_start_nvlink_us : copy_start_us) +
      size.real() / copy_rate * 1e6;
  const double host = price.kernel == "nccl" ? host_us : host_own_kernel_us;
  return Duration::from_us(std::max(host, price.time.us() + copy_us));
}
