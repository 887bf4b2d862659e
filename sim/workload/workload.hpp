#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "sim/base/registry.hpp"
#include "sim/base/settings.hpp"
#include "sim/engine/load.hpp"

/// The requests of a benchmark, made one by one, so that a million need no memory. Same plan, same
/// requests. Who asks may hand in a request that this source has filled before.
class RequestSource {
 public:
  virtual ~RequestSource() = default;
  /// The next request whose time is known beforehand, in the order of `send_at`; false when there
  /// is none left.
  virtual bool next(PlannedRequest& request) = 0;
  /// The next turn of a session whose turn before has just ended; `send_at` is the pause until it
  /// is sent. False when the session is over; from then on another may have its number.
  virtual bool next_turn(std::int64_t /*session*/, PlannedRequest&) { return false; }
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
  /// Starts the requests from the beginning; empty for passes that follow by themselves.
  std::function<std::unique_ptr<RequestSource>()> source;
  std::int64_t requests = 0;  // how many there are, all turns of all sessions
  std::int64_t input_tokens = 0, output_tokens = 0;  // of all of them
  Duration last_send;                                // of those whose time is known beforehand
  std::optional<int> max_concurrency;   // a semaphore; the latency clock starts behind it
  std::vector<PlannedRequest> warm_up;  // one after the other, before the clock
  Duration pause_after_warm_up;
  double expert_skew = 0;  // of MoE routing, see ExpertPopularity
  std::variant<std::monostate, SteadyDecode, ColdPrefill> passes;

  bool needs_scheduler() const { return std::holds_alternative<std::monostate>(passes); }

  /// Takes `requests` (in the order of `send_at`) as they are, and counts them.
  void set(std::vector<PlannedRequest> requests);
  /// Takes a source and counts its requests by going through it once; only for sources without
  /// sessions.
  void set(std::function<std::unique_ptr<RequestSource>()> source);
};

/// A prompt made of these runs, one after the other.
Content prompt_of(std::initializer_list<Segment> runs);

/// The requests of a plan without sessions as a list.
std::vector<PlannedRequest> all_requests(const WorkloadPlan& plan);

/// A load generator kind ("bench_serving"): reads its options and plans. One file each.
struct WorkloadKind {
  std::string help;
  WorkloadPlan (*plan)(Section& options);
};
