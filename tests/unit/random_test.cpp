#include "sim/base/random.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <rapidcheck.h>
#include <catch2/catch.hpp>

TEST_CASE("NumPy's legacy generator is std::mt19937 with the same seed") {
  CHECK(rc::check("2,000 outputs", [](std::uint32_t seed) {
    NumpyLegacyRandom ours(seed);
    std::mt19937 reference(seed);
    for (int i = 0; i < 2000; ++i) RC_ASSERT(ours.next_u32() == reference());
  }));
}

TEST_CASE("the ten thousandth output of seed 5489 is the one the C++ standard prints") {
  NumpyLegacyRandom random(5489);
  for (int i = 1; i < 10000; ++i) random.next_u32();
  CHECK(random.next_u32() == 4123659995U);  // [rand.predef]
}

TEST_CASE("randint draws NumPy's numbers, by masked rejection") {
  // NumPy 1.24: np.random.seed(1); np.random.randint(512, 1025, 6); np.random.randint(1, 1025, 4)
  NumpyLegacyRandom random(1);
  for (const int expected : {549, 747, 584, 656, 641, 1020})
    CHECK(random.randint(512, 1025) == expected);
  for (const int expected : {391, 282, 179, 277}) CHECK(random.randint(1, 1025) == expected);
}

TEST_CASE("random draws NumPy's numbers") {
  // NumPy's tutorial: np.random.seed(1); np.random.rand(4)
  NumpyLegacyRandom random(1);
  CHECK(random.random() == Approx(4.17022005e-01).epsilon(1e-8));
  CHECK(random.random() == Approx(7.20324493e-01).epsilon(1e-8));
  CHECK(random.random() == Approx(1.14374817e-04).epsilon(1e-8));
  CHECK(random.random() == Approx(3.02332573e-01).epsilon(1e-8));
}

TEST_CASE("exponential is minus the logarithm of one minus random") {
  // -ln(1 - 0.417022005) = 0.539605836, from the first number of seed 1
  NumpyLegacyRandom a(1), b(1);
  CHECK(a.exponential(1) == Approx(0.539605836).epsilon(1e-7));
  b.random();
  for (int i = 0; i < 100; ++i) CHECK(a.exponential(0.5) == -std::log(1.0 - b.random()) * 0.5);
}

TEST_CASE(
    "randint stays in its range, reaches both ends and draws nothing when there is no choice") {
  CHECK(rc::check("in [low, high)", [](std::uint32_t seed) {
    const auto low = *rc::gen::inRange<std::int64_t>(-1000, 1000);
    const auto span = *rc::gen::inRange<std::int64_t>(1, 9);
    NumpyLegacyRandom random(seed);
    std::int64_t least = low + span, most = low - 1;
    for (int i = 0; i < 400; ++i) {
      const auto value = random.randint(low, low + span);
      least = std::min(least, value), most = std::max(most, value);
    }
    RC_ASSERT(least == low);  // missed with probability (7/8)^400, one in 10^23
    RC_ASSERT(most == low + span - 1);
  }));
  NumpyLegacyRandom drawn(7), untouched(7);
  CHECK(drawn.randint(5, 6) == 5);
  CHECK(drawn.next_u32() == untouched.next_u32());
}

TEST_CASE("a named stream depends on its seed and name, not on when it was made or what else was") {
  CHECK(rc::check("any order of making and drawing", [](std::uint64_t seed) {
    std::map<std::string, std::vector<std::uint64_t>> alone;
    for (const char* name : {"arrivals", "lengths", "routing"}) {
      RandomStream stream(seed, name);
      for (int i = 0; i < 20; ++i) alone[name].push_back(stream.next());
    }
    std::map<std::string, RandomStream> together;
    for (const char* name : {"routing", "arrivals", "lengths"})
      together.emplace(name, RandomStream(seed, name));
    const auto order = *rc::gen::container<std::vector<std::string>>(
        rc::gen::element<std::string>("arrivals", "lengths", "routing"));
    std::map<std::string, std::size_t> drawn;
    for (const auto& name : order) {
      const std::size_t i = drawn[name]++;
      const auto value = together.at(name).next();
      if (i < 20) RC_ASSERT(value == alone[name][i]);
    }
  }));
}

TEST_CASE("streams of different names or seeds differ") {
  std::vector<std::uint64_t> firsts;
  for (std::uint64_t seed = 0; seed < 100; ++seed)
    for (const char* name : {"", "a", "b", "ab", "ba", "arrivals", "lengths"})
      firsts.push_back(RandomStream(seed, name).next());
  std::sort(firsts.begin(), firsts.end());
  CHECK(std::adjacent_find(firsts.begin(), firsts.end()) == firsts.end());
}

TEST_CASE("uniform fills [0, 1) evenly, and two streams do not move together") {
  RandomStream a(1, "arrivals"), b(1, "lengths");
  double sum = 0, squares = 0, products = 0;
  constexpr int n = 10000;
  for (int i = 0; i < n; ++i) {
    const double u = a.uniform(), v = b.uniform();
    REQUIRE(u >= 0);
    REQUIRE(u < 1);
    sum += u, squares += u * u, products += (u - 0.5) * (v - 0.5);
  }
  // Five standard deviations: sqrt(1/12/n), sqrt(4/45/n), 1/12/sqrt(n).
  CHECK(sum / n == Approx(0.5).margin(5 * 0.00289));
  CHECK(squares / n == Approx(1.0 / 3).margin(5 * 0.00298));
  CHECK(products / n == Approx(0).margin(5 * 0.00083));
}
