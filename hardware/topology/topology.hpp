#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/settings.hpp"

enum class DeviceKind {
  gpu,
  pcie_switch,
  root_port,
  root_complex,
  numa_node,
  host_memory,
  nvlink_switch,
  nic
};

std::string_view name(DeviceKind kind);

using DeviceId = int;
using LinkId = int;

/// While at least `sources` GPUs below a switch write to targets behind two or more root ports, its
/// uplink carries no more than this (posted-write collapse, seen on some switches).
struct WriteCollapse {
  int sources = 2;
  BytesPerSecond copies;                      // of copy engines
  std::optional<BytesPerSecond> stores = {};  // of kernels that store to peers; else as copies
};

struct Device {
  std::string name;
  DeviceKind kind = DeviceKind::gpu;
  /// ACS request redirect of a switch: traffic between its ports goes up to the root port and back.
  bool acs_redirect = false;
  std::optional<WriteCollapse> write_collapse = {};
};

/// A cable, a slot or a memory bus: two directions, each with its own bandwidth.
struct Link {
  DeviceId a = 0, b = 0;
  // pcie, internal (inside a chip, never limiting), interconnect (between sockets), memory, nvlink
  std::string kind;
  Constant<BytesPerSecond> bandwidth;       // one way
  std::optional<BytesPerSecond> back = {};  // from b to a, where that differs
  /// Both directions together; nothing: PCIe carries 2 x 0.965 of one way, others both in full.
  std::optional<BytesPerSecond> duplex = {};
  Duration latency;
  int gen = 0, lanes = 0;  // what the operating system reports; 0 when it does not
};

/// One link of a route, walked from a to b (forward) or from b to a.
struct Hop {
  LinkId link = 0;
  bool forward = true;
};
using Route = std::vector<Hop>;

/// How far apart two GPUs are, in the words of nvidia-smi and NCCL, nearest first: NVLink; one PCIe
/// switch (PIX); several (PXB); one host bridge, a root_complex here (PHB); host bridges of one
/// NUMA node (NODE); a link between sockets (SYS).
enum class PathKind { self, nvlink, pix, pxb, phb, node, sys };

std::string_view name(PathKind kind);

/// The graph of a box: GPUs, switches, root complexes, memory, and the links between them.
class Topology {
 public:
  Topology();
  ~Topology();
  Topology(const Topology&);
  Topology& operator=(const Topology&);
  Topology(Topology&&) noexcept;
  Topology& operator=(Topology&&) noexcept;

  DeviceId add(Device device);
  LinkId add(Link link);
  const std::vector<Device>& devices() const { return devices_; }
  const std::vector<Link>& links() const { return links_; }
  /// As if every switch had ACS request redirect on.
  void redirect_all();
  Link& link(LinkId id) { return links_[static_cast<std::size_t>(id)]; }
  const Link& link(LinkId id) const { return links_[static_cast<std::size_t>(id)]; }
  /// GPUs in the order in which the file names them: rank order.
  const std::vector<DeviceId>& gpus() const { return gpus_; }
  /// -1 when there is no such device.
  DeviceId find(std::string_view name) const;

  /// The way of least latency that crosses no other GPU and no memory; empty when there is none.
  Route route(DeviceId from, DeviceId to) const;
  /// The way of a peer transfer: as `route`, but where it would turn round in a switch with ACS
  /// request redirect, up to the nearest root port and down again.
  Route peer_route(DeviceId from, DeviceId to) const;
  Duration latency(const Route& route) const;
  PathKind path_kind(DeviceId from, DeviceId to) const;
  /// Of a way that `route` found from there.
  PathKind path_kind(DeviceId from, const Route& route) const;
  /// The host memory nearest to `from` by latency, or -1.
  DeviceId nearest_memory(DeviceId from) const;
  /// What a transfer from GPU to GPU crosses when it is staged: down to the memory nearest to the
  /// receiver, where NCCL's SHM transport keeps the buffer, then up to the receiver.
  Route staged_route(DeviceId from, DeviceId to) const;

 private:
  struct Graph;  // Boost.Graph lives in topology.cpp
  std::vector<Device> devices_;
  std::vector<Link> links_;
  std::vector<DeviceId> gpus_;
  std::unique_ptr<Graph> graph_;
};

/// Reads `devices:` and `links:`. "gpu0..7" stands for eight devices in both; two ranges of one
/// length pair up. Every GPU must reach every other, by one way of least latency: parallel links
/// between two devices are one way, and so are several NVLink switches.
Topology read_topology(Section& section);

/// Max-min fair rates of flows that are under way together: all rates grow alike until a link
/// direction is full, the flows through it stay, the others grow on. `efficiency(link)` scales a
/// link's bandwidth. A flow over no link at all gets infinity. Link directions only: what the two
/// directions of a link cost each other (`duplex`) is for copies, see copies.hpp.
std::vector<BytesPerSecond> max_min_rates(const Topology& topology, const std::vector<Route>& flows,
                                          double (*efficiency)(const Link&));

struct FairShares {
  std::vector<double> rate;
  std::vector<std::optional<std::size_t>> limit;  // what stopped each flow; nothing: no limit
};
/// The same over any limits: `uses[f]` names the limits that flow f loads, each as often as it
/// loads it; `capacity[i]` is what limit i carries.
FairShares fair_shares(std::vector<double> capacity,
                       const std::vector<std::vector<std::size_t>>& uses);
