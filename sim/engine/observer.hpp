#pragma once

#include "sim/engine/request.hpp"
#include "sim/step/step_model.hpp"

/// One forward pass, as it happened.
struct PassRecord {
  PassShape shape;
  TimePoint launched;   // the host began to issue it
  TimePoint finished;   // the GPU was done with it
  TimePoint processed;  // its results were taken
  Duration device;      // the GPU's own time in it
  bool captured = false;
  std::int64_t padded = 0;      // decode sequences after padding
  std::int64_t free_pages = 0;  // while it ran
  std::int64_t batch = 0;       // sequences in it, finished ones included
};

/// Equal decode passes in a row of the same requests. `last` is the last of them; the results of
/// the first were taken at `first_processed`, the pause to the next one was `gap`, and each pause
/// was `gap_step` longer than the one before.
struct PassRun {
  PassRecord last;
  std::int64_t passes = 1;
  Duration device;  // of all
  TimePoint first_processed;
  Duration gap, gap_step;

  /// When the results of pass `k` of the run (from 0) were taken.
  TimePoint processed(std::int64_t k) const {
    return first_processed + k * gap + k * (k - 1) / 2 * gap_step;
  }
};

/// Times between the tokens of a request as its client sees them: `passes` in a row, each the same
/// for `requests` requests, the first `gap` long, each next one `step` longer.
struct GapRun {
  Duration gap, step;
  std::int64_t passes = 1;
  std::int64_t requests = 1;
};

/// Hears what happens. The engine announces facts; clients and metrics subscribe. Times of tokens
/// are those at which the client has them.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_clock(TimePoint) {}      // the benchmark's clock starts
  virtual void on_sent(const Request&) {}  // of the benchmark, not of the warm-up
  virtual void on_queued(const Request&) {}
  virtual void on_gaps(const GapRun&) {}
  virtual void on_finish(const Request&) {}
  virtual void on_reject(const Request&, TimePoint /*at_client*/) {}
  virtual void on_passes(const PassRun&) {}
  /// Each token by itself: only the reference mode says it.
  virtual void on_token(const Request&, TimePoint /*at_client*/) {}
};
