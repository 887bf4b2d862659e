// nvlink: 450 GB/s: every GPU on one NVLink switch with this much one way, as in a DGX (Hopper 450,
// Blackwell 900), and peer access over it. The PCIe links stay for host traffic. What NCCL gets out
// of it is the law of the nearest card whose NVLink was measured, assumed for others.

#include "hardware/machine.hpp"

namespace {

void apply(Machine& machine, const std::string& key, Section& edits) {
  const auto rate = edits.required<BytesPerSecond>(key, plausible_bandwidth());
  const DeviceId fabric = machine.topology.add({"new_nvlink_switch", DeviceKind::nvlink_switch});
  const auto gpus = machine.topology.gpus();
  for (const DeviceId gpu : gpus) {
    Link link;
    link.a = gpu, link.b = fabric, link.kind = "nvlink";
    link.bandwidth =
        Constant<BytesPerSecond>{rate, Provenance::assumed, 1, "NVLink", "what-if", {}};
    // Shorter than any way over PCIe, so that routes take it.
    link.latency = Duration::from_us(0.1);
    machine.topology.add(std::move(link));
  }
  machine.interconnect.p2p_capable = true;
  machine.interconnect.p2p_off.clear();
  machine.interconnect.nccl.p2p_disable = false;
}

const Registered<MachineEdit> me("nvlink", {"NVLink between all GPUs: GB/s one way a GPU", apply});

}  // namespace
