#pragma once

#include <string>
#include <vector>

#include "hardware/machine.hpp"

/// "gpu0..3" of names that count on, else the names.
std::string names_in_short(const std::vector<std::string>& names);

/// What a machine is and how its GPUs talk: the graph as a tree, how far apart the GPUs are, rates
/// and latencies of copies, and what NCCL makes of it. `full`: every pair in matrices.
std::string render_topology(const Machine& machine, const CollectivePricer& all_gpus, bool full);
/// {"schema", "machine", "devices", "links", "paths", "matrices", "latency_us", "nccl"}
std::string topology_to_json(const Machine& machine, const CollectivePricer& all_gpus);
/// The graph for Graphviz.
std::string topology_to_dot(const Machine& machine);

/// The links between two devices, hop by hop, directly and through host memory.
std::string render_route(const Machine& machine, DeviceId from, DeviceId to);

/// What copies that start together get, as --flows asks for it.
std::string render_copies(const Machine& machine, const std::vector<Copy>& copies,
                          const CopiesOutcome& outcome);
std::string copies_to_json(const Machine& machine, const std::vector<Copy>& copies,
                           const CopiesOutcome& outcome);

/// A collective over sizes, as nccl-tests prints it.
struct CollectiveRow {
  Collective op = Collective::all_reduce;
  int gpus = 0;
  Bytes size;
  CollectivePrice price;
};
std::string render_collective(const Machine& machine, const std::vector<CollectiveRow>& rows);
std::string collective_to_json(const Machine& machine, const std::vector<CollectiveRow>& rows);
