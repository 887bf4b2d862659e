#pragma once

#include <vector>

/// Mean; 0 of nothing.
double mean(const std::vector<double>& values);

/// NumPy's default percentile (linear between the two neighbours); `percent` in 0..100; 0 of
/// nothing. `sorted` must be in ascending order.
double percentile(const std::vector<double>& sorted, double percent);

/// Population standard deviation, as np.std; 0 of nothing.
double standard_deviation(const std::vector<double>& values);
