#pragma once

#include <optional>
#include <string>

#include "hardware/collective/collective.hpp"
#include "hardware/topology/topology.hpp"

/// The environment variables of NCCL that change what it does here.
struct NcclEnvironment {
  std::string version;
  bool p2p_disable = false;
  /// NCCL_P2P_LEVEL=SYS: use P2P on any path. By itself NCCL stops at PXB (within one switch).
  bool p2p_level_sys = false;
  std::optional<int> min_nchannels;
  /// What the server opens, where that was seen; else NCCL's own search decides.
  std::optional<int> channels;
  std::optional<Protocol> proto;
  /// NCCL_GRAPH_FILE: a graph that states the bus speed and the channels.
  struct GraphFile {
    double bus_gbps = 0;
    int channels = 0;
  };
  std::optional<GraphFile> graph_file;
};

NcclEnvironment read_nccl_environment(Section& section);

/// What NCCL believes of a box: it decides by this and not by what the links can do.
struct NcclView {
  double bus_gbps = 0;  // of the whole ring set; 0.1 when its search found nothing
  int channels = 2;
};

/// Imitates NCCL's ring search for a group of ranks on one node (2.27 to 2.29): reported link
/// speeds, a list of candidate speeds, doubling of the ring when it is fast.
NcclView nccl_view(const Topology& topology, int ranks, double compute_capability,
                   const NcclEnvironment& environment);

/// NCCL's choice of protocol for a ring, by its own latency and bandwidth beliefs.
Protocol nccl_protocol(Collective op, Bytes size, int ranks, const NcclView& view,
                       const NcclEnvironment& environment);
