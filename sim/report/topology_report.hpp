#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hardware/collective/pricing.hpp"
#include "hardware/machine.hpp"

using Matrix = std::vector<std::vector<double>>;

/// What NCCL makes of all GPUs of a machine together.
struct NcclOutlook {
  std::string version;
  std::vector<std::vector<Transport>> transports;  // per pair; local on the diagonal
  NcclView view;
  Transport ring_transport = Transport::local;
  BytesPerSecond hop_rate;  // of a ring's hop while all of them are under way
  std::optional<LinkLimit> ring_limit;
  BytesPerSecond exchange_rate;  // what the links let out of each rank of an all-to-all
  std::string exchange_limit;    // the link that sets it: "switch0 > root0"
  /// Of an all-reduce: the protocol, and the least size in bytes that it is taken for.
  std::vector<std::pair<Protocol, std::int64_t>> protocols;
  CollectivePrice all_reduce, all_to_all;  // of `large`
  static constexpr Bytes large{1 << 28};
};

/// One machine as `ceiling topology` shows it: what talks to what, how fast, what NCCL will do.
struct TopologyView {
  std::string named;  // as the user named it, with edits: "T04 --edit p2p=off"
  Machine machine;
  std::string gpu, source;
  /// GB/s of pairs alone on the box; 0 on the diagonal and where there is no way. "staged": as with
  /// P2P off.
  Matrix one_way, one_way_staged, both_ways, both_ways_staged;
  Matrix latency_us, latency_us_staged;
  /// GB/s of each GPU alone to host memory, from it, and both at once; empty without a memory.
  std::vector<double> to_host, from_host, both_host;
  double all_to_host = 0, all_from_host = 0;  // all GPUs together
  std::string to_host_limit, from_host_limit;
  std::optional<NcclOutlook> nccl;  // nothing: there is one GPU
};

/// `pricer` prices all GPUs of the machine; null where there is only one.
TopologyView view_topology(std::string named, const Machine& machine, std::string gpu,
                           std::string source, const CollectivePricer* pricer);

/// `full`: the matrices pair by pair, as p2pBandwidthLatencyTest prints them.
std::string render_topology(const TopologyView& view, bool full);
/// {"machine", "devices": [{name, kind, ...}], "links": [{from, to, kind, bandwidth_GBs, back_GBs,
/// latency_ns, gen, lanes, ...}], "matrices", "host", "nccl"}; null in a matrix: no way.
std::string topology_to_json(const TopologyView& view);
/// For Graphviz.
std::string topology_to_dot(const Machine& machine);
