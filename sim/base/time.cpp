#include "sim/base/time.hpp"

#include <cmath>

#include "sim/base/assert.hpp"

Duration Duration::from_seconds(double seconds) {
  const double ps = seconds * 1e12;
  SIM_ASSERT(std::isfinite(ps) && std::abs(ps) < static_cast<double>(max().ps_));
  return Duration(std::llround(ps));
}
