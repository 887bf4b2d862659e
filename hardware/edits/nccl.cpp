// The environment variables of NCCL that a server may be started with, one edit each:
//   nccl_min_nchannels: N     more channels lift NCCL's 12.5 GB/s per channel where the links can
//   do
//                             more; 8 is what owners of these boxes recommend
//   nccl_proto: LL | Simple   NCCL_PROTO
//   nccl_p2p_level: SYS       NCCL_P2P_LEVEL: peer access up to this distance, where it is granted
//   nccl_p2p_disable: on      NCCL_P2P_DISABLE

#include "hardware/machine.hpp"

namespace {

const Registered<MachineEdit> channels("nccl_min_nchannels",
                                       {"NCCL_MIN_NCHANNELS of the server",
                                        [](Machine& machine, const std::string& key,
                                           Section& edits) {
                                          machine.interconnect.nccl.min_nchannels =
                                              edits.required<int>(key, between(1, 64));
                                        }});

const Registered<MachineEdit> proto("nccl_proto",
                                    {"NCCL_PROTO of the server: LL or Simple",
                                     [](Machine& machine, const std::string& key, Section& edits) {
                                       machine.interconnect.nccl.proto =
                                           edits.word(key, {"LL", "Simple"}) == "LL"
                                               ? Protocol::ll
                                               : Protocol::simple;
                                     }});

const Registered<MachineEdit> level(
    "nccl_p2p_level", {"NCCL_P2P_LEVEL of the server: LOC, NVL, PIX, PXB, PHB, NODE or SYS",
                       [](Machine& machine, const std::string& key, Section& edits) {
                         machine.interconnect.nccl.p2p_level =
                             parse_p2p_level(edits.word(key, p2p_levels()));
                       }});

const Registered<MachineEdit> disable(
    "nccl_p2p_disable", {"NCCL_P2P_DISABLE of the server",
                         [](Machine& machine, const std::string& key, Section& edits) {
                           machine.interconnect.nccl.p2p_disable = edits.required<bool>(key);
                         }});

}  // namespace
