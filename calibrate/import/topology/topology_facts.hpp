#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/diagnostics.hpp"
#include "sim/base/registry.hpp"

/// "0000:01:00.0" from what tools write: with or without the domain (of up to eight digits) and the
/// function, in any case. Nothing when it is no bus id.
std::optional<std::string> bus_id(std::string_view text);

/// PCIe generation of a rate in GT/s ("32.0 GT/s PCIe" is 32); 0 for a rate that is none.
int pcie_gen(double gigatransfers);

/// Whether a PCIe link can be that wide: 1, 2, 4, 8, 16 or 32 lanes.
bool is_width(int lanes);

/// A part of the PCI tree that leads to a GPU.
struct PciNode {
  enum class Kind { host_bridge, root_port, pcie_switch, gpu };
  Kind kind = Kind::gpu;
  int parent = -1;     // index of the node above; a host bridge has none
  std::string bus_id;  // of a host bridge "0000:00", or empty where the file does not say
  /// The link to the node above, as the operating system reports its ends; 0: unknown.
  int gen = 0, lanes = 0;
  int card_gen = 0;           // what the card alone can do; 0: unknown
  bool acs_redirect = false;  // of a switch: a port above a GPU has ReqRedir+
  std::optional<int> numa;    // of a host bridge or a GPU
  std::string model, pci_id;  // of a GPU: its name, its device id ("2bb5"); empty: unknown
};

struct PciTree {
  std::vector<PciNode> nodes;  // a parent stands before its children
  /// False: the file shows NUMA nodes only, and a host bridge here stands for all of one.
  bool shows_host_bridges = true;
  /// Indices of the GPUs in the order of their bus ids: the order of nvidia-smi.
  std::vector<int> gpus() const;
};

/// NVLinks of one GPU: to another GPU (its bus id), or to switches (empty).
struct NvLinks {
  std::string gpu, target;
  int count = 0;
};

/// The classes of `nvidia-smi topo -m`, nearest first.
enum class PathClass { self, nvlink, pix, pxb, phb, node, sys };
std::string_view name(PathClass c);

struct ClassMatrix {
  std::vector<std::vector<PathClass>> cells;
  std::vector<std::vector<int>> nvlinks;  // of NV#, else 0
  std::vector<std::optional<int>> numa;   // of each GPU, where the file says
};

/// Whether the driver lets one GPU reach another: OK or not; nothing where it does not know.
using P2pMatrix = std::vector<std::vector<std::optional<bool>>>;

using Numbers = std::vector<std::vector<double>>;

/// What p2pBandwidthLatencyTest timed. GB/s and microseconds; an absent matrix is empty.
struct PairTimes {
  Numbers one_way_off, one_way_on, both_ways_off, both_ways_on, latency_off, latency_on;
  P2pMatrix can_access;              // "Device=0 CAN Access Peer Device=1"
  std::vector<std::string> bus_ids;  // in the order of the matrices; empty where not printed
};

/// What one file says of a box.
struct TopologyFacts {
  std::string path, form;
  std::optional<PciTree> tree;
  std::vector<NvLinks> nvlinks;
  std::optional<ClassMatrix> classes;
  std::vector<P2pMatrix> p2p;
  std::optional<PairTimes> pairs;
  std::vector<std::string> models;  // names of the GPUs, where the file has no tree
  std::vector<std::string> guest;   // signs of a hypervisor
  std::vector<std::string> notes;
};

/// One form of text that describes a box, in one file. A text may hold several forms (a paste of
/// two commands): each reader takes what it knows.
struct TopologyForm {
  std::string help;
  bool (*recognises)(std::string_view text);
  TopologyFacts (*read)(const std::string& path, std::string_view text, Diagnostics& errors);
};

/// No box has more.
constexpr int box_gpus_max = 64;
