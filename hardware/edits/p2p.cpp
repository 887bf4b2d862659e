// p2p: on | off. On: the driver grants peer access and NCCL is told to use it on any path
// (NCCL_P2P_LEVEL=SYS), as every box of this kind needs; routes then no longer cross host memory.
// Off: everything is staged through it. The links themselves stay as they are.

#include "hardware/machine.hpp"

namespace {

void apply(Machine& machine, const std::string& key, Section& edits) {
  const bool on = edits.required<bool>(key);
  machine.interconnect.p2p_capable = on;
  machine.interconnect.p2p_off.clear();
  machine.interconnect.nccl.p2p_level.reset();
  if (!on) return;
  machine.interconnect.nccl.p2p_level = PathKind::sys;
  machine.interconnect.nccl.p2p_disable = false;
}

const Registered<MachineEdit> me("p2p", {"peer-to-peer access between all GPUs: on or off", apply});

}  // namespace
