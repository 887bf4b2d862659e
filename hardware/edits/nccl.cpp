// nccl_min_nchannels: N, as the environment variable. More channels lift NCCL's 12.5 GB/s per
// channel where the links can do more; 8 is what owners of these boxes recommend.

#include "hardware/machine.hpp"

namespace {

void apply(Machine& machine, const std::string& key, Section& edits) {
  machine.interconnect.nccl.min_nchannels = edits.required<int>(key, between(1, 64));
}

const Registered<MachineEdit> me("nccl_min_nchannels", {"NCCL_MIN_NCHANNELS of the server", apply});

}  // namespace
