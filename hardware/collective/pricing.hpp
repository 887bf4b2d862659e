#pragma once

#include <map>

#include "hardware/collective/nccl.hpp"

/// How a transport behaves under NCCL: what the links cannot tell.
struct TransportSpec {
  Constant<Duration> hop_ll;  // one LL hop, sender's store to receiver's read
  Duration hop_simple;        // one Simple step: flag, fence, barrier
};

/// The numbers of one host that decide staged and direct transfers.
struct Interconnect {
  bool p2p_capable = false;  // the driver grants peer access
  TransportSpec p2p, shm;
  NcclEnvironment nccl;
};

/// Prices collectives of `ranks` GPUs over the graph: algorithm (what moves), NCCL's choice
/// (protocol, channels), links shared by max-min fairness, and one ring law. Pure.
class CollectivePricer {
 public:
  CollectivePricer(const Topology& topology, const Interconnect& interconnect, int ranks,
                   double compute_capability);
  /// One rank costs nothing. Sizes as in CollectiveAlgorithm::schedule.
  const CollectivePrice& price(Collective op, Bytes size) const;
  const NcclView& view() const { return view_; }
  Transport transport() const { return transport_; }
  /// The share of one hop when all hops of the ring are under way (B_path).
  BytesPerSecond path_rate() const { return path_rate_; }
  /// The link that sets it; nothing for one rank.
  const std::optional<Link>& path_limit() const { return path_limit_; }
  const Interconnect& interconnect() const { return interconnect_; }

 private:
  CollectivePrice compute(Collective op, Bytes size) const;

  const Interconnect interconnect_;
  const int ranks_;
  NcclView view_;
  Transport transport_ = Transport::local;
  BytesPerSecond path_rate_;
  std::optional<Link> path_limit_;
  mutable std::map<std::pair<Collective, std::int64_t>, CollectivePrice> known_;
};
