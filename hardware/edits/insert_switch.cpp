// insert_switch: {gpus: 4, root: off, uplink: 53 GB/s}: PCIe switches between the GPUs and where
// they are plugged in now, `gpus` of them behind each. Each switch takes the slot of its first GPU
// as its uplink, with the bandwidth of that slot unless `uplink` says otherwise. With `root: on`
// the switches hang on one more, so that only traffic to the host leaves them: a switch tree. A
// switch lets two GPUs below it talk without the host's help; whether they may is p2p's business.

#include "hardware/edits/parts.hpp"
#include "hardware/machine.hpp"

namespace {

// A GPU with its uplink through one switch port: cut-through, half of the 0.72 us one way between
// two cards of a switch (local-inference-lab/rtx6kpro @e2c2b957, wrx90-*.md, read 2026-08).
Duration port_latency() { return Duration::from_us(0.36); }

void apply(Machine& machine, const std::string& key, Section& edits) {
  const Settings* node = edits.take_required(key);
  if (!node) return;
  Section s(*node, "machine_edits." + key, edits.reading());
  const int per_switch = s.required<int>("gpus", between(2, 16));
  const bool root = s.optional("root", false);
  const auto uplink = s.maybe<BytesPerSecond>("uplink", plausible_bandwidth());
  Parts parts(machine.topology);
  const auto gpus = parts.gpus();
  if (per_switch < 2) return;
  if (gpus.size() % static_cast<std::size_t>(per_switch) != 0)
    return s.error("gpus", "the GPUs do not divide into switches of this size");

  const auto join = [&](DeviceId below, DeviceId above, Link like) {
    like.a = below, like.b = above;
    like.latency = port_latency();
    like.back.reset(), like.duplex.reset();
    if (uplink && parts.devices[static_cast<std::size_t>(below)].kind == DeviceKind::pcie_switch)
      like.bandwidth.value = *uplink, like.bandwidth.basis = Provenance::assumed;
    parts.links.push_back(std::move(like));
  };
  DeviceId top = -1;
  for (std::size_t first = 0; first < gpus.size(); first += static_cast<std::size_t>(per_switch)) {
    const DeviceId here = parts.add({parts.free_name("new_switch"), DeviceKind::pcie_switch});
    for (std::size_t i = first; i < first + static_cast<std::size_t>(per_switch); ++i) {
      const auto slots = parts.pcie_links(gpus[i]);
      if (slots.empty()) return s.error("gpus", "a GPU of this machine hangs on no PCIe link");
      Link& slot = parts.links[slots.front()];
      const DeviceId above = parts.other_end(slots.front(), gpus[i]);
      const Link old = slot;
      // The card's own link now ends at the switch.
      (slot.a == gpus[i] ? slot.b : slot.a) = here;
      slot.latency = port_latency();
      if (i > first) continue;
      if (root && top < 0) {
        top = parts.add({parts.free_name("new_root_switch"), DeviceKind::pcie_switch});
        join(top, above, old);
      }
      join(here, root ? top : above, old);
    }
  }
  machine.topology = parts.assemble();
}

const Registered<MachineEdit> me("insert_switch",
                                 {"PCIe switches above the GPUs: {gpus: N, root: on|off}", apply});

}  // namespace
