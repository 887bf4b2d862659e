#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/base/provenance.hpp"
#include "sim/base/quantity.hpp"
#include "sim/base/registry.hpp"

enum class Collective { all_reduce, all_gather, reduce_scatter };
enum class Protocol { ll, simple };
enum class Transport { p2p, shm, local };

std::string_view name(Collective op);
std::string_view name(Protocol p);
std::string_view name(Transport t);

/// One transfer of a round: so many bytes of payload from one rank to another.
struct Transfer {
  int from = 0, to = 0;
  double bytes = 0;
};

/// What moves when: `rounds` rounds, each made of the same concurrent transfers.
struct Schedule {
  int rounds = 0;
  std::vector<Transfer> transfers;
};

/// Says what moves where, knows nothing of time: pricing turns a schedule into a duration.
class CollectiveAlgorithm {
 public:
  virtual ~CollectiveAlgorithm() = default;
  virtual bool supports(Collective op) const = 0;
  /// `size`: the whole vector (all-reduce), the full output (all-gather) or the full input
  /// (reduce-scatter). Needs at least two ranks.
  virtual Schedule schedule(Collective op, Bytes size, int ranks) const = 0;
};

using CollectiveAlgorithmFactory = const CollectiveAlgorithm& (*)();

/// The time of one collective and what it was made of.
struct CollectivePrice {
  Duration time;
  std::string kernel = "nccl";  // or a kernel of the engine's own
  Protocol protocol = Protocol::simple;
  Transport transport = Transport::p2p;
  int channels = 0;
  std::string limit;  // what the transfer waits for: a link, the hop latency, the channels
  Provenance provenance = Provenance::fitted;
};

/// What an engine's own all-reduce kernel sees of a box: rates one way, as copies reach them.
struct KernelView {
  int ranks = 0;
  BytesPerSecond port;      // of the slowest GPU
  BytesPerSecond exchange;  // out of each GPU while all send to all others
  BytesPerSecond path;      // one hop of a ring while all hops are under way, NCCL's share
};

/// An all-reduce kernel that engines bring beside NCCL. It stores to peers, so it needs P2P. Pure.
class AllReduceKernel {
 public:
  virtual ~AllReduceKernel() = default;
  virtual CollectivePrice price(Bytes size, const KernelView& view) const = 0;
};

using AllReduceKernelFactory = const AllReduceKernel& (*)();
