#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/base/parallel.hpp"
#include "tests/support/process.hpp"

TEST_CASE("each number is worked on once, whatever the threads") {
  for (const char* threads : {"1", "2", "7", "100"}) {
    const process::Variable set("CEILING_THREADS", threads);
    for (const std::size_t n : {0, 1, 2, 3, 50, 1000}) {
      std::vector<std::atomic<int>> calls(n);
      parallel_for(n, [&](std::size_t i) { ++calls[i]; });
      CHECK(std::all_of(calls.begin(), calls.end(), [](const auto& c) { return c == 1; }));
    }
  }
}

TEST_CASE("of what is thrown the first by number comes out, after all have been called") {
  for (const char* threads : {"1", "4"}) {
    const process::Variable set("CEILING_THREADS", threads);
    std::atomic<int> calls = 0;
    const auto work = [&](std::size_t i) {
      ++calls;
      if (i == 3 || i == 7) throw std::runtime_error(i == 3 ? "three" : "seven");
    };
    CHECK_THROWS_WITH(parallel_for(20, work), "three");
    CHECK(calls == 20);
  }
}

TEST_CASE("CEILING_THREADS says how many, and nonsense in it nothing") {
  const auto own = thread_count();
  CHECK(own >= 1);
  {
    const process::Variable set("CEILING_THREADS", "3");
    CHECK(thread_count() == 3);
  }
  for (const char* nonsense : {"0", "-2", "many", ""}) {
    const process::Variable set("CEILING_THREADS", nonsense);
    CHECK(thread_count() == own);
  }
}
