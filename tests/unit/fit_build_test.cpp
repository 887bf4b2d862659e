#include "sim/scenario/fit_build.hpp"

#include <cmath>

#include <catch2/catch.hpp>

namespace {

/// Steps of c requests made of a base, small kernels of 78 layers and experts read at a rate.
double step_us(double c, const TwoNumbers& x) {
  return 4000 + 300 * c + 78 * x.small_kernels_us +
         75 * 2.654e6 * (256 * (1 - std::pow(1 - 1 / 32.0, c))) / x.moe_rate * 1e6;
}

LogErrors rows(const std::vector<double>& sequences, const TwoNumbers& truth,
               const std::vector<double>& noise = {}) {
  return [=](const TwoNumbers& x) {
    std::vector<double> out;
    for (std::size_t i = 0; i < sequences.size(); ++i)
      out.push_back(std::log(step_us(sequences[i], x) / step_us(sequences[i], truth)) -
                    (noise.empty() ? 0 : noise[i]));
    return out;
  };
}

const std::vector<double> usual = {1, 2, 4, 8, 16, 32};

}  // namespace

TEST_CASE("the fit finds the two numbers that made the rows, from any start") {
  for (const TwoNumbers& truth : {TwoNumbers{57, 1.37e12}, {5, 1.7e12}, {120, 0.9e12}})
    for (const TwoNumbers& start : {TwoNumbers{30, 1.2e12}, {0, 0.3e12}, {250, 1.75e12}}) {
      const auto fit = fit_two_numbers(rows(usual, truth), start, {});
      CHECK(fit.numbers.small_kernels_us == Approx(truth.small_kernels_us).epsilon(0.002));
      CHECK(fit.numbers.moe_rate == Approx(truth.moe_rate).epsilon(0.002));
      CHECK_FALSE(fit.small_kernels_at_bound);
      CHECK_FALSE(fit.moe_rate_at_bound);
      for (const double e : fit.errors) CHECK(std::abs(e) < 1e-4);
    }
}

TEST_CASE("noise shows in the spreads, and a left-out row is predicted worse than a fitted one") {
  const std::vector<double> noise = {0.03, -0.04, 0.02, -0.03, 0.04, -0.02};
  const TwoNumbers truth{57, 1.37e12};
  const auto fit = fit_two_numbers(rows(usual, truth, noise), {30, 1.2e12}, {});
  CHECK(fit.small_kernels_spread > 1.01);
  CHECK(fit.moe_rate_spread > 1.01);
  CHECK(truth.moe_rate < fit.numbers.moe_rate * fit.moe_rate_spread);
  CHECK(truth.moe_rate > fit.numbers.moe_rate / fit.moe_rate_spread);
  for (std::size_t i = 0; i < usual.size(); ++i)
    CHECK(std::abs(fit.leave_one_out[i]) >= std::abs(fit.errors[i]));
}

TEST_CASE("a number that the rows push out of its range stops at the end and says so") {
  // Faster than the memory: the rate ends at the bound, the other number is still the best one.
  const auto fast = fit_two_numbers(rows(usual, {57, 2.4e12}), {30, 1.2e12}, {});
  CHECK(fast.moe_rate_at_bound);
  CHECK(fast.numbers.moe_rate == Approx(1.792e12));
  CHECK_FALSE(fast.small_kernels_at_bound);
  double least = 1e9;
  for (double x = 0; x < 100; x += 0.5) {
    double sum = 0;
    for (const double r : rows(usual, {57, 2.4e12})({x, 1.792e12})) sum += r * r;
    least = std::min(least, sum);
  }
  double sum = 0;
  for (const double r : rows(usual, {57, 2.4e12})(fast.numbers)) sum += r * r;
  CHECK(sum <= least + 1e-9);

  const auto none = fit_two_numbers(rows(usual, {-20, 1.3e12}), {30, 1.2e12}, {});
  CHECK(none.small_kernels_at_bound);
  CHECK(none.numbers.small_kernels_us == 0);
}
