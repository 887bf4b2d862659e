#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hardware/collective/pricing.hpp"
#include "hardware/machine.hpp"

/// Transfers over one machine, as `ceiling topology` shows them; `named` is the machine as the user
/// named it, with edits.

/// The ways of one transfer between two ends (GPUs by rank, or Copy::host), hop by hop.
struct RouteReport {
  std::string named;
  Machine machine;
  int from = 0, to = 0;
};
std::string render_route(const RouteReport& report);
std::string route_to_json(const RouteReport& report);

/// Copies that run together and what came of them.
struct FlowsReport {
  std::string named;
  Machine machine;
  std::string flows;  // the copies as the user wrote them
  std::vector<Copy> copies;
  Mover mover = Mover::copy_engine;
  CopiesOutcome outcome;
};
std::string render_flows(const FlowsReport& report);
std::string flows_to_json(const FlowsReport& report);

/// One collective over a range of sizes.
struct CollectiveReport {
  std::string named;
  Machine machine;
  Collective op = Collective::all_reduce;
  int gpus = 0;
  std::string build;   // whose policy chose the kernels; empty: one kernel for all sizes
  std::string kernel;  // the one for all sizes
  std::vector<std::string> others;  // kernels that could run it too
  struct Row {
    Bytes size;
    CollectivePrice price;
    Duration eager;
  };
  std::vector<Row> rows;
};
/// In the form of nccl-tests, then what each run of sizes takes and rests on.
std::string render_collective(const CollectiveReport& report);
/// {"rows": [{op, gpus, size_bytes, time_us, algbw_GBs, busbw_GBs, eager_us, kernel, algorithm,
/// protocol, transport, channels, limit, provenance, spread, anchor}]}
std::string collective_to_json(const CollectiveReport& report);
