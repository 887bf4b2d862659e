// The ring law: twelve constants that price NCCL's rings on PCIe for all-reduce, all-gather and
// reduce-scatter at 2, 4, 8 and 16 GPUs, direct and staged. Fitted on 283 points of ten hosts
// (aiconfigurator @095f58a5, local-inference-lab/rtx6kpro @e2c2b957, gardenlinux issue 4556, read
// 2026-08): median error 3.3 %, rms 8.9 %; a host left out of the fit: median 11.5 %.
//
//   LL:      b  + k max(h + f d, W / B_sat)       f = S / (4096 n nc), W = 2 S / n (flags double
//   it) Simple:  bS + k hS + (k + theta) S / (n B)
//
// A broadcast was not in the fit: the same constants, n - 1 steps to fill the chain, the vector
// once over each hop.

#include <algorithm>

#include "hardware/collective/nccl/nccl.hpp"

namespace {

constexpr double start_ll_us = 4.94;       // b: kernel start and end
constexpr double start_simple_us = 12.1;   // bS
constexpr double iteration_us = 0.70;      // d: one LL iteration, 4 KiB of data per channel
constexpr double pipeline_fill = 0.536;    // theta: extra chunk steps
constexpr double shm_ll_channel = 5.26e9;  // B/s of wire: 8 KiB per 1.5 us round trip
constexpr double channel_rate = 12.5e9;    // B/s, Simple, per channel
constexpr double staged_rate = 27.8e9;     // B/s: a copy staged through the host, T13

}  // namespace

double nccl_ll_start_us() { return start_ll_us; }
double nccl_ll_iteration_us() { return iteration_us; }

CollectivePrice nccl_ring(Collective op, Bytes size, const CollectiveBox& box, const NcclView& view,
                          int nccl_channels) {
  CollectivePrice out;
  const bool broadcast = op == Collective::broadcast;
  const double n = box.ranks(), channels = nccl_channels;
  const double steps = (op == Collective::all_reduce ? 2 : 1) * (n - 1);
  const double chunk = size.real() / n;
  // A broadcast moves the vector, n chunks, over every hop; the others one chunk a step.
  const double moved = broadcast ? n : steps;
  const Interconnect& host = box.interconnect();
  const bool staged = box.ring_transport() == Transport::shm;
  const TransportSpec& transport = staged ? host.shm : host.p2p;

  out.protocol = nccl_protocol(op, size, box.ranks(), view, host.nccl);
  out.transport = box.ring_transport();
  out.channels = nccl_channels;
  double us = 0;
  if (out.protocol == Protocol::ll) {
    const double wire = 2 * chunk;
    const double channel_limit = staged ? channels * shm_ll_channel : box.path_rate().count();
    const double saturated_us =
        moved * wire / std::min(box.path_rate().count(), channel_limit) * 1e6;
    const double latency_us = steps * (transport.hop_ll.value.us() +
                                       size.real() / (4096.0 * n * channels) * iteration_us);
    us = start_ll_us + std::max(latency_us, saturated_us);
    out.limit = latency_us >= saturated_us                 ? "hop latency"
                : box.path_rate().count() <= channel_limit ? "links"
                                                           : "channels";
  } else {
    const double path =
        staged ? std::min(box.path_rate().count(), staged_rate) : box.path_rate().count();
    const double rate = std::min(path, channels * channel_rate);
    const double latency_us = start_simple_us + steps * transport.hop_simple.us();
    const double transfer_us = (moved + pipeline_fill) * chunk / rate * 1e6;
    us = latency_us + transfer_us;
    out.limit = latency_us >= transfer_us         ? "hop latency"
                : path <= channels * channel_rate ? "links"
                                                  : "channels";
  }
  // The law is fitted; what it waits for may rest on less.
  const Provenance limit =
      out.limit == "links" ? box.path_limit()->bandwidth.basis : transport.hop_ll.basis;
  out.provenance = broadcast ? Provenance::assumed : std::max(Provenance::fitted, limit);
  // Direct rings: 20 % nine times out of ten; staged ones a factor of 1.4 where the host's numbers
  // are known, else 3.
  const bool host_known = transport.timed || host.staging_capacity;
  out.spread = !staged ? 1.2 : host_known ? 1.4 : 3;
  out.time = Duration::from_us(us);
  return out;
}
