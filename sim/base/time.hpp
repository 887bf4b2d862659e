#pragma once

#include <compare>
#include <cstdint>
#include <limits>

/// A length of time in whole picoseconds; a run may last `max()`, 26 days. Nanoseconds would round
/// a 64-byte flit at 50 GB/s by 22 %, and chunked transfers would add that up.
class Duration {
 public:
  constexpr Duration() = default;
  static constexpr Duration picoseconds(std::int64_t ps) { return Duration(ps); }
  static constexpr Duration max() { return Duration(std::numeric_limits<std::int64_t>::max() / 4); }

  /// The one door from floating point: rounds to whole picoseconds. `seconds` must be finite and
  /// inside the range.
  static Duration from_seconds(double seconds);
  static Duration from_us(double us) { return from_seconds(us * 1e-6); }

  constexpr std::int64_t ps() const { return ps_; }
  constexpr double seconds() const { return static_cast<double>(ps_) * 1e-12; }
  constexpr double ms() const { return static_cast<double>(ps_) * 1e-9; }
  constexpr double us() const { return static_cast<double>(ps_) * 1e-6; }

  /// This duration times a factor, rounded to whole picoseconds.
  Duration scaled(double factor) const { return from_seconds(seconds() * factor); }

  constexpr auto operator<=>(const Duration&) const = default;
  constexpr Duration& operator+=(Duration d) { return ps_ += d.ps_, *this; }
  constexpr Duration& operator-=(Duration d) { return ps_ -= d.ps_, *this; }
  friend constexpr Duration operator+(Duration a, Duration b) { return a += b; }
  friend constexpr Duration operator-(Duration a, Duration b) { return a -= b; }
  friend constexpr Duration operator*(Duration d, std::int64_t n) { return Duration(d.ps_ * n); }
  friend constexpr Duration operator*(std::int64_t n, Duration d) { return d * n; }
  friend constexpr Duration operator/(Duration d, std::int64_t n) { return Duration(d.ps_ / n); }
  /// How many times `b` fits into `a`, as a real number.
  friend constexpr double operator/(Duration a, Duration b) {
    return static_cast<double>(a.ps_) / static_cast<double>(b.ps_);
  }

 private:
  explicit constexpr Duration(std::int64_t ps) : ps_(ps) {}
  std::int64_t ps_ = 0;
};

/// A moment of the simulated clock; the simulation starts at TimePoint{}.
class TimePoint {
 public:
  constexpr TimePoint() = default;
  static constexpr TimePoint at(Duration since_start) { return TimePoint(since_start); }
  static constexpr TimePoint never() { return TimePoint(Duration::max()); }

  constexpr Duration since_start() const { return since_start_; }
  constexpr double seconds() const { return since_start_.seconds(); }

  constexpr auto operator<=>(const TimePoint&) const = default;
  constexpr TimePoint& operator+=(Duration d) { return since_start_ += d, *this; }
  friend constexpr TimePoint operator+(TimePoint t, Duration d) { return t += d; }
  friend constexpr TimePoint operator-(TimePoint t, Duration d) {
    return TimePoint(t.since_start_ - d);
  }
  friend constexpr Duration operator-(TimePoint a, TimePoint b) {
    return a.since_start_ - b.since_start_;
  }

 private:
  explicit constexpr TimePoint(Duration d) : since_start_(d) {}
  Duration since_start_;
};
