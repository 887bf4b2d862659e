#pragma once

#include <compare>
#include <cstdint>

#include "sim/base/time.hpp"

/// A number with a unit. Same-type arithmetic only; the products that mean something are spelt out
/// below, everything else does not compile.
template <class Tag, class Rep>
class Quantity {
 public:
  using rep = Rep;
  constexpr Quantity() = default;
  explicit constexpr Quantity(Rep count) : count_(count) {}
  constexpr Rep count() const { return count_; }
  constexpr double real() const { return static_cast<double>(count_); }

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity q) { return count_ += q.count_, *this; }
  constexpr Quantity& operator-=(Quantity q) { return count_ -= q.count_, *this; }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return a += b; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return a -= b; }
  friend constexpr Quantity operator*(Quantity q, Rep n) { return Quantity(q.count_ * n); }
  friend constexpr Quantity operator*(Rep n, Quantity q) { return q * n; }
  friend constexpr Quantity operator/(Quantity q, Rep n) { return Quantity(q.count_ / n); }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.real() / b.real(); }

 private:
  Rep count_{};
};

using Bytes = Quantity<struct BytesTag, std::int64_t>;
using Tokens = Quantity<struct TokensTag, std::int64_t>;
using Flops = Quantity<struct FlopsTag, double>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag, double>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag, double>;
using BytesPerToken = Quantity<struct BytesPerTokenTag, std::int64_t>;
/// Events per second; infinity is a legal rate (all requests at once).
using PerSecond = Quantity<struct PerSecondTag, double>;
using TokensPerSecond = Quantity<struct TokensPerSecondTag, double>;
/// Of a clock.
using Hertz = Quantity<struct HertzTag, double>;

inline Duration operator/(Bytes b, BytesPerSecond rate) {
  return Duration::from_seconds(b.real() / rate.count());
}
inline Duration operator/(Flops f, FlopsPerSecond rate) {
  return Duration::from_seconds(f.count() / rate.count());
}
constexpr Bytes operator*(Tokens t, BytesPerToken b) { return Bytes(t.count() * b.count()); }

constexpr Bytes operator""_B(unsigned long long n) { return Bytes(static_cast<std::int64_t>(n)); }
constexpr Bytes operator""_KiB(unsigned long long n) {
  return Bytes(static_cast<std::int64_t>(n) << 10);
}
constexpr Bytes operator""_MiB(unsigned long long n) {
  return Bytes(static_cast<std::int64_t>(n) << 20);
}
constexpr BytesPerSecond operator""_GBps(long double n) {
  return BytesPerSecond(static_cast<double>(n) * 1e9);
}
constexpr Duration operator""_us(unsigned long long n) {
  return Duration::picoseconds(static_cast<std::int64_t>(n) * 1'000'000);
}
constexpr Duration operator""_ms(unsigned long long n) {
  return Duration::picoseconds(static_cast<std::int64_t>(n) * 1'000'000'000);
}
