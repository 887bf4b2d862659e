#include "calibrate/measure/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "sim/base/assert.hpp"
#include "sim/base/statistics.hpp"

namespace {

constexpr double share_max = 0.05;

std::vector<double> sorted(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values;
}

constexpr std::pair<PointState, std::string_view> states[] = {
    {PointState::ok, "ok"},
    {PointState::noisy, "noisy"},
    {PointState::throttled, "throttled"},
    {PointState::busy, "busy"},
    {PointState::unverified, "unverified"},
    {PointState::unsupported, "unsupported"},
    {PointState::failed, "failed"}};

}  // namespace

double median_half_width(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  if (values.size() < 6) return 1;
  const double spread = 1.96 * std::sqrt(n) / 2;  // of the count below the median
  const auto low = static_cast<std::size_t>(std::max(0.0, std::floor(n / 2 - spread)));
  const auto high =
      std::min(values.size() - 1, static_cast<std::size_t>(std::ceil(n / 2 + spread)));
  const double median = percentile(values, 50);
  return median > 0 ? (values[high] - values[low]) / 2 / median : 1;
}

Stop stop_rule(const std::vector<double>& samples_us, double measured_s, bool collective) {
  if (samples_us.size() < samples_min) return Stop::go_on;
  const auto values = sorted(samples_us);
  const double wanted = collective ? 0.03 : percentile(values, 50) < 10 ? 0.02 : 0.01;
  if (median_half_width(values) <= wanted) return Stop::settled;
  return samples_us.size() >= samples_max || measured_s >= measured_s_max ? Stop::gave_up
                                                                          : Stop::go_on;
}

std::vector<std::size_t> outliers(const std::vector<double>& samples_us) {
  const double median = percentile(sorted(samples_us), 50);
  std::vector<double> deviations;
  for (const double us : samples_us) deviations.push_back(std::abs(us - median));
  const double limit = median + 6 * percentile(sorted(std::move(deviations)), 50);
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < samples_us.size(); ++i)
    if (samples_us[i] > limit) out.push_back(i);
  return out;
}

std::string_view name(PointState state) { return states[static_cast<std::size_t>(state)].second; }

bool parse_point_state(std::string_view word, PointState& out) {
  for (const auto& [state, text] : states)
    if (text == word) return out = state, true;
  return false;
}

bool fittable(PointState state) { return state == PointState::ok || state == PointState::noisy; }

Judgement judge(const std::vector<Sample>& samples, bool settled) {
  SIM_ASSERT(!samples.empty());
  const auto n = static_cast<double>(samples.size());
  std::vector<double> all;
  double throttled = 0, stolen = 0;
  for (const auto& s : samples) {
    all.push_back(s.us);
    throttled += s.throttled;
    stolen += s.stolen;
  }
  const auto flagged = outliers(all);
  std::vector<std::size_t> excused;
  std::copy_if(flagged.begin(), flagged.end(), std::back_inserter(excused),
               [&](std::size_t i) { return samples[i].throttled || samples[i].stolen; });
  Judgement out;
  out.outliers = flagged.size();
  if (static_cast<double>(excused.size()) < share_max * n) {
    out.dropped = excused.size();
    for (auto i = excused.rbegin(); i != excused.rend(); ++i)
      all.erase(all.begin() + static_cast<std::ptrdiff_t>(*i));
  }
  std::sort(all.begin(), all.end());
  out.median_us = percentile(all, 50);
  out.p10_us = percentile(all, 10);
  out.p90_us = percentile(all, 90);
  out.half_width = median_half_width(all);
  // one of fifteen samples is more than 5 % and no episode
  const auto often = [&](double count) { return count >= 2 && count >= share_max * n; };
  out.state = often(throttled) ? PointState::throttled
              : often(stolen)  ? PointState::busy
              : settled        ? PointState::ok
                               : PointState::noisy;
  return out;
}
