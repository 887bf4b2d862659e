#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "sim/engine/load.hpp"
#include "sim/engine/observer.hpp"
#include "sim/engine/ordered_queue.hpp"
#include "sim/workload/workload.hpp"

/// Plays a plan: warm-up requests one by one, a pause, then the benchmark, whose clock it
/// announces. Holds no more than the requests that wait for a moment of their own.
class Client final : public Load {
 public:
  explicit Client(const WorkloadPlan& plan);
  void subscribe(Observer& observer) { observers_.push_back(&observer); }

  Sending next() override;
  void take() override;
  bool ended(std::int64_t index, std::int64_t session, TimePoint at_client) override;

 private:
  struct Turn {
    TimePoint at;
    std::int64_t number;  // ties: first come, first served
    std::size_t place;    // in `turn_requests_`
  };
  struct Later {
    bool operator()(const Turn& a, const Turn& b) const {
      return a.at != b.at ? a.at > b.at : a.number > b.number;
    }
  };
  void begin(TimePoint at);

  const WorkloadPlan& plan_;
  std::vector<Observer*> observers_;
  // warm-up
  std::size_t warmed_up_ = 0;
  bool warming_ = false;  // one is under way
  PlannedRequest warm_up_;
  TimePoint warm_up_at_;
  // benchmark
  std::unique_ptr<RequestSource> source_;
  bool announced_ = false;
  TimePoint clock_;
  PlannedRequest ahead_;  // the next one whose time is known beforehand
  bool has_ahead_ = false;
  bool turn_is_next_ = false;  // of what next() said last
  // When the free places behind the semaphore became free, in order.
  std::deque<TimePoint> places_;
  OrderedQueue<Turn, Later> turns_;
  std::deque<PlannedRequest> turn_requests_;
  std::vector<std::size_t> free_turns_;  // places of `turn_requests_`
  std::int64_t turns_made_ = 0, sent_ = 0;
};
