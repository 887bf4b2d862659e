#include "models/cost/attention_tail.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "sim/base/assert.hpp"

namespace {

// The longest lengths, descending: as many as can matter, those that still run when too few
// blocks are left to use the bandwidth.
std::vector<double> longest(const KvLengths& kv, std::size_t wanted) {
  std::vector<double> out;
  if (kv.each.empty()) {
    const auto n = static_cast<std::size_t>(kv.count);
    out.assign(std::min(n, wanted), static_cast<double>(kv.max));
    const double others =
        n > 1 ? static_cast<double>(kv.sum - kv.max) / static_cast<double>(n - 1) : 0;
    std::fill(out.begin() + 1, out.end(), others);
    return out;
  }
  std::vector<std::int64_t> sorted(kv.each.begin(), kv.each.end());
  const auto end = sorted.begin() + static_cast<std::ptrdiff_t>(std::min(wanted, sorted.size()));
  std::partial_sort(sorted.begin(), end, sorted.end(), std::greater<>());
  out.assign(sorted.begin(), end);
  return out;
}

// How long the bandwidth is not used up, in us, counted as the time that is lost by it. All is
// measured in tokens that a block has walked since the start, the same for all that run; blocks
// start at `starts` (one per head), and after `last_start` none is left to start.
double idle_us(const std::vector<double>& starts, double last_start,
               const std::vector<double>& descending, const KvWalk& walk, double enough) {
  std::vector<double> ends;
  ends.reserve(starts.size() * descending.size());
  for (const double start : starts)
    for (const double length : descending) ends.push_back(start + length);
  std::sort(ends.begin(), ends.end(), std::greater<>());
  double us = 0;
  for (std::size_t i = 0; i < ends.size() && ends[i] > last_start; ++i) {
    const auto running = static_cast<double>(i + 1);
    if (running >= enough) break;
    const double until = i + 1 < ends.size() ? std::max(ends[i + 1], last_start) : last_start;
    us +=
        (ends[i] - until) * (1 / walk.block_tokens_per_us - running / walk.bandwidth_tokens_per_us);
  }
  return us;
}

}  // namespace

KvLengths KvLengths::of(std::span<const std::int64_t> lengths) {
  KvLengths kv;
  kv.count = static_cast<std::int64_t>(lengths.size());
  kv.sum = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  kv.max = lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
  kv.each = lengths;
  return kv;
}

bool splits_kv(std::int64_t padded_batch, int kv_heads, int sms) {
  return static_cast<double>(padded_batch) * kv_heads < 0.8 * 2 * sms;
}

double kv_tail_ratio(const KvLengths& kv, int kv_heads, const KvWalk& walk) {
  SIM_ASSERT(kv.count >= 0 && kv.sum >= kv.max &&
             kv.sum <= kv.max * std::max<std::int64_t>(kv.count, 1));
  SIM_ASSERT(kv_heads > 0 && walk.sms > 0 && walk.bandwidth_tokens_per_us > 0);
  if (kv.count < 2 || kv.max * kv.count == kv.sum || walk.block_tokens_per_us <= 0) return 1;
  const double enough = walk.bandwidth_tokens_per_us / walk.block_tokens_per_us;
  // The blocks of one sequence use up the bandwidth: no length costs more than its bytes.
  if (enough <= kv_heads) return 1;

  const double n = static_cast<double>(kv.count), mean = kv.mean();
  std::vector<double> starts;
  for (int head = 0; head < kv_heads; ++head)
    starts.push_back(std::max(0.0, ((head + 0.5) * n / walk.sms - 1) * mean));
  const double last_start = std::max(0.0, (kv_heads * n / walk.sms - 1) * mean);

  const auto wanted = static_cast<std::size_t>(enough) + 1;
  const std::vector<double> equal(std::min(static_cast<std::size_t>(kv.count), wanted), mean);
  const double bytes_us = static_cast<double>(kv.sum) * kv_heads / walk.bandwidth_tokens_per_us;
  const double us = bytes_us + idle_us(starts, last_start, longest(kv, wanted), walk, enough);
  const double us_equal = bytes_us + idle_us(starts, last_start, equal, walk, enough);
  return std::clamp(us / us_equal, 1.0, static_cast<double>(kv.max) / mean);
}
