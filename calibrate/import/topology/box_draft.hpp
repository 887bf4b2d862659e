#pragma once

#include <string>
#include <utility>
#include <vector>

#include "calibrate/import/topology/topology_facts.hpp"
#include "hardware/gpu.hpp"
#include "hardware/topology/topology.hpp"

/// A link of a box as far as its files tell.
struct DraftLink {
  int a = 0, b = 0;  // indices of devices
  std::string kind = "pcie";
  double gbps = 0;         // one way
  double duplex_gbps = 0;  // both ways together, where it was timed
  Provenance basis = Provenance::assumed;
  double spread = 1;
  std::string source;  // of a measured bandwidth: the file
  double latency_ns = 0;
  int gen = 0, lanes = 0;  // as the operating system reports them; 0: unknown
};

/// A box put together from all its files: devices, links, who reaches whom, and what nobody said.
struct BoxDraft {
  bool guest = false;
  std::vector<Device> devices;  // GPUs first, in rank order
  std::vector<DraftLink> links;
  bool p2p = false;                          // some pair of GPUs reaches each other
  std::vector<std::pair<int, int>> p2p_off;  // pairs that do not
  std::vector<std::string> read;             // "FILE: form"
  std::vector<std::string> measured;         // what was timed
  std::vector<std::string> notes;            // what is unknown, assumed or contradictory
};

/// Merges what the files of one box say. A tree (lspci, else NCCL's XML) wins over the classes of
/// topo -m; measured matrices give bandwidths; of peer access the timing decides, else the matrix
/// of the driver. Refused: files of different boxes, no tree at all. What the machine itself cannot
/// tell (guest, host costs) stays assumed and is noted.
Expected<BoxDraft> draft_box(const std::vector<TopologyFacts>& files, const GpuSpec& gpu);
