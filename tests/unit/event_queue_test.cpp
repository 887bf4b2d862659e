#include "sim/kernel/event_queue.hpp"

#include <algorithm>
#include <functional>
#include <tuple>
#include <vector>

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include "sim/base/quantity.hpp"

namespace {

struct Planned {
  int at = 0;  // ns
  int phase = 0;
  int label = 0;
};

rc::Gen<std::vector<Planned>> plans() {
  // Few moments, so that events collide.
  return rc::gen::map(rc::gen::container<std::vector<std::pair<int, int>>>(
                          rc::gen::pair(rc::gen::inRange(0, 4), rc::gen::inRange(0, 4))),
                      [](const std::vector<std::pair<int, int>>& raw) {
                        std::vector<Planned> out;
                        for (const auto& [at, phase] : raw)
                          out.push_back({at, phase, static_cast<int>(out.size())});
                        return out;
                      });
}

std::vector<Planned> popped(const std::vector<Planned>& in) {
  EventQueue queue;
  std::vector<Planned> out;
  for (const auto& p : in)
    queue.push(TimePoint::at(Duration::picoseconds(p.at * 1000)), static_cast<Phase>(p.phase),
               [&out, p] { out.push_back(p); });
  while (!queue.empty()) {
    const TimePoint next = queue.next_time();
    const auto event = queue.pop();
    RC_ASSERT(event.at == next);
    event.action();
  }
  return out;
}

}  // namespace

TEST_CASE("events come by time, then phase, then insertion") {
  CHECK(rc::check("a stable sort of what went in", [] {
    const auto in = *plans();
    auto expected = in;
    std::stable_sort(expected.begin(), expected.end(), [](const Planned& a, const Planned& b) {
      return std::tie(a.at, a.phase) < std::tie(b.at, b.phase);
    });
    const auto out = popped(in);
    RC_ASSERT(out.size() == in.size());
    for (std::size_t i = 0; i < out.size(); ++i) RC_ASSERT(out[i].label == expected[i].label);
  }));
}

TEST_CASE("events of different times or phases come in one order, however they went in") {
  CHECK(rc::check("any shuffle", [] {
    std::vector<Planned> all;
    for (int at = 0; at < 3; ++at)
      for (int phase = 0; phase < 4; ++phase)
        all.push_back({at, phase, static_cast<int>(all.size())});
    auto shuffled = all;
    for (std::size_t i = shuffled.size(); i > 1; --i)
      std::swap(shuffled[i - 1], shuffled[*rc::gen::inRange<std::size_t>(0, i)]);
    const auto out = popped(shuffled);
    for (std::size_t i = 0; i < out.size(); ++i) RC_ASSERT(out[i].label == static_cast<int>(i));
  }));
}

TEST_CASE("effects come before decisions and decisions before looks") {
  CHECK(Phase::completion < Phase::arrival);
  CHECK(Phase::arrival < Phase::decision);
  CHECK(Phase::decision < Phase::observation);
}

TEST_CASE("the clock follows the events, never goes back and stops at the last") {
  CHECK(rc::check("events that schedule events", [] {
    const auto delays = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 50));
    Simulation simulation;
    std::vector<TimePoint> seen;
    std::size_t next = 0;
    std::int64_t sum = 0;
    std::function<void()> step = [&] {
      seen.push_back(simulation.now());
      if (next == delays.size()) return;
      sum += delays[next];
      simulation.schedule_in(Duration::picoseconds(delays[next++]), Phase::arrival, step);
    };
    simulation.schedule(TimePoint(), Phase::arrival, step);
    simulation.run();
    RC_ASSERT(std::is_sorted(seen.begin(), seen.end()));
    RC_ASSERT(seen.size() == delays.size() + 1);
    RC_ASSERT(simulation.events_run() == seen.size());
    RC_ASSERT(simulation.now().since_start().ps() == sum);
  }));
}

TEST_CASE("an event of the same moment and a later phase runs before time goes on") {
  Simulation simulation;
  std::vector<int> order;
  simulation.schedule(TimePoint::at(5_us), Phase::completion, [&] {
    order.push_back(1);
    simulation.schedule_in(Duration(), Phase::decision, [&] { order.push_back(3); });
    simulation.schedule_in(Duration(), Phase::arrival, [&] { order.push_back(2); });
  });
  simulation.schedule(TimePoint::at(6_us), Phase::completion, [&] { order.push_back(4); });
  simulation.run();
  CHECK(order == std::vector<int>{1, 2, 3, 4});
}
