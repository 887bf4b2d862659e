#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// One request as a log shows it. Times are seconds from any start, the same for all requests.
struct LoggedRequest {
  std::string id;
  std::optional<double> queued, scheduled;  // when the engine saw it, and first took it into a step
  double first_token = 0, last_token = 0;
  std::int64_t input_tokens = 0, output_tokens = 0;
  bool preempted = false;      // its tokens do not count its steps
  std::vector<double> chunks;  // arrival of each token; first_token and last_token are their ends
};

struct LatticeOptions {
  /// Times closer than this are one step boundary.
  double tolerance_s = 250e-6;
  /// Steps from scheduled to first token of a prompt that is not cut: 1, or 2 where the engine
  /// schedules ahead. 0: the depth with the fewest conflicts.
  int depth = 0;
  /// Prompts that together are no longer than this are prefilled in one step: at most the engine's
  /// max_num_batched_tokens. Less is safe and joins less.
  std::int64_t token_budget = 2048;
  /// Whether parts that order alone does not place may be placed where steps come out even.
  bool by_time = true;
};

/// One engine step: it ends at its boundary, with a token for every sequence that it decoded and
/// for every prompt that it finished.
struct LatticeStep {
  std::int64_t index = 0;
  double end_s = 0;
  double time_s = 0;  // mean of its stretch
  /// The steps from one boundary that the log shows to the next, this one among them, and how many
  /// of them have prefill: a time of its own has only what is alone or among its like.
  std::int64_t stretch = 1, stretch_prefills = 0;
  std::int64_t prefill_tokens = 0;  // cut prompts are spread evenly over their steps
  std::vector<std::int64_t> kv;     // tokens of each decoded sequence, the new one included
  bool after_idle = false;          // nobody was decoding: its time may hold a wait
  bool complete = true;             // false: somebody ran here whose steps are not known

  std::int64_t decode() const { return static_cast<std::int64_t>(kv.size()); }
  std::int64_t context() const {
    std::int64_t out = 0;
    for (const auto tokens : kv) out += tokens;
    return out;
  }
};

/// What a log says of the steps behind it. Every scheduled, first and last time is a step boundary,
/// and a request that was not preempted has output_tokens - 1 steps between its first and last
/// token. Joining equal times gives the index of every boundary, so that the batch of each step is
/// known. Holds for engines that decode in every step (vLLM), not where prompts make decode wait.
struct StepLattice {
  std::size_t requests = 0, preempted = 0;
  std::size_t boundaries = 0, joined = 0;  // distinct; in the largest part
  /// Of the joined parts: those that only one place keeps in the order of time; those placed where
  /// steps come out even; and those of them that another place suits nearly as well.
  std::size_t by_order = 0, by_time = 0, unclear = 0;
  std::size_t conflicts = 0;                  // claims that contradict others, at this depth
  std::size_t disordered = 0;                 // neighbours in time whose indices are not in order
  int depth = 0;                              // 0: the log has no scheduled times
  std::array<std::size_t, 4> conflicts_at{};  // conflicts of scheduled times by depth
  std::vector<std::string> in_conflict;       // ids, a few
  std::int64_t span = 0;                      // steps from the first to the last joined boundary
  std::vector<LatticeStep> steps;
  std::vector<std::int64_t> index_of_first;  // per request: step of its first token; -1: unknown
};

/// Rebuilds the steps. Requests with `chunks` give every boundary themselves; a log has either
/// kind.
StepLattice solve_lattice(const std::vector<LoggedRequest>& log, const LatticeOptions& options);
