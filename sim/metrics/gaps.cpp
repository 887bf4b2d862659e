#include "sim/metrics/gaps.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "sim/base/assert.hpp"

namespace {

constexpr double ms(std::int64_t ps) { return static_cast<double>(ps) * 1e-9; }

constexpr std::size_t bucket_count = 57 * 128;

// Bucket of a time: its octave and the next 7 bits.
std::size_t bucket_of(std::int64_t ps) {
  if (ps < 128) return static_cast<std::size_t>(std::max<std::int64_t>(ps, 0));
  const int shift = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(ps))) - 8;
  return static_cast<std::size_t>((shift + 1) * 128 + ((ps >> shift) - 128));
}
std::int64_t lower_end(std::size_t bucket) {
  const auto b = static_cast<std::int64_t>(bucket);
  return b < 128 ? b : (128 + b % 128) << (b / 128 - 1);
}

}  // namespace

void GapHistogram::clear() { *this = {}; }

inline void GapHistogram::bucket(std::int64_t ps, std::int64_t weight) {
  buckets_[bucket_of(ps)] += weight;
}

inline void GapHistogram::one(std::int64_t ps, std::int64_t weight) {
  if (!buckets_.empty())
    bucket(ps, weight);
  else if (!exact_.empty() && exact_.back().first == ps)
    exact_.back().second += weight;
  else
    another(ps, weight);
}

[[gnu::noinline]] void GapHistogram::another(std::int64_t ps, std::int64_t weight) {
  if (exact_.size() < 2 * exact_most || make_room())
    exact_.emplace_back(ps, weight);
  else
    bucket(ps, weight);
}

// Equal gaps become one. With more than `exact_most` different ones the list counts as full.
bool GapHistogram::make_room() {
  std::sort(exact_.begin(), exact_.end());
  std::vector<std::pair<std::int64_t, std::int64_t>> merged;
  for (const auto& [value, weight] : exact_)
    if (!merged.empty() && merged.back().first == value)
      merged.back().second += weight;
    else
      merged.emplace_back(value, weight);
  exact_ = std::move(merged);
  if (exact_.size() <= exact_most) return true;
  buckets_.resize(bucket_count);
  for (const auto& [value, weight] : exact_) bucket(value, weight);
  exact_.clear();
  exact_.shrink_to_fit();
  return false;
}

void GapHistogram::add(Duration gap, Duration step, std::int64_t n, std::int64_t weight) {
  if (n <= 0 || weight <= 0) return;
  count_ += n * weight;
  if (n > 1 && step != Duration()) return rising(gap, step, n, weight);
  const double a = gap.ms(), m = static_cast<double>(n), w = static_cast<double>(weight);
  sum_ms_ += w * (m * a);
  squares_ms_ += w * (m * a * a);
  one(gap.ps(), n * weight);
}

[[gnu::noinline]] void GapHistogram::rising(Duration gap, Duration step, std::int64_t n,
                                            std::int64_t weight) {
  const double a = gap.ms(), d = step.ms(), m = static_cast<double>(n),
               w = static_cast<double>(weight);
  sum_ms_ += w * (m * a + d * m * (m - 1) / 2);
  squares_ms_ += w * (m * a * a + a * d * m * (m - 1) + d * d * (m - 1) * m * (2 * m - 1) / 6);
  for (std::int64_t k = 0; k < n;) {
    const std::int64_t value = gap.ps() + k * step.ps();
    // Of a long run in buckets, all that fall into one at once.
    std::int64_t together = 1;
    if (!buckets_.empty() && step.ps() > 0)
      together = std::clamp<std::int64_t>(
          (lower_end(bucket_of(value) + 1) - 1 - value) / step.ps() + 1, 1, n - k);
    one(value, together * weight);
    k += together;
  }
}

double GapHistogram::mean_ms() const {
  return count_ > 0 ? sum_ms_ / static_cast<double>(count_) : 0;
}

double GapHistogram::std_dev_ms() const {
  if (count_ == 0) return 0;
  const double m = mean_ms();
  return std::sqrt(std::max(0.0, squares_ms_ / static_cast<double>(count_) - m * m));
}

std::vector<double> GapHistogram::percentiles_ms(const std::vector<double>& q) const {
  std::vector<double> out(q.size(), 0);
  if (count_ == 0) return out;
  std::vector<std::int64_t> up_to = buckets_;  // gaps in this bucket and those below
  if (up_to.empty()) {
    up_to.resize(bucket_count);
    for (const auto& [value, weight] : exact_) up_to[bucket_of(value)] += weight;
  }
  std::partial_sum(up_to.begin(), up_to.end(), up_to.begin());
  // Of exact gaps only those are sorted that share a bucket with a wanted one.
  std::size_t sorted_bucket = bucket_count;
  std::vector<std::pair<std::int64_t, std::int64_t>> sorted;
  const auto at = [&](std::int64_t index) {
    const auto b = static_cast<std::size_t>(std::upper_bound(up_to.begin(), up_to.end(), index) -
                                            up_to.begin());
    const std::int64_t from = lower_end(b), to = lower_end(b + 1);
    if (!buckets_.empty()) return (ms(from) + ms(to)) / 2;
    if (b != sorted_bucket) {
      sorted.clear();
      for (const auto& entry : exact_)
        if (entry.first >= from && entry.first < to) sorted.push_back(entry);
      std::sort(sorted.begin(), sorted.end());
      sorted_bucket = b;
    }
    std::int64_t before = b > 0 ? up_to[b - 1] : 0;
    for (const auto& [value, weight] : sorted)
      if ((before += weight) > index) return ms(value);
    SIM_UNREACHABLE("a bucket weighs what its gaps do");
  };
  for (std::size_t i = 0; i < q.size(); ++i) {
    const double position = q[i] / 100 * static_cast<double>(count_ - 1);
    const auto low = static_cast<std::int64_t>(position);
    const double a = at(low);
    const double b = at(std::min(low + 1, count_ - 1));
    out[i] = a + (b - a) * (position - static_cast<double>(low));
  }
  return out;
}
