#pragma once

#include <optional>
#include <string>

#include "hardware/collective/collective.hpp"
#include "hardware/topology/topology.hpp"
#include "sim/base/settings.hpp"

/// What NCCL takes the host's processors for: it decides what it believes of the way between
/// sockets and whether two GPUs may talk through the processor.
enum class CpuKind { amd, intel_skylake, intel_sapphire_rapids, intel_emerald_rapids };

/// The environment variables of NCCL that change what it does here, and what it reads of the host.
struct NcclEnvironment {
  std::string version;
  CpuKind cpu = CpuKind::amd;
  bool p2p_disable = false;
  /// NCCL_P2P_LEVEL: peer access up to this distance. By itself NCCL stops at PXB, except that two
  /// GPUs on an AMD host may be any distance apart.
  std::optional<PathKind> p2p_level;
  std::optional<int> min_nchannels, max_nchannels;
  /// What the server opens, where that was seen; else NCCL's own search decides.
  std::optional<int> channels;
  std::optional<Protocol> proto;
  bool tree = false;  // NCCL_ALGO=Tree
  /// NCCL_GRAPH_FILE: a graph that states the bus speed and the channels.
  struct GraphFile {
    double bus_gbps = 0;
    int channels = 0;
  };
  std::optional<GraphFile> graph_file;
};

NcclEnvironment read_nccl_environment(Section& section);

/// The distances that NCCL_P2P_LEVEL can name.
const std::vector<std::string>& p2p_levels();
PathKind parse_p2p_level(const std::string& word);
