#pragma once

#include "sim/engine/engine.hpp"
#include "sim/engine/server.hpp"
#include "sim/metrics/metrics.hpp"
#include "sim/step/step_model.hpp"
#include "sim/workload/workload.hpp"

/// One pass of a workload that needs no scheduler, and how long it holds the server.
struct SteadyPass {
  PassRecord record;
  Timeline cost;  // of the padded shape
  Duration host;  // launches and the loop around them
  Duration time;
};

/// What prices such passes.
struct SteadyServer {
  const StepModel& step;
  const EngineSizes& sizes;
  HostTimes host;
  std::int64_t sparse_top_k = 0;  // 0: dense attention
};

/// The passes of a steady decode (one, it repeats) or of a cold prefill (its chunks). An
/// asynchronous loop hides the shorter of host and GPU; else they add up.
std::vector<SteadyPass> steady_passes(const WorkloadPlan& plan, const SteadyServer& server);

/// Rates and latencies of those passes. Decode: one request's token takes a pass. Prefill: the
/// prompt over the sum of its passes.
RunMetrics steady_metrics(const WorkloadPlan& plan, const std::vector<SteadyPass>& passes);
