#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

/// One sample: the replay of a graph of equal launches, per launch, and what the clocks said.
struct Sample {
  double us = 0;
  double sm_clock_mhz = 0;  // 0: not known
  bool throttled = false;   // the SMs ran below three quarters of their clock
  bool stolen = false;      // another process or the host took the GPU or the CPU meanwhile
};

/// Rank interval that holds the median of the sorted samples with 95 %, as half its width over the
/// median; no distribution is assumed (binomial ranks, normal approximation). 1 for fewer than 6.
double median_half_width(const std::vector<double>& sorted);

/// When a point has been sampled enough. Pure.
enum class Stop { go_on, settled, gave_up };
inline constexpr std::size_t samples_min = 15, samples_max = 300;
inline constexpr double measured_s_max = 1.5;
/// `measured_s`: GPU time of the samples so far. Settled once the median is known to 1 % (2 % below
/// 10 us, where events are coarse; 3 % for collectives); gives up at 300 samples or 1.5 s, but
/// never before 15.
Stop stop_rule(const std::vector<double>& samples_us, double measured_s, bool collective);

/// Indices of samples above median + 6 MAD: flagged, never removed from the raw file.
std::vector<std::size_t> outliers(const std::vector<double>& samples_us);

/// What one point's samples come to.
enum class PointState {
  ok,
  noisy,        // the stop rule gave up; the median is kept
  throttled,    // two samples and 5 % of them, or more, at low clocks
  busy,         // as many while something else ran
  unverified,   // the kernel failed its self-check
  unsupported,  // the card or library has no such kernel
  failed,       // anything else, with the reason
};
std::string_view name(PointState state);
bool parse_point_state(std::string_view word, PointState& out);
/// Whether a fit may use it: ok and noisy.
bool fittable(PointState state);

struct Judgement {
  PointState state = PointState::ok;
  double median_us = 0, p10_us = 0, p90_us = 0, half_width = 0;
  std::size_t outliers = 0, dropped = 0;
};
/// Median of the samples. An outlier is dropped from it only when it coincides with throttling or
/// stolen time and fewer than 5 % of the samples do. `samples` must not be empty.
Judgement judge(const std::vector<Sample>& samples, bool settled);
