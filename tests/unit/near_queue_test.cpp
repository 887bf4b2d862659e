#include "sim/engine/near_queue.hpp"

#include <queue>
#include <vector>

#include <rapidcheck.h>
#include <catch2/catch.hpp>

namespace {

struct Due {
  std::int64_t key = 0;
  int number = 0;
  bool operator==(const Due&) const = default;
};
struct Later {
  bool operator()(const Due& a, const Due& b) const {
    return a.key != b.key ? a.key > b.key : a.number > b.number;
  }
};

}  // namespace

TEST_CASE("a queue of what is near hands out what a priority queue does, near or far") {
  CHECK(rc::check([] {
    NearQueue<Due, Later> ours;
    std::priority_queue<Due, std::vector<Due>, Later> reference;
    const auto pop = [&] {
      RC_ASSERT(ours.top() == reference.top());
      ours.pop();
      reference.pop();
    };
    std::int64_t now = *rc::gen::inRange<std::int64_t>(0, 5000);
    const auto reach = *rc::gen::element<std::int64_t>(3, 70, 1000, 1023, 1024, 4000);
    const int steps = *rc::gen::inRange(1, 300);
    for (int i = 0; i < steps; ++i) {
      if (*rc::gen::inRange(0, 3) > 0) {
        const Due due{now + *rc::gen::inRange<std::int64_t>(0, reach + 1), i};
        ours.push(due, now);
        reference.push(due);
      } else if (!reference.empty()) {
        // The clock goes on, up to the next entry or behind some.
        now = std::max(now, reference.top().key + *rc::gen::inRange<std::int64_t>(-2, 40));
        while (!reference.empty() && reference.top().key <= now) pop();
      }
      RC_ASSERT(ours.empty() == reference.empty());
      if (!reference.empty()) RC_ASSERT(ours.top() == reference.top());
    }
    while (!reference.empty()) pop();
    RC_ASSERT(ours.empty());
  }));
}
