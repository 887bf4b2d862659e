// acs_redirect: on | off: ACS request redirect in every switch. On (as hypervisors and some BIOSes
// set it) sends traffic between two cards of a switch up to the root port and back.

#include "hardware/edits/parts.hpp"
#include "hardware/machine.hpp"

namespace {

void apply(Machine& machine, const std::string& key, Section& edits) {
  const bool on = edits.required<bool>(key);
  Parts parts(machine.topology);
  for (Device& d : parts.devices)
    if (d.kind == DeviceKind::pcie_switch) d.acs_redirect = on;
  machine.topology = parts.assemble();
}

const Registered<MachineEdit> me("acs_redirect", {"ACS request redirect of all switches", apply});

}  // namespace
