#include "models/graph/expert_popularity.hpp"

#include <cmath>

#include <boost/math/distributions/normal.hpp>

#include "sim/base/assert.hpp"

namespace {
// exp and quantiles may differ in their last bits between machines; predictions must not.
double rounded(double p) { return std::round(p * 0x1p40) * 0x1p-40; }

double power(double base, std::int64_t n) {
  double out = 1;
  for (; n > 0; n >>= 1, base *= base)
    if (n & 1) out *= base;
  return out;
}

// Of each expert the probability that one token does not use it.
std::vector<double> misses(int experts, int experts_per_token, double skew) {
  SIM_ASSERT(experts > 0 && experts_per_token > 0 && experts_per_token <= experts && skew >= 0);
  if (experts_per_token == experts)
    return std::vector<double>(static_cast<std::size_t>(experts), 0.0);
  const boost::math::normal standard;
  std::vector<double> weight;
  for (int e = 0; e < experts; ++e)
    weight.push_back(std::exp(skew * boost::math::quantile(standard, (e + 0.5) / experts)));
  // A token uses expert e with probability 1 - exp(-c w_e); c such that it uses top-k of them.
  // The number used is concave in c: Newton's steps from 0 stay below the root and rise to it.
  double c = 0;
  for (int i = 0; i < 100; ++i) {
    double used = 0, slope = 0;
    for (const double w : weight) {
      const double miss = std::exp(-c * w);
      used += 1 - miss;
      slope += w * miss;
    }
    const double next = c + (experts_per_token - used) / slope;
    if (!(next > c)) break;
    c = next;
  }
  std::vector<double> out;
  for (const double w : weight) out.push_back(rounded(std::exp(-c * w)));
  return out;
}

}  // namespace

ExpertPopularity::ExpertPopularity(int experts, int experts_per_token, double skew)
    : skew_(skew),
      miss_(std::make_shared<const std::vector<double>>(misses(experts, experts_per_token, skew))),
      known_(std::make_shared<Known>()) {}

double ExpertPopularity::distinct(std::int64_t tokens) const {
  const std::lock_guard lock(known_->guard);
  const auto [it, fresh] = known_->distinct.try_emplace(tokens);
  if (fresh)
    for (const double m : *miss_) it->second += 1 - power(m, tokens);
  return it->second;
}
