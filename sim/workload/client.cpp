#include "sim/workload/client.hpp"

#include "sim/base/assert.hpp"

Client::Client(const WorkloadPlan& plan) : plan_(plan) {
  SIM_ASSERT(plan.source);
  if (plan.warm_up.empty()) begin({});
}

void Client::begin(TimePoint at) {
  clock_ = at;
  source_ = plan_.source();
  has_ahead_ = source_->next(ahead_);
  if (plan_.max_concurrency)
    places_.assign(static_cast<std::size_t>(*plan_.max_concurrency), clock_);
}

Load::Sending Client::next() {
  if (!source_) {
    if (warming_) return {};
    warm_up_ = plan_.warm_up[warmed_up_];
    return {&warm_up_, warm_up_at_, -1};
  }
  Sending out;
  turn_is_next_ = false;
  if (has_ahead_ && !(plan_.max_concurrency && places_.empty())) {
    out = {&ahead_, clock_ + ahead_.send_at, sent_};
    if (plan_.max_concurrency) out.at = std::max(out.at, places_.front());
  }
  if (turns_.empty()) return out;
  const Turn& turn = turns_.top();
  if (out.request && turn.at > out.at) return out;
  turn_is_next_ = true;
  return {&turn_requests_[turn.place], turn.at, sent_};
}

void Client::take() {
  if (!source_) {
    warming_ = true;
    return;
  }
  if (!announced_)
    for (Observer* o : observers_) o->on_clock(clock_);
  announced_ = true;
  ++sent_;
  if (turn_is_next_) {
    free_turns_.push_back(turns_.top().place);
    turns_.pop();
    return;
  }
  SIM_ASSERT(has_ahead_);
  if (plan_.max_concurrency) places_.pop_front();
  has_ahead_ = source_->next(ahead_);
}

bool Client::ended(std::int64_t index, std::int64_t session, TimePoint at_client) {
  if (index < 0) {
    warming_ = false;
    warm_up_at_ = at_client;
    if (++warmed_up_ == plan_.warm_up.size()) begin(at_client + plan_.pause_after_warm_up);
    return true;
  }
  // The next turn of a session keeps its place.
  if (session >= 0) {
    if (free_turns_.empty()) {
      free_turns_.push_back(turn_requests_.size());
      turn_requests_.emplace_back();
    }
    const std::size_t place = free_turns_.back();
    PlannedRequest& turn = turn_requests_[place];
    if (source_->next_turn(session, turn)) {
      free_turns_.pop_back();
      turns_.push({at_client + turn.send_at, turns_made_++, place});
      return turns_.top().place == place;
    }
  }
  if (!plan_.max_concurrency) return false;
  places_.push_back(at_client);
  return true;
}
