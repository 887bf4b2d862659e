#include "sim/base/statistics.hpp"

#include <algorithm>
#include <cmath>

#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include "sim/base/random.hpp"

TEST_CASE("a percentile lies between its two neighbours, as NumPy's default has it") {
  // np.percentile([1, 2, 3, 4], [0, 25, 50, 99, 100]): place p/100 x 3 between the values
  const std::vector<double> v = {1, 2, 3, 4};
  CHECK(percentile(v, 0) == 1);
  CHECK(percentile(v, 25) == Approx(1.75).epsilon(1e-15));
  CHECK(percentile(v, 50) == Approx(2.5).epsilon(1e-15));
  CHECK(percentile(v, 99) == Approx(3.97).epsilon(1e-15));
  CHECK(percentile(v, 100) == 4);
  // np.percentile([10, 20, 50], 90) = 20 + 0.8 x 30
  CHECK(percentile({10, 20, 50}, 90) == Approx(44).epsilon(1e-15));
  CHECK(percentile({7}, 99) == 7);
  CHECK(percentile({}, 50) == 0);
}

TEST_CASE("percentiles grow with their percent and stay inside the values") {
  CHECK(rc::check("monotone and bounded", [] {
    auto v = *rc::gen::nonEmpty(rc::gen::container<std::vector<double>>(
        rc::gen::map(rc::gen::inRange(-1000, 1000), [](int n) { return n * 0.25; })));
    std::sort(v.begin(), v.end());
    double before = v.front();
    for (int p = 0; p <= 100; ++p) {
      const double here = percentile(v, p);
      RC_ASSERT(here >= before - 1e-9);
      RC_ASSERT(here <= v.back() + 1e-9);
      before = here;
    }
    RC_ASSERT(percentile(v, 0) == v.front());
    RC_ASSERT(percentile(v, 100) == v.back());
    // Every value is the percentile of its own place.
    for (std::size_t i = 0; i < v.size(); ++i) {
      const double p =
          v.size() == 1 ? 50 : 100.0 * static_cast<double>(i) / static_cast<double>(v.size() - 1);
      RC_ASSERT(std::abs(percentile(v, std::min(p, 100.0)) - v[i]) < 1e-6);
    }
  }));
}

TEST_CASE("percentiles of values in any order are those of the sorted ones") {
  CHECK(percentiles({}, std::vector<double>{50, 99}) == std::vector<double>{0, 0});
  CHECK(rc::check("to the last bit", [] {
    // Few values and many, some of them equal, now and then one far from all others.
    const auto n = *rc::gen::inRange<std::size_t>(1, *rc::gen::element(5, 300, 20'000));
    const auto spread = *rc::gen::inRange(1, 2000);
    RandomStream random(*rc::gen::inRange<std::uint64_t>(0, 1u << 30), "values");
    std::vector<double> v;
    for (std::size_t i = 0; i < n; ++i)
      v.push_back(std::floor(random.uniform() * spread) * 0.1 - 3);
    if (*rc::gen::arbitrary<bool>()) v[n / 2] = 1e6;
    const std::vector<double> percents = {0, 1, 50, 50, 90, 99, 99.9, 100};
    const auto got = percentiles(v, percents);
    std::sort(v.begin(), v.end());
    for (std::size_t i = 0; i < percents.size(); ++i)
      RC_ASSERT(got[i] == percentile(v, percents[i]));
  }));
}

TEST_CASE("mean and standard deviation are NumPy's") {
  // np.std([2, 4, 4, 4, 5, 5, 7, 9]) = 2, its mean 5
  const std::vector<double> v = {2, 4, 4, 4, 5, 5, 7, 9};
  CHECK(mean(v) == 5);
  CHECK(standard_deviation(v) == 2);
  CHECK(mean({}) == 0);
  CHECK(standard_deviation({}) == 0);
  CHECK(standard_deviation({3}) == 0);
}

TEST_CASE("shifting values shifts their mean and leaves their spread") {
  CHECK(rc::check("by a constant", [](const std::vector<std::int16_t>& raw, std::int16_t shift) {
    std::vector<double> a, b;
    for (const auto x : raw) a.push_back(x), b.push_back(x + shift);
    if (!a.empty()) RC_ASSERT(std::abs(mean(b) - mean(a) - shift) < 1e-6);
    RC_ASSERT(std::abs(standard_deviation(b) - standard_deviation(a)) < 1e-6);
  }));
}
