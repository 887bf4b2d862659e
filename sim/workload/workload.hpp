#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/registry.hpp"
#include "sim/base/settings.hpp"

/// One request as the load generator plans it.
struct PlannedRequest {
  std::int64_t input = 0;   // prompt tokens
  std::int64_t output = 0;  // tokens after which it stops; also its limit on new tokens
  Duration send_at;         // after the clock of the benchmark starts
};

/// All that a load generator does, decided beforehand from its seed.
struct WorkloadPlan {
  std::string description;  // for people: "64 requests at 16/s: 9,166 tokens in, 7,059 out"
  std::vector<PlannedRequest> requests;
  std::optional<int> max_concurrency;   // a semaphore; the latency clock starts behind it
  std::vector<PlannedRequest> warm_up;  // one after the other, before the clock
  Duration pause_after_warm_up;
  double expert_skew = 0;  // of MoE routing, see ExpertPopularity

  std::int64_t input_tokens() const;
  std::int64_t output_tokens() const;
};

/// A load generator kind ("bench_serving"): reads its options and plans. One file each.
struct WorkloadKind {
  std::string help;
  WorkloadPlan (*plan)(Section& options);
};
