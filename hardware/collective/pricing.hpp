#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "hardware/collective/anchor.hpp"
#include "hardware/collective/box.hpp"
#include "hardware/collective/nccl/nccl.hpp"

/// The all-reduce that an engine takes for payloads up to a size: a kernel of its own, or "nccl".
struct AllReduceChoice {
  std::string kernel;
  std::optional<Bytes> up_to;   // nothing: whatever is left
  std::optional<int> channels;  // of NCCL, where they were seen for this size; else the view's
};
/// In ascending order of sizes. What a box does not let a kernel do goes to the next choice, and
/// what no choice covers to NCCL.
using AllReducePolicy = std::vector<AllReduceChoice>;

AllReducePolicy read_all_reduce_policy(const Settings* list, const std::string& what,
                                       Reading& reading);

/// Prices collectives of `ranks` GPUs over the graph: which kernel (the engine's choice), what
/// moves (its algorithm), NCCL's choice of protocol and channels, links shared by max-min fairness,
/// one law per kernel, scaled to what was measured on the box. Pure.
class CollectivePricer {
 public:
  CollectivePricer(const Topology& topology, const Interconnect& interconnect, int ranks,
                   double compute_capability, AllReducePolicy policy = {});

  /// Scales the laws to measured curves. They belong to `base`, the box as it stands; where this
  /// one is `edited`, their ratio of measured to predicted is carried over to it, for transports
  /// that both use.
  void anchor(const std::vector<MeasuredCurve>& curves, const CollectivePricer& base, bool edited);

  /// One rank costs nothing. Sizes as in CollectiveAlgorithm::schedule.
  const CollectivePrice& price(Collective op, Bytes size) const;
  /// As `price`, by one kernel ("nccl" or a kernel of an engine) whatever the engine would choose.
  CollectivePrice price_by(const std::string& kernel, Collective op, Bytes size) const;

  const NcclView& view() const { return view_; }
  const CollectiveBox& box() const { return box_; }
  Transport transport() const { return box_.ring_transport(); }
  /// The share of one hop when all hops of the ring are under way (B_path).
  BytesPerSecond path_rate() const { return box_.path_rate(); }
  /// The link that sets it; nothing for one rank.
  const std::optional<LinkLimit>& path_limit() const { return box_.path_limit(); }
  const Interconnect& interconnect() const { return box_.interconnect(); }
  /// Of an engine's choices those that this box lets run; empty: NCCL for everything.
  const AllReducePolicy& policy() const { return policy_; }

 private:
  CollectivePrice compute(Collective op, Bytes size) const;
  CollectivePrice law(const std::string& kernel, Collective op, Bytes size,
                      std::optional<int> channels) const;
  CollectivePrice anchored(Collective op, Bytes size, CollectivePrice law) const;

  CollectiveBox box_;
  NcclView view_;
  AllReducePolicy policy_;
  std::vector<Anchor> anchors_;
  bool edited_ = false;  // the anchors were measured on the box before an edit
  // Asked from several threads; an answer once given stays where it is.
  mutable std::mutex guard_;
  mutable std::map<std::pair<Collective, std::int64_t>, CollectivePrice> known_;
};
