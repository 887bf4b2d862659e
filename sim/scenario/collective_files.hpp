#pragma once

#include <memory>
#include <vector>

#include "hardware/machine.hpp"

/// What was measured of collectives on a machine: the files that its `collectives:` names (as
/// `ceiling import nccl-tests` writes them, in hardware/tables/collectives or by path), and for
/// `gpu_tables` the NCCL and custom all-reduce tables of its GPU, which were measured on a whole
/// box of them.
Expected<std::vector<MeasuredCurve>> load_collective_curves(const Machine& machine,
                                                            const GpuSpec& gpu);

/// Prices collectives on a machine, scaled to what was measured on it; where `base` is another, the
/// machine before edits, to what was measured on that.
Expected<std::unique_ptr<CollectivePricer>> make_collective_pricer(const Machine& machine,
                                                                   const Machine& base,
                                                                   const GpuSpec& gpu, int ranks,
                                                                   const AllReducePolicy& policy);
