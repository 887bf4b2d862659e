#pragma once

#include <map>
#include <string>
#include <vector>

#include "hardware/machine.hpp"
#include "sim/report/topology_errors.hpp"

/// What kinds of rows there are and how far off a prediction may be: copies of one GPU alone
/// ("single"), of disjoint or crossing pairs ("paired"), one per GPU all at once ("shifted"),
/// between GPUs and host memory ("host"), and with several copies waiting at a GPU ("all_to_all");
/// collectives of NCCL by the graph and its environment alone ("nccl"), with what was timed on the
/// host ("host_numbers"), and of the engines' own kernels ("kernel").
const std::map<std::string, ErrorBar>& topology_row_bars();

/// Whether a file holds measured transfers: it has `rows`.
bool is_topology_file(const std::string& path);

/// Reads a file of measured transfers on one machine and predicts each: `machine:`, `source:`,
/// `bytes:` and `rows:`. A row of copies has a `kind` and its `flows`, what holds for them (`p2p`,
/// `mover`, `acs_redirect`), and what was `measured`; one of collectives an `op`, `gpus`, `kernel`,
/// `nccl`, and `points` of size and time. See docs/models/topology.md.
Expected<std::vector<TopologyLine>> score_topology_file(const std::string& path);
