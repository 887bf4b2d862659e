#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "sim/base/registry.hpp"
#include "sim/base/settings.hpp"

/// One request as the load generator plans it.
struct PlannedRequest {
  std::int64_t input = 0;   // prompt tokens
  std::int64_t output = 0;  // tokens after which it stops; also its limit on new tokens
  Duration send_at;         // after the clock of the benchmark starts
};

/// Decode that goes on: `sequences` of equal length, none comes and none goes.
struct SteadyDecode {
  std::int64_t sequences = 1;
  std::int64_t prompt = 0;  // KV tokens of each before it decodes
  Duration decoded_for;     // what each has decoded on average while the rate is taken
};

/// One prompt on an idle server, nothing of it cached, in passes of `chunk` tokens.
struct ColdPrefill {
  std::int64_t prompt = 1;
  std::int64_t chunk = 0;  // 0: the engine's own
};

/// All that a load generator does, decided beforehand from its seed: requests that a scheduler must
/// order, or passes that follow by themselves.
struct WorkloadPlan {
  std::string description;  // for people: "64 requests at 16/s: 9,166 tokens in, 7,059 out"
  std::vector<PlannedRequest> requests;
  std::optional<int> max_concurrency;   // a semaphore; the latency clock starts behind it
  std::vector<PlannedRequest> warm_up;  // one after the other, before the clock
  Duration pause_after_warm_up;
  double expert_skew = 0;  // of MoE routing, see ExpertPopularity
  std::variant<std::monostate, SteadyDecode, ColdPrefill> passes;

  bool needs_scheduler() const { return std::holds_alternative<std::monostate>(passes); }

  std::int64_t input_tokens() const;
  std::int64_t output_tokens() const;
};

/// A load generator kind ("bench_serving"): reads its options and plans. One file each.
struct WorkloadKind {
  std::string help;
  WorkloadPlan (*plan)(Section& options);
};
