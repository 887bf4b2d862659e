#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

/// bfloat16 and what kernels with it are compared by.
namespace reference {

inline double from_bf16(std::uint16_t code) {
  const std::uint32_t bits = static_cast<std::uint32_t>(code) << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return static_cast<double>(value);
}
/// The nearest code, ties to the even one; finite numbers only.
inline std::uint16_t to_bf16(double value) {
  const auto single = static_cast<float>(value);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &single, sizeof bits);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline double rounded_to_bf16(double value) { return from_bf16(to_bf16(value)); }

/// How far `got` lies from `want`, as a share of the length of `want`: what a wrong index makes
/// about 1 and rounding about 1/256. Not a number counts as infinitely far.
inline double distance(const std::vector<double>& got, const std::vector<double>& want) {
  double apart = 0, length = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double d = (i < got.size() ? got[i] : 0) - want[i];
    apart += d * d;
    length += want[i] * want[i];
  }
  const double out = std::sqrt(apart / length);
  return std::isnan(out) || got.size() != want.size() ? INFINITY : out;
}

}  // namespace reference
