#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hardware/topology/topology.hpp"

/// One large transfer between two GPUs (by rank), or between one and host memory.
struct Copy {
  static constexpr int host = -1;
  int from = 0, to = 0;
  Bytes bytes;
};

/// Who moves the bytes: a GPU's copy engine, one copy after the other in each direction, or the
/// stores of a kernel, all at once.
enum class Mover { copy_engine, sm_stores };

/// What holds for the copies of one box beside its links.
struct CopyOptions {
  bool p2p = true;                                // the driver grants peer access
  std::vector<std::pair<int, int>> p2p_off = {};  // but not between these
  Mover mover = Mover::copy_engine;
  bool sm_within_switch = false;  // stores reach a peer only within one switch
  /// What all staged copies get through host memory together; nothing: the links say it.
  std::optional<BytesPerSecond> staging_capacity = {};
};

struct CopyOutcome {
  Duration time;        // from its own start to its end
  BytesPerSecond rate;  // over that time
  bool staged = false;  // through host memory
  std::string limit;    // what held it longest: "switch0 > root0"; "a <> b" is both directions
};

struct CopiesOutcome {
  std::vector<CopyOutcome> copies;
  Duration time;             // until the last one ends
  BytesPerSecond aggregate;  // all bytes over that time, as the published scripts count
  std::string limit;         // what held most bytes
};

/// Copies that start together, as fluids: at every moment each has its max-min fair share of the
/// links on its way, until one of them ends. PCIe links carry 0.965 of both directions together.
/// A GPU sends (and fetches from the host) one copy at a time; where more wait, the order in which
/// it serves them is not known, and the result is the mean over a few drawn orders, always the
/// same ones. Latency is left out: the copies are large. Every copy needs a way and two different
/// ends.
CopiesOutcome run_copies(const Topology& topology, const std::vector<Copy>& copies,
                         const CopyOptions& options);

/// Each of `sources` to each of `targets`, to itself excepted.
std::vector<Copy> each_to_each(const std::vector<int>& sources, const std::vector<int>& targets,
                               Bytes bytes);

/// All of `gpus` to each other in rounds: in round i each sends to the i-th after it. The mean of
/// the rounds' sums of rates, as p2pmark counts.
BytesPerSecond staggered_rate(const Topology& topology, const std::vector<int>& gpus,
                              const CopyOptions& options);

/// Whether a transfer from GPU to GPU goes through host memory.
bool is_staged(const Topology& topology, int from, int to, const CopyOptions& options);

/// Rates of every pair of GPUs alone on the box, one way or both ways together; 0 on the diagonal.
std::vector<std::vector<BytesPerSecond>> copy_matrix(const Topology& topology,
                                                     const CopyOptions& options,
                                                     bool bidirectional);

/// Latency of the smallest copy, as p2pBandwidthLatencyTest reports it: one way along the route,
/// or what the driver needs to stage it.
Duration copy_latency(const Topology& topology, int from, int to, const CopyOptions& options);
