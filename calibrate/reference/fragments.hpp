#pragma once

#include <cstdint>

/// Which lane of a warp holds which element of a tensor core instruction: PTX ISA 9.0, "Matrix
/// fragments for mma.m16n8k16 with floating point type", "... for mma.m16n8k64" and "Warp-level
/// block scaling". A kernel and its CPU emulation read the same functions. Plain C++17, so that a
/// .cu may include it.

#ifdef __CUDACC__
#define CEILING_HD __host__ __device__
#else
#define CEILING_HD
#endif

namespace fragments {

/// Row and column of an element in its matrix: A is m x k, B is k x n, C is m x n.
struct Place {
  int row, column;
};

/// All walk 32 bytes of K: 16 bf16, 32 e4m3 or 64 e2m1 numbers. A lane holds four registers of
/// A and two of B, of 4 bytes each; element `i` of a lane counts through them.
template <int bits>
struct Operands {
  static constexpr int per_register = 32 / bits;  // elements
  static constexpr int k = 8 * per_register;
  static constexpr int a_elements = 4 * per_register, b_elements = 2 * per_register;

  /// Registers 0 and 1 of A hold rows `group` and `group + 8` of the first half of K, 2 and 3 those
  /// of the second.
  static CEILING_HD constexpr Place a(int lane, int i) {
    const int reg = i / per_register;
    return {lane / 4 + reg % 2 * 8, reg / 2 * (k / 2) + lane % 4 * per_register + i % per_register};
  }
  static CEILING_HD constexpr Place b(int lane, int i) {
    return {i / per_register * (k / 2) + lane % 4 * per_register + i % per_register, lane / 4};
  }
};
using Bf16 = Operands<16>;  // mma.m16n8k16
using E4m3 = Operands<8>;   // mma.m16n8k32
using E2m1 = Operands<4>;   // mma.m16n8k64

/// The four results of a lane: columns in pairs, of two rows eight apart.
CEILING_HD constexpr Place c(int lane, int i) {
  return {lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2};
}

/// Block scales with scale_vec::4X: a lane's register holds the four scales of one row of A (K in
/// order of the bytes). With thread selector 0 the first two lanes of four are read.
CEILING_HD constexpr int scale_a_row(int lane) { return lane / 4 + lane % 2 * 8; }
CEILING_HD constexpr bool scale_a_read(int lane) { return lane % 4 < 2; }
/// ... and those of one column of B: with selector 0 the first lane of four is read.
CEILING_HD constexpr int scale_b_column(int lane) { return lane / 4; }
CEILING_HD constexpr bool scale_b_read(int lane) { return lane % 4 == 0; }

/// ldmatrix: lane `l` points at row l % 8 of matrix l / 8, 16 bytes; register r of every lane is
/// bytes 4 (lane % 4) .. + 3 of row lane / 4 of matrix r. As rows of A: matrices 0 and 1 are rows
/// 0-7 and 8-15 of the first 16 bytes, 2 and 3 those of the second.
CEILING_HD constexpr int ldmatrix_a_row(int lane) { return lane % 16; }
CEILING_HD constexpr int ldmatrix_a_chunk(int lane) { return lane / 16; }
/// As rows of B^T (one column of B each): 32 bytes of K per pair of registers, 64 in all.
CEILING_HD constexpr int ldmatrix_b_row(int lane) { return lane % 8; }
CEILING_HD constexpr int ldmatrix_b_chunk(int lane) { return lane / 8; }

/// ldmatrix .trans: register r of every lane is column lane / 4 of matrix r, its rows 2 (lane % 4)
/// and the next. Sixteen rows of B as they lie (K down, N along) make the registers of two
/// instructions next to each other: 0 and 1, 2 and 3.
CEILING_HD constexpr int ldmatrix_kn_row(int lane) { return lane % 16; }
CEILING_HD constexpr int ldmatrix_kn_chunk(int lane) { return lane / 16; }

/// Results of one instruction as A of the next, in bf16: element of C that register `reg` of A
/// holds in its half `i`, of the two neighbouring instructions' results (columns 0-7 and 8-15).
CEILING_HD constexpr Place a_of_c(int lane, int reg, int i) {
  return {lane / 4 + reg % 2 * 8, reg / 2 * 8 + lane % 4 * 2 + i};
}

// ---- 4-bit weights in bf16 registers ----

/// A word of eight E2M1 codes keeps element e here, so that one mask takes a pair of neighbours to
/// the halves of a register: elements 0, 2, 4, 6 in the lower half, 1, 3, 5, 7 in the upper.
CEILING_HD constexpr int nibble_of(int element) { return element / 2 + element % 2 * 4; }

/// Elements 2j and 2j + 1 of such a word as two bf16, times 2^-126: exponent and mantissa of E2M1
/// become the low exponent bits and the first mantissa bit, of subnormals too.
CEILING_HD constexpr std::uint32_t e2m1_pair_bits(std::uint32_t word, int j) {
  const std::uint32_t x = word >> (4 * j);
  return (x & 0x00070007U) << 6 | (x & 0x00080008U) << 12;
}
inline constexpr int e2m1_pair_exponent = -126;
/// The bits of an f32 that is a UE4M3 scale times 2^-120.
CEILING_HD constexpr std::uint32_t ue4m3_bits(std::uint32_t code) { return (code & 0x7fU) << 20; }
inline constexpr int ue4m3_exponent = -120;

/// The E2M1 code nearest to a number, ties to the even one, where no instruction converts. NaN
/// becomes 0.
CEILING_HD constexpr std::uint32_t e2m1_code(float x) {
  const float size = x < 0 ? -x : x;
  const std::uint32_t code = (size > 0.25F) + (size >= 0.75F) + (size > 1.25F) + (size >= 1.75F) +
                             (size > 2.5F) + (size >= 3.5F) + (size > 5.0F);
  return x < 0 ? code | 8 : code;
}

/// Four-bit weights walk 128 elements of K per step. Lane t of four takes elements 32 t .. 32 t +
/// 31 of a row: one 16-byte read, two scales. Of the four elements of one row (or column) that the
/// lane holds in instruction s of the eight, the i-th is this one: a permutation of K, the same for
/// A and B.
CEILING_HD constexpr int wide_k(int lane, int s, int i) { return lane % 4 * 32 + s * 4 + i; }
/// 16-byte chunk `chunk` of such a row of A (256 bytes, bf16) in shared memory: lanes of one
/// quarter warp read different banks.
CEILING_HD constexpr int wide_a_chunk(int row, int chunk) {
  return (chunk % 4 * 4 + chunk / 4) ^ (row & 1) << 2;
}
/// The same for rows of 64 bytes, and of multiples of 128, read by ldmatrix.
CEILING_HD constexpr int chunk64(int row, int chunk) { return chunk ^ (row >> 1 & 3); }
CEILING_HD constexpr int chunk128(int row, int chunk) { return chunk ^ (row & 7); }

}  // namespace fragments
