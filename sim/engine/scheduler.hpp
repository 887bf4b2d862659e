#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sim/base/quantity.hpp"
#include "sim/base/registry.hpp"
#include "sim/base/settings.hpp"
#include "sim/engine/request.hpp"

/// What a scheduler sees when it chooses the next pass. All of it is as the real engine knows it at
/// that moment: results of the pass in flight are not in yet.
struct SchedulerView {
  TimePoint now;
  const std::deque<const RequestView*>& waiting;  // in order of arrival, retracted ones at the tail
  const std::vector<const RequestView*>& running;  // decoding and not known to be finished
  const RequestView* prefilling = nullptr;         // the one whose prompt is only partly prefilled
  std::int64_t free_pages = 0;
  std::int64_t total_pages = 0;
  int page_size = 1;

  std::int64_t free_tokens() const { return free_pages * page_size; }
};

/// Prefill this many tokens of this request in the next pass.
struct Chunk {
  RequestId id = 0;
  std::int64_t tokens = 0;
};

/// The next pass. Empty (nothing to extend, no decode) means: idle.
struct BatchPlan {
  std::vector<Chunk> extend;
  std::vector<RequestId> retract;  // give up their pages, queue them again at the tail
  bool decode = false;             // everybody running makes one token

  bool idle() const { return extend.empty() && !decode; }
};

/// Chooses the next pass; changes nothing but its own memory. The engine checks a plan against the
/// pool and the limits and applies it. One file per scheduler.
class Scheduler {
 public:
  virtual ~Scheduler() = default;
  virtual BatchPlan next_batch(const SchedulerView& view) = 0;
  /// A running request was found finished.
  virtual void on_finish(const RequestView& request) = 0;
  /// The loop found nothing to do.
  virtual void on_idle() {}
};

constexpr std::int64_t pages_for(std::int64_t tokens, int page_size) {
  return (tokens + page_size - 1) / page_size;
}
