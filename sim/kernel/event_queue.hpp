#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/base/time.hpp"

/// Order among events of the same picosecond: effects before decisions, decisions before looks.
enum class Phase { completion, arrival, decision, observation };

/// Events by (time, phase, insertion). The insertion order breaks the last ties, so a run depends
/// on nothing but its input.
class EventQueue {
 public:
  using Action = std::function<void()>;
  void push(TimePoint at, Phase phase, Action action);
  bool empty() const { return heap_.empty(); }
  TimePoint next_time() const;
  /// Removes the first event and returns it.
  struct Event {
    TimePoint at;
    Phase phase;
    std::uint64_t number;
    Action action;
  };
  Event pop();

 private:
  std::vector<Event> heap_;
  std::uint64_t pushed_ = 0;
};

/// The simulated clock and its pending events.
class Simulation {
 public:
  TimePoint now() const { return now_; }
  /// `at` must not lie in the past.
  void schedule(TimePoint at, Phase phase, EventQueue::Action action);
  void schedule_in(Duration delay, Phase phase, EventQueue::Action action) {
    schedule(now_ + delay, phase, std::move(action));
  }
  /// Runs until no event is left; false when it gave up because the clock would run over.
  bool run();
  std::uint64_t events_run() const { return events_run_; }

 private:
  EventQueue queue_;
  TimePoint now_;
  std::uint64_t events_run_ = 0;
};
