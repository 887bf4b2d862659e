#pragma once

#include <array>
#include <cmath>
#include <cstdint>

/// CPU references of the number formats of NVFP4, for checking kernels. Plain C++17, so that a .cu
/// may include it.
namespace reference {

/// E2M1 (OCP MX 1.0, 2023): a sign and one of 0, 0.5, 1, 1.5, 2, 3, 4, 6. `code`: the low 4 bits.
inline double from_e2m1(std::uint8_t code) {
  constexpr double values[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return (code & 8) ? -values[code & 7] : values[code & 7];
}

/// The nearest E2M1 code, ties to the even one, as cvt.rn.satfinite does; beyond 6 is 6. A value
/// that rounds to zero keeps its sign. NaN becomes 6 (PTX ISA, cvt: satfinite).
inline std::uint8_t to_e2m1(double value) {
  if (std::isnan(value)) return 7;
  const double size = std::fabs(value);
  std::uint8_t code = 0;
  while (code < 7) {
    const double middle = (from_e2m1(code) + from_e2m1(static_cast<std::uint8_t>(code + 1))) / 2;
    if (size < middle || (size == middle && code % 2 == 0)) break;
    ++code;
  }
  return static_cast<std::uint8_t>(std::signbit(value) ? code | 8 : code);
}

/// UE4M3, the block scale of NVFP4: E4M3 (bias 7, no infinity) whose sign bit is ignored; 0x7f is
/// NaN, the largest is 448, the least 2^-9.
inline double from_ue4m3(std::uint8_t code) {
  const int exponent = (code >> 3) & 15, mantissa = code & 7;
  if (exponent == 15 && mantissa == 7) return std::nan("");
  return exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
}

/// E4M3 of FP8, sign included: 0x7f and 0xff are NaN.
inline double from_e4m3(std::uint8_t code) {
  const double size = from_ue4m3(code & 0x7f);
  return code & 0x80 ? -size : size;
}

/// The nearest UE4M3 code of a value from 0 up, ties to even, at most 448. NaN and negatives give
/// the code of NaN.
inline std::uint8_t to_ue4m3(double value) {
  if (!(value >= 0)) return 0x7f;
  if (value >= 448) return 0x7e;
  std::uint8_t low = 0;  // codes rise with their values
  while (from_ue4m3(static_cast<std::uint8_t>(low + 1)) <= value) ++low;
  const double middle = (from_ue4m3(low) + from_ue4m3(static_cast<std::uint8_t>(low + 1))) / 2;
  return static_cast<std::uint8_t>(value > middle || (value == middle && low % 2 == 1) ? low + 1
                                                                                       : low);
}

/// Where the scale of row `row` and block `block` (16 elements of K) lies in the layout that
/// cuBLASLt's VEC16_UE4M3 and the tensor cores read: tiles of 128 rows x 4 blocks, 512 bytes each,
/// in which rows 0, 32, 64 and 96 share 16 bytes. `blocks`: of a row, before padding to 4.
/// Source: cuBLAS 13.1, "1D block scaling factors layout".
inline std::int64_t swizzled_scale(std::int64_t row, std::int64_t block, std::int64_t blocks) {
  const std::int64_t tiles = (blocks + 3) / 4;
  const std::int64_t tile = row / 128 * tiles + block / 4;
  return tile * 512 + row % 32 * 16 + row % 128 / 32 * 4 + block % 4;
}
/// Bytes of all scales in that layout: rows padded to 128, blocks to 4.
inline std::int64_t swizzled_scale_bytes(std::int64_t rows, std::int64_t blocks) {
  return (rows + 127) / 128 * 128 * ((blocks + 3) / 4 * 4);
}

}  // namespace reference
