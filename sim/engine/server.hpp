#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "sim/engine/engine.hpp"
#include "sim/engine/observer.hpp"
#include "sim/kernel/event_queue.hpp"
#include "sim/step/step_model.hpp"

/// Host work around the forward pass.
struct HostTimes {
  Duration per_step;       // receive, schedule, broadcast
  Duration per_sequence;   // post-processing of one sequence's token
  Duration request_path;   // client to scheduler
  Duration response_path;  // processed token to client
};

/// Conservation counts: in = finished + rejected + running + waiting; pages allocated + free = all.
struct ServerCounts {
  std::int64_t arrived = 0, finished = 0, rejected = 0, retractions = 0;
  std::int64_t passes = 0, decode_passes = 0, dummy_tokens = 0;
  std::int64_t tokens_made = 0;
  std::int64_t pages_total = 0, pages_free_min = 0, pages_free_end = 0;
};

/// One server: queue, scheduler, KV pool and the loop that launches passes. Touches every request
/// in every pass: the reference that faster clocks are held against.
class Server {
 public:
  Server(Simulation& simulation, const StepModel& step, EngineSetup& setup, HostTimes host,
         std::int64_t sparse_top_k);
  void subscribe(Observer& observer) { observers_.push_back(&observer); }

  /// A client sends a request now; it reaches the scheduler after the request path.
  RequestId send(std::int64_t prompt, std::int64_t max_new, std::int64_t output);

  const Request& request(RequestId id) const { return *requests_[static_cast<std::size_t>(id)]; }
  ServerCounts counts() const;
  std::int64_t waiting() const { return static_cast<std::int64_t>(waiting_.size()); }
  std::int64_t running() const { return static_cast<std::int64_t>(running_.size()); }
  std::int64_t free_pages() const { return free_pages_; }

 private:
  struct Member {
    Request* request;
    int epoch;
    bool makes_token;
  };
  struct Pass {
    PassRecord record;
    std::vector<Member> members;
  };

  Request& get(RequestId id) { return *requests_[static_cast<std::size_t>(id)]; }
  void receive(Request& request);
  void wake();
  void iterate();
  void apply(const BatchPlan& plan, Pass& pass);
  void retract(Request& request);
  void allocate(Request& request, std::int64_t tokens);
  void release(Request& request);
  void launch(Pass pass);
  /// Waits for the results of the oldest pass in flight; the host is free at `host_free`.
  void await_oldest(TimePoint host_free);
  void collect(Pass pass);

  Simulation& simulation_;
  const StepModel& step_;
  EngineSetup& setup_;
  HostTimes host_;
  std::int64_t sparse_top_k_;
  std::vector<Observer*> observers_;

  std::vector<std::unique_ptr<Request>> requests_;
  std::deque<const RequestView*> waiting_;
  std::vector<const RequestView*> running_;
  Request* prefilling_ = nullptr;
  std::int64_t free_pages_ = 0;
  ServerCounts counts_;

  bool asleep_ = true;
  bool idle_told_ = false;
  std::deque<Pass> in_flight_;
  TimePoint gpu_free_;
};
