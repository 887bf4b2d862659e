#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hardware/collective/interconnect.hpp"
#include "hardware/topology/topology.hpp"

/// What a transfer waits for when it waits for links.
struct LinkLimit {
  std::string name;  // "gpu0 - switch0", "staging capacity"
  std::string kind;  // of the link; "staging" for the capacity that a host states
  Constant<BytesPerSecond> bandwidth;
};

/// The ranks of one communicator on a box, GPU i being rank i: how two of them talk, which links
/// that takes, and what each gets when many do. Pure.
class CollectiveBox {
 public:
  CollectiveBox(const Topology& topology, const Interconnect& interconnect, int ranks,
                double compute_capability);

  int ranks() const { return ranks_.count; }
  /// With the islands: ranks behind one switch, or on one socket where there is none.
  const Ranks& arrangement() const { return ranks_; }
  double compute_capability() const { return compute_capability_; }
  const Interconnect& interconnect() const { return interconnect_; }
  const Topology& topology() const { return topology_; }

  /// The way that NCCL takes between two ranks.
  Transport transport(int from, int to) const;
  /// Whether kernels may store to every other rank.
  bool peers() const { return peers_; }
  /// Whether such stores really go there directly; else the hardware stages them.
  bool direct_stores() const { return direct_stores_; }
  /// Whether NVLink joins all ranks.
  bool nvlink() const { return nvlink_; }
  /// One way, of the slowest rank's first link.
  BytesPerSecond port() const { return port_; }

  /// The loosest transport of NCCL's ring: a ring is as slow as its slowest hop.
  Transport ring_transport() const { return ring_transport_; }
  /// The share of one hop when all hops of the ring are under way (B_path), and the link that sets
  /// it; nothing for one rank.
  BytesPerSecond path_rate() const { return path_rate_; }
  const std::optional<LinkLimit>& path_limit() const { return path_limit_; }
  /// What each rank gets out while all send to all others, as NCCL or as stores of kernels.
  BytesPerSecond exchange(bool stores) const;

  /// The slowest transfer's rate when all of a round are under way over direct routes.
  BytesPerSecond slowest_rate(const Round& round) const;

 private:
  struct Share {
    BytesPerSecond rate;
    std::optional<LinkLimit> limit;
  };
  /// Of the transfers of a round, the slowest's; `staged(t)` says which go through host memory.
  template <class Staged>
  Share slowest(const Round& round, Staged staged, double pcie_efficiency) const;
  DeviceId gpu(int rank) const { return topology_.gpus()[static_cast<std::size_t>(rank)]; }

  const Topology topology_;
  const Interconnect interconnect_;
  Ranks ranks_;
  const double compute_capability_;
  bool peers_ = false, direct_stores_ = false, nvlink_ = false;
  BytesPerSecond port_;
  Transport ring_transport_ = Transport::local;
  BytesPerSecond path_rate_;
  std::optional<LinkLimit> path_limit_;
};
