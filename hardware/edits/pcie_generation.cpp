// pcie_generation: N: every PCIe link as it would be at that generation: its bandwidth in
// proportion to the line rates, and what the operating system reports. A link's own generation is
// the one whose line rate lies nearest above its bandwidth, since guests report their virtual
// ports.

#include "hardware/edits/parts.hpp"
#include "hardware/machine.hpp"

namespace {

int generation_of(const Link& link, int lanes) {
  int gen = 1;
  while (gen < 6 && pcie_line_gbps(gen, lanes) * 1e9 < link.bandwidth.value.count()) ++gen;
  return gen;
}

void apply(Machine& machine, const std::string& key, Section& edits) {
  const int gen = edits.required<int>(key, between(1, 6));
  if (gen < 1 || gen > 6) return;
  for (std::size_t i = 0; i < machine.topology.links().size(); ++i) {
    Link& link = machine.topology.link(static_cast<LinkId>(i));
    if (link.kind != "pcie") continue;
    const int lanes = link.lanes ? link.lanes : 16;
    const double factor =
        pcie_line_gbps(gen, lanes) / pcie_line_gbps(generation_of(link, lanes), lanes);
    link.bandwidth.value = link.bandwidth.value * factor;
    if (factor != 1) link.bandwidth.basis = Provenance::assumed;
    if (link.back) link.back = *link.back * factor;
    if (link.duplex) link.duplex = *link.duplex * factor;
    link.gen = gen;
  }
}

const Registered<MachineEdit> me("pcie_generation",
                                 {"all PCIe links at another generation, 1 to 6", apply});

}  // namespace
