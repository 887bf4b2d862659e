#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/quantity.hpp"
#include "sim/base/registry.hpp"
#include "sim/base/settings.hpp"
#include "sim/engine/page_size.hpp"
#include "sim/engine/request.hpp"

/// The KV pool as a scheduler deals with it: pages are given out while the plan is made, as the
/// engines do, so that `available` is always right. Whoever was given pages must be in the plan.
class KvLedger {
 public:
  virtual ~KvLedger() = default;
  /// Pages that nobody holds: free ones and those the prefix cache would give up.
  virtual std::int64_t available() const = 0;
  /// Tokens at the beginning of a waiting request that are cached now; at most all but one.
  virtual std::int64_t cached(const RequestView& waiting) = 0;
  /// The same, and locks them for it; admit() or let_go() must follow.
  virtual std::int64_t hold(const RequestView& waiting) = 0;
  virtual void let_go(const RequestView& waiting) = 0;
  /// Gives pages for the next `tokens` of its prompt, behind what is cached or prefilled.
  virtual void admit(const RequestView& request, std::int64_t tokens) = 0;
  /// Running requests that the next decode pass takes, after retractions.
  virtual std::int64_t decoding() const = 0;
  /// Gives the page for the next token of everybody who decodes.
  virtual void grow_running() = 0;
  /// Takes a running or half-prefilled request's pages away and queues it again.
  virtual void retract(const RequestView& request) = 0;
  /// The running requests one by one, in the order they joined; slow.
  virtual void each_running(const std::function<void(const RequestView&)>& visit) = 0;
};

/// What a scheduler sees when it chooses the next pass. All of it is as the real engine knows it at
/// that moment: results of the pass in flight are not in yet. Of the running requests it sees sums.
struct SchedulerView {
  TimePoint now;
  const std::deque<RequestView*>& waiting;  // in order of arrival; where retracted ones are queued
                                            // is the engine's rule
  const RequestView* prefilling = nullptr;  // the one whose prompt is only partly prefilled
  std::int64_t running = 0;          // has its prompt, is not known to be finished, holds a seat
  std::int64_t decoding = 0;         // of them, those that the next decode pass takes
  std::int64_t reserved_tokens = 0;  // over running: min(max_new - generated, clip of the engine)
  std::int64_t decode_pages = 0;     // pages that the next token of all who decode needs
  std::int64_t decode_passes = 0;    // passes so far that did nothing but decode
  std::int64_t total_pages = 0;
  PageSize page_size = 1;
  KvLedger& kv;
};

/// Prefill this many tokens of this request in the next pass.
struct Chunk {
  RequestId id = 0;
  std::int64_t tokens = 0;
  bool operator==(const Chunk&) const = default;
};

/// "From now on everybody running decodes": until pages run short (always), and until any of these.
struct Hold {
  bool on_arrival = true;                       // somebody arrives
  bool on_leave = true;                         // somebody finishes or decodes no more
  std::int64_t passes = std::int64_t{1} << 40;  // so many more have run
  TimePoint until = TimePoint::never();         // the clock says so
};

/// The next pass. Empty (nothing to extend, no decode) means: idle.
struct BatchPlan {
  std::vector<Chunk> extend;   // admitted with the ledger
  std::int64_t retracted = 0;  // with the ledger
  bool decode = false;         // everybody running makes one token; grow_running() was called
  std::optional<Hold> hold;    // of the passes behind this one; none: ask me after every pass

  bool idle() const { return extend.empty() && !decode; }
  void clear() { extend.clear(), retracted = 0, decode = false, hold.reset(); }
};

/// Chooses the next pass; changes nothing but its own memory and, through the ledger, who has which
/// pages. One file per scheduler. The server checks a plan against the pool and the limits.
class Scheduler {
 public:
  virtual ~Scheduler() = default;
  /// `plan` comes empty.
  virtual void next_batch(const SchedulerView& view, BatchPlan& plan) = 0;
  /// A pass that only decodes was chosen under a hold, without asking.
  virtual void on_repeat() {}
  /// A running request was found finished.
  virtual void on_finish(const RequestView&) {}
  /// The loop found nothing to do.
  virtual void on_idle(const SchedulerView&) {}
};
