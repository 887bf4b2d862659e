#include "models/graph/expert_popularity.hpp"

#include <cmath>

#include <rapidcheck.h>
#include <catch2/catch.hpp>

TEST_CASE("under uniform routing m tokens touch 256 (1 - (1 - 8/256)^m) experts") {
  const ExpertPopularity uniform(256, 8, 0);
  for (const int m : {1, 2, 8, 16, 32, 64, 128, 1000})
    CHECK(uniform.distinct(m) == Approx(256 * (1 - std::pow(1 - 8.0 / 256, m))).epsilon(1e-9));
  // As tables print it: 57, 102, 163, 222 at 8, 16, 32, 64 tokens.
  CHECK(std::round(uniform.distinct(8)) == 57);
  CHECK(std::round(uniform.distinct(16)) == 102);
  CHECK(std::round(uniform.distinct(32)) == 163);
  CHECK(std::round(uniform.distinct(64)) == 222);
}

TEST_CASE("a skew of 0.85 touches 53, 89, 136 and 185 of 256 experts at 8, 16, 32 and 64 tokens") {
  const ExpertPopularity p(256, 8, 0.85);
  CHECK(p.distinct(8) == Approx(53).margin(1));
  CHECK(p.distinct(16) == Approx(89).margin(1));
  CHECK(p.distinct(32) == Approx(136).margin(1));
  CHECK(p.distinct(64) == Approx(185).margin(1));
  CHECK(p.skew() == 0.85);
}

TEST_CASE(
    "one token touches exactly its own experts, more tokens never fewer, none more than there "
    "are") {
  CHECK(rc::check("any routing", [] {
    const int experts = *rc::gen::inRange(1, 65), used = *rc::gen::inRange(1, experts + 1);
    const double skew = *rc::gen::inRange(0, 50) * 0.1;
    const ExpertPopularity p(experts, used, skew);
    RC_ASSERT(p.distinct(0) == 0);
    RC_ASSERT(std::abs(p.distinct(1) - used) < 1e-6);
    double before = 0, growth = experts;
    for (std::int64_t m = 1; m <= 64; ++m) {
      const double here = p.distinct(m);
      RC_ASSERT(here >= before);
      RC_ASSERT(here <= experts);
      RC_ASSERT(here <= static_cast<double>(m) * used + 1e-6);
      RC_ASSERT(here - before <= growth + 1e-9);  // each further token finds fewer new ones
      growth = here - before, before = here;
    }
  }));
}

TEST_CASE("with enough tokens every expert is touched") {
  for (const double skew : {0.0, 0.85, 2.0})
    CHECK(ExpertPopularity(256, 8, skew).distinct(10'000'000) == Approx(256).margin(1e-6));
}

TEST_CASE("the more skewed the routing, the fewer experts are touched") {
  for (const int m : {2, 8, 32, 128}) {
    double before = 257;
    for (int s = 0; s <= 20; ++s) {
      const double here = ExpertPopularity(256, 8, s * 0.1).distinct(m);
      CHECK(here <= before + 1e-9);
      before = here;
    }
  }
}
