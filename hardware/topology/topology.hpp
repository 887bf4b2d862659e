#pragma once

#include <memory>
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

struct Device {
  std::string name;
  DeviceKind kind = DeviceKind::gpu;
};

/// A cable, a slot or a memory bus: two directions, each with its own bandwidth.
struct Link {
  DeviceId a = 0, b = 0;
  // pcie, internal (inside a chip, never limiting), interconnect (between sockets), memory, nvlink
  std::string kind;
  Constant<BytesPerSecond> bandwidth;  // one way
  Duration latency;
  int gen = 0, lanes = 0;  // what the operating system reports; 0 when it does not
};

/// One link of a route, walked from a to b (forward) or from b to a.
struct Hop {
  LinkId link = 0;
  bool forward = true;
};
using Route = std::vector<Hop>;

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
  Link& link(LinkId id) { return links_[static_cast<std::size_t>(id)]; }
  const Link& link(LinkId id) const { return links_[static_cast<std::size_t>(id)]; }
  /// GPUs in the order in which the file names them: rank order.
  const std::vector<DeviceId>& gpus() const { return gpus_; }
  /// -1 when there is no such device.
  DeviceId find(std::string_view name) const;

  /// The way of least latency that crosses no other GPU and no memory; empty when there is none.
  Route route(DeviceId from, DeviceId to) const;
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

/// Reads `devices:` and `links:`. Every device must be reachable from every other.
Topology read_topology(Section& section);

/// Max-min fair rates of flows that are under way together: all rates grow alike until a link
/// direction is full, the flows through it stay, the others grow on. `efficiency(link)` scales a
/// link's bandwidth. A flow over no link at all gets infinity.
std::vector<BytesPerSecond> max_min_rates(const Topology& topology, const std::vector<Route>& flows,
                                          double (*efficiency)(const Link&));
