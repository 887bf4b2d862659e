#pragma once

#include <map>
#include <vector>

#include "hardware/collective/nccl.hpp"

/// How a transport behaves under NCCL: what the links cannot tell.
struct TransportSpec {
  Constant<Duration> hop_ll;  // one LL hop, sender's store to receiver's read
  Duration hop_simple;        // one Simple step: flag, fence, barrier
};

/// The numbers of one host that decide staged and direct transfers.
struct Interconnect {
  bool p2p_capable = false;                       // the driver grants peer access
  std::vector<std::pair<int, int>> p2p_off = {};  // pairs of GPUs (ranks) without it all the same
  /// Stores and loads of kernels reach a peer only within one switch (no driver override for peers
  /// behind other root ports); copies and NCCL are not affected.
  bool sm_within_switch = false;
  TransportSpec p2p, shm;
  /// What the staged transfers of all ranks get through host memory together, per direction.
  /// Nothing: the memory links of the graph say it.
  std::optional<Constant<BytesPerSecond>> staging_capacity;
  NcclEnvironment nccl;
};

/// The all-reduce that an engine takes for payloads up to a size: a kernel of its own, or "nccl".
struct AllReduceChoice {
  std::string kernel;
  std::optional<Bytes> up_to;   // nothing: whatever is left
  std::optional<int> channels;  // of NCCL, where they were seen for this size; else the view's
};
/// In ascending order of sizes. NCCL takes what no choice covers, and everything without P2P.
using AllReducePolicy = std::vector<AllReduceChoice>;

AllReducePolicy read_all_reduce_policy(const Settings* list, const std::string& what,
                                       Reading& reading);

/// Prices collectives of `ranks` GPUs over the graph: algorithm (what moves), NCCL's choice
/// (protocol, channels), links shared by max-min fairness, and one ring law. Pure.
class CollectivePricer {
 public:
  CollectivePricer(const Topology& topology, const Interconnect& interconnect, int ranks,
                   double compute_capability, AllReducePolicy policy = {});
  /// One rank costs nothing. Sizes as in CollectiveAlgorithm::schedule.
  const CollectivePrice& price(Collective op, Bytes size) const;
  const NcclView& view() const { return view_; }
  Transport transport() const { return transport_; }
  /// The share of one hop when all hops of the ring are under way (B_path).
  BytesPerSecond path_rate() const { return path_rate_; }
  /// The link that sets it; nothing for one rank.
  const std::optional<Link>& path_limit() const { return path_limit_; }
  const Interconnect& interconnect() const { return interconnect_; }
  /// Empty where its kernels cannot run.
  const AllReducePolicy& policy() const { return policy_; }

 private:
  CollectivePrice compute(Collective op, Bytes size) const;
  CollectivePrice ring(Collective op, Bytes size, int nccl_channels) const;

  const Interconnect interconnect_;
  const int ranks_;
  AllReducePolicy policy_;
  KernelView kernels_;
  NcclView view_;
  Transport transport_ = Transport::local;
  BytesPerSecond path_rate_;
  std::optional<Link> path_limit_;
  mutable std::map<std::pair<Collective, std::int64_t>, CollectivePrice> known_;
};
