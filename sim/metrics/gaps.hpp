#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/base/time.hpp"

/// Weighted times between tokens: their mean and percentiles. Exact while there are few different
/// ones (65,536); beyond that percentiles come from 128 buckets per octave, to 0.4 %.
class GapHistogram {
 public:
  /// `n` gaps in a row, the first `gap`, each next one `step` longer, each of `weight` requests.
  void add(Duration gap, Duration step, std::int64_t n, std::int64_t weight);
  void clear();

  std::int64_t count() const { return count_; }
  double mean_ms() const;
  double std_dev_ms() const;
  /// Percentiles as numpy's, linear between the two nearest. `q` in percent, ascending.
  std::vector<double> percentiles_ms(const std::vector<double>& q) const;

 private:
  static constexpr std::size_t exact_most = 65'536;
  void one(std::int64_t ps, std::int64_t weight);
  void another(std::int64_t ps, std::int64_t weight);  // exact, unless there are too many
  void rising(Duration gap, Duration step, std::int64_t n, std::int64_t weight);
  /// Room for another exact gap; false when from now on there are only buckets.
  bool make_room();
  void bucket(std::int64_t ps, std::int64_t weight);

  std::vector<std::pair<std::int64_t, std::int64_t>> exact_;  // value, weight
  std::vector<std::int64_t> buckets_;
  std::int64_t count_ = 0;
  double sum_ms_ = 0, squares_ms_ = 0;
};
