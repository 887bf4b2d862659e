#include "sim/kernel/event_queue.hpp"

#include <algorithm>
#include <tuple>

#include "sim/base/assert.hpp"

namespace {
// std heaps keep the largest in front: "later" makes the earliest event the front.
bool later(const EventQueue::Event& a, const EventQueue::Event& b) {
  return std::tie(a.at, a.phase, a.number) > std::tie(b.at, b.phase, b.number);
}
}  // namespace

void EventQueue::push(TimePoint at, Phase phase, Action action) {
  heap_.push_back({at, phase, pushed_++, std::move(action)});
  std::push_heap(heap_.begin(), heap_.end(), later);
}

TimePoint EventQueue::next_time() const {
  SIM_ASSERT(!heap_.empty());
  return heap_.front().at;
}

EventQueue::Event EventQueue::pop() {
  SIM_ASSERT(!heap_.empty());
  std::pop_heap(heap_.begin(), heap_.end(), later);
  Event event = std::move(heap_.back());
  heap_.pop_back();
  return event;
}

void Simulation::schedule(TimePoint at, Phase phase, EventQueue::Action action) {
  SIM_ASSERT(at >= now_);
  queue_.push(at, phase, std::move(action));
}

bool Simulation::run() {
  while (!queue_.empty()) {
    auto event = queue_.pop();
    SIM_ASSERT(event.at >= now_);
    now_ = event.at;
    ++events_run_;
    event.action();
    if (now_ > TimePoint::never()) return false;
  }
  return true;
}
