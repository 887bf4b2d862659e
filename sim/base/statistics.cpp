#include "sim/base/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/base/assert.hpp"

namespace {

// Where a percentile lies: between the values of two ranks.
struct Place {
  std::size_t low = 0, high = 0;
  double part = 0;

  Place(double percent, std::size_t values) {
    SIM_ASSERT(percent >= 0 && percent <= 100);
    const double at = percent / 100 * static_cast<double>(values - 1);
    low = static_cast<std::size_t>(at);
    high = low + 1 < values ? low + 1 : low;
    part = at - static_cast<double>(low);
  }
  double between(double a, double b) const { return a + (b - a) * part; }
};

// Percentiles without sorting: values are counted in intervals of equal width, and only those of
// intervals with a rank that is asked for are compared.
class Selection {
 public:
  Selection(std::span<const double> values, std::span<const Place> places)
      : in_or_below_(std::min<std::size_t>(values.size(), 4096)) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    const std::size_t intervals = in_or_below_.size();
    low_ = *low;
    if (*high > low_) per_unit_ = static_cast<double>(intervals) / (*high - low_);
    for (const double v : values) ++in_or_below_[interval(v)];
    std::partial_sum(in_or_below_.begin(), in_or_below_.end(), in_or_below_.begin());
    std::vector<char> wanted(intervals);
    for (const Place& p : places) wanted[of_rank(p.low)] = wanted[of_rank(p.high)] = 1;
    left_out_.resize(intervals);
    for (std::size_t i = 0, below = 0, sum = 0; i < intervals; below = in_or_below_[i++])
      left_out_[i] = sum += wanted[i] ? 0 : in_or_below_[i] - below;
    compared_.reserve(values.size() - left_out_.back());
    for (const double v : values)
      if (wanted[interval(v)]) compared_.push_back(v);
  }

  /// Of places in ascending order.
  double at(const Place& place) {
    const auto nth =
        compared_.begin() + static_cast<std::ptrdiff_t>(place.low - left_out_[of_rank(place.low)]);
    std::nth_element(compared_.begin() + settled_, nth, compared_.end());
    settled_ = nth - compared_.begin();
    return place.between(
        *nth, place.high > place.low ? *std::min_element(nth + 1, compared_.end()) : *nth);
  }

 private:
  std::size_t interval(double v) const {
    return std::min(static_cast<std::size_t>((v - low_) * per_unit_), in_or_below_.size() - 1);
  }
  std::size_t of_rank(std::size_t rank) const {
    return static_cast<std::size_t>(
        std::upper_bound(in_or_below_.begin(), in_or_below_.end(), rank) - in_or_below_.begin());
  }

  double low_ = 0, per_unit_ = 0;
  std::vector<std::size_t> in_or_below_;  // values, by interval
  std::vector<std::size_t> left_out_;     // of them, in intervals that nobody asks for
  std::vector<double> compared_;
  std::ptrdiff_t settled_ = 0;  // so many of them are where they belong
};

}  // namespace

double mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

double percentile(const std::vector<double>& sorted, double percent) {
  if (sorted.empty()) return 0;
  const Place place(percent, sorted.size());
  return place.between(sorted[place.low], sorted[place.high]);
}

std::vector<double> percentiles(std::span<const double> values, std::span<const double> percents) {
  std::vector<double> out(percents.size(), 0);
  if (values.empty()) return out;
  std::vector<Place> places;
  for (const double percent : percents) places.emplace_back(percent, values.size());
  Selection selection(values, places);
  for (std::size_t i = 0; i < places.size(); ++i) out[i] = selection.at(places[i]);
  return out;
}

double standard_deviation(const std::vector<double>& values, double m) {
  double sum = 0;
  for (const double v : values) sum += (v - m) * (v - m);
  return values.empty() ? 0 : std::sqrt(sum / static_cast<double>(values.size()));
}
