#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hardware/collective/nccl/environment.hpp"

/// How a transport behaves under NCCL: what the links cannot tell.
struct TransportSpec {
  Constant<Duration> hop_ll;  // one LL hop, sender's store to receiver's read
  Duration hop_simple;        // one Simple step: flag, fence, barrier
  bool timed = false;         // somebody stated or timed this host's, else the law's own
};

/// What a host that nobody timed is taken for: hops of 1.02 us direct (0.9 to 1.4 seen) and 1.456
/// us staged (1.24 to 1.63), fitted on ten hosts (see nccl/ring.cpp).
TransportSpec untimed_transport(bool staged);
/// The same with another LL hop. A Simple step is an LL hop plus fence and barrier: a slower host
/// is slower by the same time in both.
TransportSpec timed_transport(bool staged, const Constant<Duration>& hop_ll);

/// Two timed all-reduces of a host that stages: one that waits for its hops (4 KiB, say) and one
/// that fills what they share (64 KiB). NCCL must do both by LL.
struct TimedAllReduces {
  int ranks = 0;
  Bytes small, large;
  Duration small_time, large_time;
  std::string source;
};

/// The numbers of one host that decide staged and direct transfers.
struct Interconnect {
  std::string gpu;                                // as in hardware/gpus: whose NVLink law applies
  bool p2p_capable = false;                       // the driver grants peer access
  std::vector<std::pair<int, int>> p2p_off = {};  // pairs of GPUs (ranks) without it all the same
  /// Stores and loads of kernels reach a peer only within one switch (no driver override for peers
  /// behind other root ports); copies and NCCL are not affected.
  bool sm_within_switch = false;
  TransportSpec p2p, shm;
  /// What the staged transfers of all ranks get through host memory together, per direction.
  /// Nothing: the memory links of the graph say it.
  std::optional<Constant<BytesPerSecond>> staging_capacity;
  /// From which the two numbers of staging come, where they are not stated (see staging.hpp).
  std::optional<TimedAllReduces> timed;
  NcclEnvironment nccl;
};
