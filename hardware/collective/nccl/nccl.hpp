#pragma once

#include "hardware/collective/box.hpp"

/// What NCCL believes of a box: it decides by this and not by what the links can do.
struct NcclView {
  double bus_gbps = 0;  // of the whole ring set; 0.1 when its search found nothing
  int channels = 2;
};

/// Imitates NCCL's ring search for a group of ranks on one node (2.27 to 2.30): reported link
/// speeds, a list of candidate speeds, doubling of the ring when it is fast.
NcclView nccl_view(const Topology& topology, int ranks, double compute_capability,
                   const NcclEnvironment& environment);

/// NCCL's choice of protocol for a ring, by its own latency and bandwidth beliefs.
Protocol nccl_protocol(Collective op, Bytes size, int ranks, const NcclView& view,
                       const NcclEnvironment& environment);

/// What NCCL takes for a collective on this box: the law that prices its algorithm and protocol.
/// `channels`: of the ring; sizes as in CollectiveAlgorithm::schedule.
CollectivePrice nccl_price(Collective op, Bytes size, const CollectiveBox& box,
                           const NcclView& view, int channels);

/// Parts of the ring law that a measured time is turned round by: kernel start and end of LL, and
/// one iteration of 4 KiB a channel.
double nccl_ll_start_us();
double nccl_ll_iteration_us();

// The laws, one file each.
CollectivePrice nccl_ring(Collective op, Bytes size, const CollectiveBox& box, const NcclView& view,
                          int channels);
CollectivePrice nccl_tree(Collective op, Bytes size, const CollectiveBox& box, const NcclView& view,
                          int channels);
CollectivePrice nccl_exchange(Collective op, Bytes size, const CollectiveBox& box);
CollectivePrice nccl_nvlink(Collective op, Bytes size, const CollectiveBox& box);
