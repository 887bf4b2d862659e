#include "sim/base/random.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
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

namespace {

void check_all(const std::vector<double>& expected, const std::function<double()>& draw) {
  for (const double e : expected) CHECK(draw() == Approx(e).epsilon(1e-14));
}

}  // namespace

TEST_CASE("legacy normals are NumPy's, two at a time") {
  // NumPy 1.24.2: np.random.seed(0); np.random.standard_normal(6)
  NumpyLegacyRandom random(0);
  check_all({1.764052345967664, 0.4001572083672233, 0.9787379841057392, 2.240893199201458,
             1.8675579901499675, -0.977277879876411},
            [&] { return random.normal(); });
}

TEST_CASE("legacy gammas are NumPy's, for shapes below, at and above one") {
  // NumPy 1.24.2: np.random.seed(0); [np.random.gamma(s, 1 / (4 * s)) for _ in range(6)]
  const std::map<double, std::vector<double>> first = {
      {0.25,
       {0.09071918829878774, 0.13200410192278483, 0.032214286927961876, 0.03666557364132632,
        2.3049452121728047, 0.4007644953521314}},
      {0.5,
       {0.1520009448803522, 0.18913586003390778, 0.0897416945014438, 0.09574128373033014,
        0.43980426984059784, 0.16424635356089415}},
      {1.0,
       {0.1989686270407775, 0.31398269074145946, 0.2308057864510172, 0.19680028807931768,
        0.1377621227738748, 0.25953982373590234}},
      {2.0,
       {0.6423536970425305, 0.2798101139740668, 0.6783915342998432, 0.08707330556936792,
        0.1921164412344958, 0.2818662533276526}},
      {10.0,
       {0.4063503752872416, 0.2741236135488651, 0.4178330986904459, 0.17338562398176185,
        0.23373211229110924, 0.2750072736140489}}};
  for (const auto& [shape, expected] : first) {
    INFO("shape " << shape);
    NumpyLegacyRandom random(0);
    check_all(expected, [&, s = shape] { return random.gamma(s, 1 / (4 * s)); });
  }
  // And in step after 100,000 draws: np.random.seed(7), scale 1; the last two, then random().
  const std::map<double, std::vector<double>> last = {
      {0.25, {0.011205283730039862, 0.3636277357041991, 0.6867850713453564}},
      {0.5, {0.0017146117593462417, 0.18979555949476878, 0.6076244573649346}},
      {1.0, {1.3582747762316483, 0.4433125433238252, 0.9993409873373731}},
      {2.0, {1.0404107646112464, 1.3833086196538267, 0.000604615215160309}},
      {10.0, {10.925999764934504, 7.357626919876704, 0.805091442603134}}};
  for (const auto& [shape, expected] : last) {
    INFO("shape " << shape);
    NumpyLegacyRandom random(7);
    for (int i = 0; i < 99'998; ++i) random.gamma(shape, 1);
    CHECK(random.gamma(shape, 1) == Approx(expected[0]).epsilon(1e-13));
    CHECK(random.gamma(shape, 1) == Approx(expected[1]).epsilon(1e-13));
    CHECK(random.random() == expected[2]);
  }
}

TEST_CASE("PCG64 gives the bits of NumPy's default_rng, for seeds of one word and of two") {
  // NumPy 1.24.2: np.random.default_rng(seed).bit_generator.random_raw(n)
  const std::map<std::uint64_t, std::vector<std::uint64_t>> raw = {
      {0,
       {11749869230777074271ULL, 4976686463289251617ULL, 755828109848996024ULL,
        304881062738325533ULL, 15002187965291974971ULL, 16837368535893154894ULL}},
      {0xdeadbeaf, {6976709506054620824ULL, 15413461463673491218ULL, 15155904877991548802ULL}},
      {(std::uint64_t{1} << 40) + 7,
       {15307346044642009514ULL, 4709548916763817589ULL, 2836937976252648324ULL}}};
  for (const auto& [seed, outputs] : raw) {
    NumpyGenerator random(seed);
    for (const auto output : outputs) CHECK(random.next_u64() == output);
  }
}

TEST_CASE("integers of default_rng are NumPy's, and the upper half of an output waits") {
  // NumPy 1.24.2: default_rng(0).integers(0, 1000, 10); default_rng(7).integers(100, 300, 8)
  NumpyGenerator a(0), b(7);
  for (const int e : {850, 636, 511, 269, 307, 40, 75, 16, 175, 813})
    CHECK(a.integers(0, 1000) == e);
  for (const int e : {288, 225, 236, 279, 215, 255, 266, 145}) CHECK(b.integers(100, 300) == e);
  // g = default_rng(0); g.integers(922, 1127, 5); g.integers(115, 142, 5); g.integers(0, 128256, 5)
  NumpyGenerator c(0);
  for (const int e : {1096, 1052, 1026, 977, 985}) CHECK(c.integers(922, 1127) == e);
  for (const int e : {116, 117, 115, 119, 136}) CHECK(c.integers(115, 142) == e);
  for (const int e : {83291, 117066, 64593, 77804, 124503}) CHECK(c.integers(0, 128256) == e);
  // g = default_rng(0); g.integers(5, 6, 3) draws nothing; g.integers(0, 10, 3)
  NumpyGenerator d(0);
  for (const int e : {5, 5, 5}) CHECK(d.integers(5, 6) == e);
  for (const int e : {8, 6, 5}) CHECK(d.integers(0, 10) == e);
}

TEST_CASE("integers of default_rng stay in their range and reach both ends") {
  CHECK(rc::check("in [low, high)", [](std::uint64_t seed) {
    const auto low = *rc::gen::inRange<std::int64_t>(-1000, 1000);
    const auto span = *rc::gen::inRange<std::int64_t>(1, 9);
    NumpyGenerator random(seed);
    std::int64_t least = low + span, most = low - 1;
    for (int i = 0; i < 400; ++i) {
      const auto value = random.integers(low, low + span);
      least = std::min(least, value), most = std::max(most, value);
    }
    RC_ASSERT(least == low);  // missed with probability (7/8)^400, one in 10^23
    RC_ASSERT(most == low + span - 1);
  }));
}

TEST_CASE("shuffle, random and _randbelow are Python's") {
  // Python 3.11: random.seed(seed); l = list(range(10)); random.shuffle(l); random.random();
  // [random._inst._randbelow(n) for n in (1, 2, 1000, 2**31)]
  struct Case {
    std::uint64_t seed;
    std::vector<int> shuffled;
    double random;
    std::vector<std::uint32_t> below;
  };
  for (const Case& c :
       {Case{0, {7, 8, 1, 5, 3, 4, 2, 0, 9, 6}, 0.3580493746949883, {0, 0, 288, 600203567}},
        Case{1, {6, 8, 9, 7, 5, 3, 0, 4, 1, 2}, 0.7887233511355132, {0, 1, 29, 1674216077}},
        Case{42, {7, 3, 2, 8, 5, 6, 9, 4, 0, 1}, 0.5904925124490397, {0, 0, 95, 939042955}},
        // a seed of two words, 2**32 + 5
        Case{4294967301,
             {5, 3, 6, 1, 9, 0, 8, 4, 7, 2},
             0.730313467639963,
             {0, 1, 750, 846664313}}}) {
    INFO("seed " << c.seed);
    PythonRandom random(c.seed);
    std::vector<int> list(10);
    std::iota(list.begin(), list.end(), 0);
    random.shuffle(list);
    CHECK(list == c.shuffled);
    CHECK(random.random() == c.random);
    for (std::size_t i = 0; i < 4; ++i)
      CHECK(random.below(std::vector<std::uint64_t>{1, 2, 1000, 1ULL << 31}[i]) == c.below[i]);
  }
}

TEST_CASE("a shuffle keeps what it shuffles") {
  CHECK(rc::check("a permutation", [](std::uint64_t seed, std::vector<int> list) {
    auto shuffled = list;
    PythonRandom(seed).shuffle(shuffled);
    std::sort(list.begin(), list.end());
    std::sort(shuffled.begin(), shuffled.end());
    RC_ASSERT(list == shuffled);
  }));
}

TEST_CASE("a numbered stream is the one of its whole name") {
  for (const std::int64_t number : {std::int64_t{0}, std::int64_t{7}, std::int64_t{-30},
                                    std::int64_t{9'223'372'036'854'775'807}}) {
    RandomStream numbered = RandomStreams(3, "session ")[number],
                 named(3, "session " + std::to_string(number));
    for (int i = 0; i < 10; ++i) CHECK(numbered.next() == named.next());
  }
}
