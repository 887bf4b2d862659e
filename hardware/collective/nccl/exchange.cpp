// NCCL's point-to-point operations: all-to-all and send/receive. LL while a peer gets at most
// 16 KiB, Simple above (src/enqueue.cc).
//
//   LL      a  + g (n - 1) + 2 o / B_LL            o: bytes out of each rank
//   Simple  aS + gS (n - 1) + o / B
//
// Fitted on all-to-all at 2, 4 and 8 GPUs (aiconfigurator @095f58a5, read 2026-08): median 4.3 %
// (RTX PRO 6000: direct at 2, staged at 4 and 8), 5.5 % (H200), 4.4 % (B200). On PCIe the links and
// the staging capacity of the box put a ceiling on both rates; what a rank gets below that falls
// with the number of peers, for reasons that nobody measured. Send/receive is priced as an exchange
// with one peer, not fitted.

#include <algorithm>
#include <cmath>

#include "hardware/collective/nccl/nccl.hpp"

namespace {

struct Law {
  double a, g, rate_ll;       // us, us, GB/s
  double a_simple, g_simple;  // us
  double rate[3];             // GB/s at 2, 4, 8 ranks
};

constexpr Law pcie = {5.56, .65, 8.4, 7.2, 1.6, {25.9, 22.6, 16.1}};
constexpr Law hopper = {6.5, .16, 33, 12.1, .12, {275, 286, 298}};
constexpr Law blackwell = {9.3, .26, 51, 15.1, .48, {327, 467, 517}};

constexpr double ll_bytes_a_peer = 16384;

// Between the counts that were measured on the logarithm of their number.
double rate_of(const Law& law, int ranks) {
  const double at = std::clamp(std::log2(static_cast<double>(ranks)), 1.0, 3.0) - 1;
  const int low = std::min(1, static_cast<int>(at));
  return law.rate[low] + (law.rate[low + 1] - law.rate[low]) * (at - low);
}

}  // namespace

CollectivePrice nccl_exchange(Collective op, Bytes size, const CollectiveBox& box) {
  const bool nvlink = box.ring_transport() == Transport::nvlink;
  const Law& law = !nvlink ? pcie : box.compute_capability() >= 10 ? blackwell : hopper;
  const int n = box.ranks();
  const int peers = op == Collective::all_to_all ? n - 1 : 1;
  const double to_each = op == Collective::all_to_all ? size.real() / n : size.real();
  const double out_kb = to_each * peers / 1e3;

  CollectivePrice out;
  out.algorithm = "pairwise";
  out.transport = box.ring_transport();
  out.protocol = to_each <= ll_bytes_a_peer ? Protocol::ll : Protocol::simple;
  // What the box lets out of each rank; a ring's worth of it where every rank has one peer.
  constexpr double pcie_share = 0.855;
  const double links = op == Collective::all_to_all ? box.exchange(false).count() * pcie_share
                                                    : box.path_rate().count();
  const double own =
      (out.protocol == Protocol::ll ? law.rate_ll
                                    : rate_of(law, op == Collective::all_to_all ? n : 2));
  const double wire = out.protocol == Protocol::ll ? 2 : 1;
  const double rate = std::min(own, links / 1e9);
  const double latency =
      out.protocol == Protocol::ll ? law.a + law.g * peers : law.a_simple + law.g_simple * peers;
  const double transfer = wire * out_kb / rate;
  out.limit = latency >= transfer ? "hop latency" : rate < own ? "links" : "channels";
  out.provenance = op == Collective::all_to_all ? Provenance::fitted : Provenance::assumed;
  out.spread = op == Collective::all_to_all ? 1.25 : 1.5;
  out.time = Duration::from_us(latency + transfer);
  return out;
}
