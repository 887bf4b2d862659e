#include "hardware/collective/staging.hpp"

#include <algorithm>

#include "hardware/collective/nccl/nccl.hpp"

Interconnect with_timed_staging(const Topology& topology, const Interconnect& interconnect,
                                double compute_capability) {
  Interconnect out = interconnect;
  if (!interconnect.timed) return out;
  const TimedAllReduces timed = *interconnect.timed;
  out.timed.reset();
  const int n = timed.ranks;
  if (n > static_cast<int>(topology.gpus().size())) return out;
  const CollectiveBox box(topology, out, n, compute_capability);
  const NcclView view = nccl_view(topology, n, compute_capability, out.nccl);
  int staged = 0;
  for (int r = 0; r < n; ++r) staged += box.transport(r, (r + 1) % n) == Transport::shm;
  if (staged == 0) return out;
  // The law of nccl/ring.cpp turned round: t = b + k (h + f d), then t = b + k W staged / C.
  const double k = 2.0 * (n - 1), start_us = nccl_ll_start_us();
  const auto iterations_us = [&](Bytes size) {
    return size.real() / (4096.0 * n * view.channels) * nccl_ll_iteration_us();
  };
  const double hop_us =
      std::max(0.1, (timed.small_time.us() - start_us) / k - iterations_us(timed.small));
  Constant<Duration> hop;
  hop.value = Duration::from_us(hop_us);
  hop.basis = Provenance::measured;
  hop.spread = 1.1;
  hop.label = "staged hop latency";
  hop.source = timed.source;
  out.shm = timed_transport(true, hop);

  const double step_us = (timed.large_time.us() - start_us) / k;
  const double wire_kb = 2 * timed.large.real() / n / 1e3;
  const CollectiveBox timed_box(topology, out, n, compute_capability);
  const double without =
      nccl_ring(Collective::all_reduce, timed.large, timed_box, view, view.channels).time.us();
  // Within the law's own error of what it says without any capacity: there is none.
  if (timed.large_time.us() <= 1.1 * without) return out;
  Constant<BytesPerSecond> capacity;
  capacity.value = BytesPerSecond(staged * wire_kb / step_us * 1e9);
  capacity.basis = Provenance::measured;
  capacity.spread = 1.2;
  capacity.label = "staging capacity";
  capacity.source = timed.source;
  out.staging_capacity = capacity;
  return out;
}
