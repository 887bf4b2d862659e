#pragma once

#include <span>
#include <vector>

/// Mean; 0 of nothing.
double mean(const std::vector<double>& values);

/// NumPy's default percentile (linear between the two neighbours); `percent` in 0..100; 0 of
/// nothing. `sorted` must be in ascending order.
double percentile(const std::vector<double>& sorted, double percent);

/// The same of values in any order, for several percents in ascending order, without sorting the
/// values, which must be finite.
std::vector<double> percentiles(std::span<const double> values, std::span<const double> percents);

/// Population standard deviation, as np.std; 0 of nothing. `mean` is theirs.
double standard_deviation(const std::vector<double>& values, double mean);
inline double standard_deviation(const std::vector<double>& values) {
  return standard_deviation(values, mean(values));
}
