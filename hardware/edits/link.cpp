// link: {from: gpu0, to: switch0, bandwidth: 26 GB/s, latency: 400 ns, gen: 4, lanes: 16}: another
// bandwidth, latency, generation or width for one link, or without `to` for every link at `from`.
// The generation and width are what the operating system reports, and so what NCCL believes; state
// the bandwidth too when the cable itself is meant (or use pcie_generation).

#include <fmt/format.h>

#include "hardware/machine.hpp"

namespace {

DeviceId device(const Machine& machine, Section& s, const std::string& key) {
  const std::string name = s.required<std::string>(key);
  const DeviceId id = machine.topology.find(name);
  if (id >= 0 || name.empty()) return id;
  std::vector<std::string> names;
  for (const Device& d : machine.topology.devices()) names.push_back(d.name);
  s.error(key, fmt::format("the machine has no device '{}'", name), suggestion(name, names));
  return -1;
}

void apply(Machine& machine, const std::string& key, Section& edits) {
  const Settings* node = edits.take_required(key);
  if (!node) return;
  Section s(*node, "machine_edits." + key, edits.reading());
  const DeviceId from = device(machine, s, "from");
  const bool all = !s.has("to");
  const DeviceId to = all ? -1 : device(machine, s, "to");
  const auto bandwidth = s.maybe<BytesPerSecond>("bandwidth", plausible_bandwidth());
  const auto latency = s.maybe<Duration>("latency", plausible_time());
  const auto gen = s.maybe<int>("gen", between(1, 6));
  const auto lanes = s.maybe<int>("lanes", between(1, 32));
  if (lanes && (*lanes & (*lanes - 1)) != 0)
    s.error("lanes", "a PCIe link has 1, 2, 4, 8, 16 or 32 lanes");
  if (!bandwidth && !latency && !gen && !lanes)
    s.error("from", "nothing of the link is changed", "add bandwidth, latency, gen or lanes");
  if (from < 0 || (!all && to < 0)) return;
  // Built anew: the graph holds the latencies.
  Topology changed;
  for (const Device& d : machine.topology.devices()) changed.add(d);
  int found = 0;
  for (Link link : machine.topology.links()) {
    const bool here =
        (link.a == from && (all || link.b == to)) || (link.b == from && (all || link.a == to));
    if (here) {
      ++found;
      if (bandwidth)
        link.bandwidth = Constant<BytesPerSecond>{*bandwidth,    Provenance::assumed, 1,
                                                  "edited link", "what-if",           {}},
        link.back.reset(), link.duplex.reset();
      if (latency) link.latency = *latency;
      if (gen) link.gen = *gen;
      if (lanes) link.lanes = *lanes;
    }
    changed.add(std::move(link));
  }
  if (found == 0)
    s.error("from", "no link joins the two", "ceiling topology MACHINE shows the links");
  machine.topology = std::move(changed);
}

const Registered<MachineEdit> me("link", {"another bandwidth, latency or width of a link", apply});

}  // namespace
