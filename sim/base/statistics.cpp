#include "sim/base/statistics.hpp"

#include <cmath>

#include "sim/base/assert.hpp"

double mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

double percentile(const std::vector<double>& sorted, double percent) {
  SIM_ASSERT(percent >= 0 && percent <= 100);
  if (sorted.empty()) return 0;
  const double at = percent / 100 * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const auto high = low + 1 < sorted.size() ? low + 1 : low;
  return sorted[low] + (sorted[high] - sorted[low]) * (at - static_cast<double>(low));
}

double standard_deviation(const std::vector<double>& values) {
  const double m = mean(values);
  double sum = 0;
  for (const double v : values) sum += (v - m) * (v - m);
  return values.empty() ? 0 : std::sqrt(sum / static_cast<double>(values.size()));
}
