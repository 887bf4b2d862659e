#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/base/provenance.hpp"
#include "sim/base/quantity.hpp"
#include "sim/base/registry.hpp"

enum class Collective { all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, send_recv };
enum class Protocol { ll, ll128, simple };
enum class Transport { local, nvlink, p2p, shm };

std::string_view name(Collective op);
std::string_view name(Protocol p);
std::string_view name(Transport t);

const std::vector<Collective>& all_collectives();
std::vector<std::string> collective_names();
/// The inverse of `name`; false when there is no such collective.
bool parse_collective(std::string_view word, Collective& out);

/// What nccl-tests multiplies algbw with to get busbw: the share of the buffer that a rank has to
/// move.
double bus_factor(Collective op, int ranks);

/// The ranks of a communicator, and which of them sit close together (behind one switch).
struct Ranks {
  Ranks(int n) : count(n) {}  // NOLINT: a number of ranks is an arrangement without islands
  int count;
  std::vector<int> island = {};  // per rank; empty: all in one
};

/// A run of chunks from one rank to another; the receiver adds them to its own or takes them.
struct Transfer {
  int from = 0, to = 0;
  int first = 0, count = 1;
  bool reduce = false;
};

/// The transfers of one round are under way together; a round begins when the one before it ended.
using Round = std::vector<Transfer>;

/// What moves when, in chunks of equal size. Chunk c of n ranks:
///   all_reduce, broadcast   a piece of the vector; afterwards every rank has all of them
///   reduce_scatter          a piece of the vector; afterwards rank r has chunk r, reduced
///   all_gather, send_recv   what rank c begins with; afterwards on every rank, on rank c + 1
///   all_to_all              c = n from + to: begins on `from`, ends on `to`
struct Schedule {
  int chunks = 1;
  double chunk_bytes = 0;
  std::vector<Round> rounds;
};

/// Says what moves where, knows nothing of time. One file each in algorithms/.
class CollectiveAlgorithm {
 public:
  virtual ~CollectiveAlgorithm() = default;
  virtual bool supports(Collective op, const Ranks& ranks) const = 0;
  /// `size` as nccl-tests counts it: the whole vector (all-reduce, broadcast, send/receive), the
  /// full output (all-gather), the full input (reduce-scatter) or the full send buffer of a rank
  /// (all-to-all). Only for what is supported; at least two ranks.
  virtual Schedule schedule(Collective op, Bytes size, const Ranks& ranks) const = 0;
};

using CollectiveAlgorithmFactory = const CollectiveAlgorithm& (*)();

/// By name; the algorithm must exist.
const CollectiveAlgorithm& collective_algorithm(const std::string& name);

/// The time of one collective on the GPU (from a graph, or back to back) and what it was made of.
struct CollectivePrice {
  Duration time;
  std::string kernel = "nccl";     // or a kernel of the engine's own
  std::string algorithm = "ring";  // as in algorithms/, or "NVLink" where a law stands for all
  Protocol protocol = Protocol::simple;
  Transport transport = Transport::p2p;
  int channels = 0;
  std::string limit;  // what the transfer waits for: a link, the hop latency, the channels
  Provenance provenance = Provenance::fitted;
  double spread = 1.2;  // nine times out of ten the truth lies within this factor
  std::string anchor;   // the measured table that the law was scaled to; empty: none
};
