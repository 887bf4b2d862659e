// numa_nodes: 1 | 2: the GPUs on one socket, or half of them on each of two. In a guest this is
// what the hypervisor shows: nothing moves, but NCCL sees two sockets and on AMD hosts with
// Blackwell cards falls back to its slowest view (0.1 GB/s, Simple). On bare metal it is another
// board: the link between the sockets carries what three xGMI links do (192 GB/s stated for T01).

#include <map>

#include "hardware/edits/parts.hpp"
#include "hardware/machine.hpp"

namespace {

// All sockets become one: the links between them are inside a chip then, and one memory is left,
// with the bandwidth of all.
void merge(Machine& machine) {
  Parts parts(machine.topology);
  DeviceId memory = -1;
  double bandwidth = 0;
  for (Link& l : parts.links) {
    if (l.kind == "interconnect") {
      l.kind = "internal";
      l.bandwidth.value = BytesPerSecond(1e13);
      l.latency = Duration::from_us(0.17);
    }
    if (l.kind == "memory") bandwidth += l.bandwidth.value.count();
  }
  for (std::size_t i = 0; i < parts.devices.size() && memory < 0; ++i)
    if (parts.devices[i].kind == DeviceKind::host_memory) memory = static_cast<DeviceId>(i);
  for (Link& l : parts.links)
    if (l.kind == "memory" && (l.a == memory || l.b == memory))
      l.bandwidth.value = BytesPerSecond(bandwidth);
  machine.topology = parts.assemble([&](DeviceId id) {
    return parts.devices[static_cast<std::size_t>(id)].kind != DeviceKind::host_memory ||
           id == memory;
  });
}

void split(Machine& machine) {
  Parts parts(machine.topology);
  const auto gpus = parts.gpus();
  // The one place where everything meets, and its memory.
  DeviceId host = -1, memory = -1;
  for (const Link& l : parts.links)
    if (l.kind == "memory") {
      const bool memory_is_b =
          parts.devices[static_cast<std::size_t>(l.b)].kind == DeviceKind::host_memory;
      host = memory_is_b ? l.a : l.b, memory = memory_is_b ? l.b : l.a;
    }
  if (host < 0) return;
  const DeviceId other = parts.add({parts.free_name("new_socket"), DeviceKind::root_complex});
  const DeviceId other_memory = parts.add({parts.free_name("new_memory"), DeviceKind::host_memory});
  // What leads from the host to a GPU of the second half moves over.
  std::map<DeviceId, bool> second;
  for (std::size_t i = 0; i < gpus.size(); ++i)
    for (DeviceId at = gpus[i]; const Hop& hop : machine.topology.route(gpus[i], host)) {
      const Link& l = machine.topology.link(hop.link);
      const DeviceId next = hop.forward ? l.b : l.a;
      if (next == host) second.try_emplace(at, i >= gpus.size() / 2);
      at = next;
    }
  std::vector<Link> added;
  for (Link& l : parts.links) {
    if (l.a == memory || l.b == memory) {
      Link copy = l;
      copy.a = other, copy.b = other_memory;
      added.push_back(copy);
      continue;
    }
    DeviceId& end = l.a == host ? l.a : l.b;
    const DeviceId below = l.a == host ? l.b : l.a;
    if (end == host && second.count(below) && second[below]) end = other;
  }
  Link between;
  between.a = host, between.b = other, between.kind = "interconnect";
  between.bandwidth = Constant<BytesPerSecond>{BytesPerSecond(192e9), Provenance::assumed, 1.5,
                                               "between the sockets", "three xGMI links",  {}};
  between.latency = Duration::from_us(0.3);
  added.push_back(between);
  parts.links.insert(parts.links.end(), added.begin(), added.end());
  machine.topology = parts.assemble();
}

void apply(Machine& machine, const std::string& key, Section& edits) {
  const int nodes = edits.required<int>(key, between(1, 2));
  int memories = 0;
  for (const Device& d : machine.topology.devices()) memories += d.kind == DeviceKind::host_memory;
  if (nodes == 1 && memories > 1) merge(machine);
  if (nodes == 2 && memories == 1) split(machine);
}

const Registered<MachineEdit> me("numa_nodes",
                                 {"the GPUs on 1 socket or half on each of 2", apply});

}  // namespace
