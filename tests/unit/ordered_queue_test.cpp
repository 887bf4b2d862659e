#include "sim/engine/ordered_queue.hpp"

#include <functional>
#include <queue>
#include <vector>

#include <rapidcheck.h>
#include <catch2/catch.hpp>

TEST_CASE("an ordered queue hands out what a priority queue does, in order or not") {
  CHECK(rc::check([](const std::vector<int>& steps, bool mostly_in_order) {
    OrderedQueue<int, std::greater<>> ours;
    std::priority_queue<int, std::vector<int>, std::greater<>> reference;
    int last = 0;
    for (const int step : steps) {
      if (step % 3 == 0 && !reference.empty()) {
        RC_ASSERT(ours.top() == reference.top());
        ours.pop();
        reference.pop();
      } else if (step % 7 == 1) {
        ours.erase_if([](int e) { return e % 5 == 0; });
        std::vector<int> left;
        for (; !reference.empty(); reference.pop())
          if (reference.top() % 5 != 0) left.push_back(reference.top());
        for (const int e : left) reference.push(e);
      } else {
        last = mostly_in_order && step % 4 != 0 ? last + std::abs(step % 10) : step;
        ours.push(last);
        reference.push(last);
      }
      RC_ASSERT(ours.empty() == reference.empty());
      RC_ASSERT(ours.size() == reference.size());
    }
    for (; !reference.empty(); reference.pop(), ours.pop())
      RC_ASSERT(ours.top() == reference.top());
    RC_ASSERT(ours.empty());
  }));
}
