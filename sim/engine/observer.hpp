#pragma once

#include "sim/engine/request.hpp"
#include "sim/step/step_model.hpp"

/// One forward pass, as it happened.
struct PassRecord {
  PassShape shape;
  TimePoint launched;   // the host began to issue it
  TimePoint finished;   // the GPU was done with it
  TimePoint processed;  // its results were taken
  bool captured = false;
  std::int64_t padded = 0;      // decode sequences after padding
  std::int64_t free_pages = 0;  // while it ran
  std::int64_t batch = 0;       // sequences in it, finished ones included
};

/// Hears what happens. The engine announces facts; clients and metrics subscribe. Times of tokens
/// are those at which the client has them.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_queued(const Request&, TimePoint) {}
  virtual void on_tokens(const Request&, int /*new_tokens*/, TimePoint /*at_client*/) {}
  virtual void on_finish(const Request&, TimePoint /*at_client*/) {}
  virtual void on_reject(const Request&, TimePoint /*at_client*/) {}
  virtual void on_pass(const PassRecord&) {}
};
