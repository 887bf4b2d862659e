#pragma once

#include <string>

#include "hardware/collective/pricing.hpp"
#include "hardware/gpu.hpp"
#include "hardware/topology/copies.hpp"
#include "hardware/topology/topology.hpp"

/// What the CPU side costs. Times are bare metal; `virtualisation` multiplies all of them.
struct HostSpec {
  Constant<Duration> kernel_launch;  // the driver's part of one launch
  Constant<Duration> graph_launch;   // one CUDA graph launch, whatever its size
  Constant<Duration> graph_launch_per_node;
  Constant<double> virtualisation;
  Constant<Duration> request_path;   // client to scheduler: HTTP, tokenise, queue hop
  Constant<Duration> response_path;  // sampled token to client: queue hops, detokenise, stream
};

/// One box: what its file in hardware/machines says.
struct Machine {
  std::string id, name;
  std::string topology_id;  // of a box known to the catalogue of topologies, "T04"; else empty
  std::string gpu_id;
  bool guest = false;
  Topology topology;
  Interconnect interconnect;
  /// Measured collectives: names of files, or "gpu_tables", and where the machine names them.
  std::vector<std::pair<std::string, Location>> collectives;
  HostSpec host;
  Constant<Bytes> reserved;  // of each card, before weights: driver, contexts, NCCL

  int gpu_count() const { return static_cast<int>(topology.gpus().size()); }
};

/// What copies on this machine are subject to; `mover` says whose they are.
CopyOptions copy_options(const Machine& machine, Mover mover = Mover::copy_engine);

/// The name of the GPU file that a machine wants, before the machine itself is read.
std::string machine_gpu(const Settings& file);

Machine read_machine(const std::string& id, const Settings& file, Reading& reading);

/// A named change to a machine for a what-if: `machine_edits: {p2p: on}`. One file each.
struct MachineEdit {
  std::string help;
  void (*apply)(Machine& machine, const std::string& key, Section& edits);
};

/// Applies all edits of the section; unknown ones are errors with a hint.
void apply_machine_edits(Machine& machine, const Settings& edits, Reading& reading);
