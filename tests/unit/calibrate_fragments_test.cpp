// The lane layouts that the CUDA kernels use, run on the CPU: a warp's shared memory, ldmatrix and
// one tensor core instruction after another, against the plain product.

#include <array>
#include <cstdint>
#include <cstring>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "calibrate/reference/bf16.hpp"
#include "calibrate/reference/fragments.hpp"
#include "calibrate/reference/nvfp4.hpp"
#include "sim/base/random.hpp"

using namespace fragments;
using reference::from_bf16;
using reference::from_e2m1;
using reference::from_ue4m3;

namespace {

using Bytes = std::vector<std::uint8_t>;
using Registers = std::array<std::uint32_t, 4>;
using Warp = std::array<Registers, 32>;              // of each lane
using Sums = std::array<std::array<double, 4>, 32>;  // c of each lane

std::uint32_t word_at(const Bytes& bytes, std::size_t at) {
  std::uint32_t word = 0;
  std::memcpy(&word, &bytes.at(at), sizeof word);
  return word;
}
std::uint32_t element(std::uint32_t word, int i, int bits) {
  return word >> (i * bits) & ((1U << bits) - 1);
}

/// PTX ISA, ldmatrix .x4: `at(lane)` is the byte that each lane points at.
template <class At>
Warp ldmatrix(const Bytes& shared, At at) {
  Warp out{};
  for (int lane = 0; lane < 32; ++lane)
    for (int r = 0; r < 4; ++r)
      out[lane][r] = word_at(shared, static_cast<std::size_t>(at(r * 8 + lane / 4)) + lane % 4 * 4);
  return out;
}

// Eight reads of 16 bytes that the hardware serves together use every bank once.
template <class At>
void check_banks(At at) {
  for (int first = 0; first < 32; first += 8) {
    std::set<int> banks;
    for (int lane = first; lane < first + 8; ++lane) banks.insert(at(lane) / 16 % 8);
    CHECK(banks.size() == 8);
  }
}

/// mma.m16n8k16 of bf16: what the hardware does with registers a[0..3] and b0, b1 of each lane.
void mma_bf16(Sums& sums, const Warp& a, const Warp& b, int b_first) {
  double am[16][16], bm[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < Bf16::a_elements; ++i) {
      const Place p = Bf16::a(lane, i);
      am[p.row][p.column] =
          from_bf16(static_cast<std::uint16_t>(element(a[lane][i / 2], i % 2, 16)));
    }
    for (int i = 0; i < Bf16::b_elements; ++i) {
      const Place p = Bf16::b(lane, i);
      bm[p.row][p.column] =
          from_bf16(static_cast<std::uint16_t>(element(b[lane][b_first + i / 2], i % 2, 16)));
    }
  }
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i)
      for (int k = 0; k < 16; ++k)
        sums[lane][i] += am[c(lane, i).row][k] * bm[k][c(lane, i).column];
}

/// mma.m16n8k64 with block scales: scales come from the lanes that selector 0 reads.
void mma_nvfp4(Sums& sums, const Warp& a, const Warp& b, int b_first,
               const std::array<std::uint32_t, 32>& scale_a,
               const std::array<std::uint32_t, 32>& scale_b) {
  double am[16][64], bm[64][8];
  std::uint32_t as[16] = {}, bs[8] = {};
  for (int lane = 0; lane < 32; ++lane) {
    if (scale_a_read(lane)) as[scale_a_row(lane)] = scale_a[lane];
    if (scale_b_read(lane)) bs[scale_b_column(lane)] = scale_b[lane];
    for (int i = 0; i < E2m1::a_elements; ++i) {
      const Place p = E2m1::a(lane, i);
      am[p.row][p.column] = from_e2m1(static_cast<std::uint8_t>(element(a[lane][i / 8], i % 8, 4)));
    }
    for (int i = 0; i < E2m1::b_elements; ++i) {
      const Place p = E2m1::b(lane, i);
      bm[p.row][p.column] =
          from_e2m1(static_cast<std::uint8_t>(element(b[lane][b_first + i / 8], i % 8, 4)));
    }
  }
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i)
      for (int k = 0; k < 64; ++k) {
        const Place p = c(lane, i);
        sums[lane][i] += am[p.row][k] * bm[k][p.column] *
                         from_ue4m3(static_cast<std::uint8_t>(element(as[p.row], k / 16, 8))) *
                         from_ue4m3(static_cast<std::uint8_t>(element(bs[p.column], k / 16, 8)));
      }
}

/// A matrix of numbers and the product of its rows with those of another.
struct Matrix {
  int rows, k;
  std::vector<double> v;
  Matrix(int rows_, int k_) : rows(rows_), k(k_), v(static_cast<std::size_t>(rows_ * k_)) {}
  double& operator()(int row, int at) { return v.at(static_cast<std::size_t>(row * k + at)); }
};
void check_product(const Sums& sums, Matrix& a, Matrix& w, double factor = 1) {
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) {
      double want = 0;
      for (int k = 0; k < a.k; ++k) want += a(c(lane, i).row, k) * w(c(lane, i).column, k);
      CHECK(sums[lane][i] == Approx(want * factor).epsilon(1e-12));
    }
}

// Random rows of `columns` bf16 numbers in `row_bytes` of shared memory each, chunks at `place`.
template <class Where>
Matrix fill_bf16(Bytes& shared, std::size_t at, int rows, int columns, Where place,
                 RandomStream& random) {
  Matrix out(rows, columns);
  for (int row = 0; row < rows; ++row)
    for (int k = 0; k < columns; ++k) {
      const auto code = reference::to_bf16(random.uniform() * 2 - 1);
      out(row, k) = from_bf16(code);
      const int byte = (row * columns / 8 + place(row, k / 8)) * 16 + k % 8 * 2;
      std::memcpy(&shared.at(at + static_cast<std::size_t>(byte)), &code, 2);
    }
  return out;
}

}  // namespace

TEST_CASE("lanes hold every element of A, B and C once") {
  const auto complete = [](auto operands) {
    using O = decltype(operands);
    std::set<std::pair<int, int>> a, b, results;
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < O::a_elements; ++i) a.insert({O::a(lane, i).row, O::a(lane, i).column});
      for (int i = 0; i < O::b_elements; ++i) b.insert({O::b(lane, i).row, O::b(lane, i).column});
      for (int i = 0; i < 4; ++i) results.insert({c(lane, i).row, c(lane, i).column});
    }
    CHECK(a.size() == static_cast<std::size_t>(16 * O::k));
    CHECK(b.size() == static_cast<std::size_t>(8 * O::k));
    CHECK(results.size() == 16 * 8);
  };
  complete(Bf16{});
  complete(E4m3{});
  complete(E2m1{});
  CHECK(Bf16::k == 16);
  CHECK(E2m1::k == 64);
}

TEST_CASE("fragments lie as the PTX ISA draws them") {
  // m16n8k16, .bf16: a0,a1 row = groupID, a2,a3 row + 8, a4.. column + 8; column = 2 tid + (i & 1)
  CHECK(Bf16::a(5, 0).row == 1);     // groupID 5 / 4, tid 1
  CHECK(Bf16::a(5, 0).column == 2);  // 2 x 1
  CHECK(Bf16::a(5, 3).row == 9);
  CHECK(Bf16::a(5, 3).column == 3);
  CHECK(Bf16::a(5, 4).row == 1);
  CHECK(Bf16::a(5, 4).column == 10);
  CHECK(Bf16::b(5, 2).row == 10);  // 2 tid + 8
  CHECK(Bf16::b(5, 2).column == 1);
  // m16n8k64: column = 8 tid + (i & 7), + 32 from i = 16 on; row + 8 for i in 8..15 and 24..31
  CHECK(E2m1::a(31, 7).row == 7);
  CHECK(E2m1::a(31, 7).column == 31);  // 8 x 3 + 7
  CHECK(E2m1::a(31, 8).row == 15);
  CHECK(E2m1::a(31, 8).column == 24);
  CHECK(E2m1::a(31, 16).row == 7);
  CHECK(E2m1::a(31, 31).column == 63);
  CHECK(E2m1::b(30, 9).row == 49);  // 8 x 2 + 1 + 32
  CHECK(E2m1::b(30, 9).column == 7);
  CHECK(c(6, 3).row == 9);
  CHECK(c(6, 3).column == 5);  // 2 x 2 + 1
  // 4X, selector 0: lanes 0 and 1 of four bring rows groupID and groupID + 8, lane 0 a column
  std::set<int> rows, columns;
  for (int lane = 0; lane < 32; ++lane) {
    if (scale_a_read(lane)) rows.insert(scale_a_row(lane));
    if (scale_b_read(lane)) columns.insert(scale_b_column(lane));
  }
  CHECK(rows.size() == 16);
  CHECK(columns.size() == 8);
  CHECK(scale_a_row(9) == 10);
  CHECK(scale_b_column(8) == 2);
}

TEST_CASE("4-bit codes become bf16 registers with a known power of two") {
  for (std::uint32_t code = 0; code < 16; ++code)
    for (int at = 0; at < 8; ++at) {
      const std::uint32_t pair = e2m1_pair_bits(code << (4 * nibble_of(at)), at / 2);
      const auto half = static_cast<std::uint16_t>(at % 2 ? pair >> 16 : pair);
      CHECK(std::ldexp(from_bf16(half), -e2m1_pair_exponent) ==
            from_e2m1(static_cast<std::uint8_t>(code)));
      CHECK(static_cast<std::uint16_t>(at % 2 ? pair : pair >> 16) == 0);  // the neighbour's
    }
  for (std::uint32_t code = 0; code < 0x7f; ++code) {
    const std::uint32_t bits = ue4m3_bits(code);
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    CHECK(std::ldexp(static_cast<double>(value), -ue4m3_exponent) ==
          from_ue4m3(static_cast<std::uint8_t>(code)));
  }
  std::set<int> nibbles;
  for (int i = 0; i < 8; ++i) nibbles.insert(nibble_of(i));
  CHECK(nibbles.size() == 8);
}

TEST_CASE("the E2M1 encoder of kernels is that of the reference") {
  for (int i = -1024; i <= 1024; ++i) {
    const float x = static_cast<float>(i) / 128;  // all ties among them
    if (i == 0) continue;                         // its sign is the only difference
    CHECK(from_e2m1(static_cast<std::uint8_t>(e2m1_code(x))) ==
          from_e2m1(reference::to_e2m1(static_cast<double>(x))));
  }
}

TEST_CASE("bf16 rows in shared memory multiply to the plain product") {
  RandomStream random(1, "bf16");
  Bytes shared(16 * 128 + 8 * 128);
  Matrix a = fill_bf16(shared, 0, 16, 64, chunk128, random);
  Matrix w = fill_bf16(shared, 16 * 128, 8, 64, chunk128, random);
  Sums sums{};
  for (int half = 0; half < 2; ++half) {
    const auto b_at = [&](int lane) {
      const int row = ldmatrix_b_row(lane);
      return 16 * 128 + (row * 8 + chunk128(row, half * 4 + ldmatrix_b_chunk(lane))) * 16;
    };
    check_banks(b_at);
    const Warp b = ldmatrix(shared, b_at);
    for (int quarter = 0; quarter < 2; ++quarter) {
      const auto a_at = [&](int lane) {
        const int row = ldmatrix_a_row(lane);
        return (row * 8 + chunk128(row, half * 4 + quarter * 2 + ldmatrix_a_chunk(lane))) * 16;
      };
      check_banks(a_at);
      mma_bf16(sums, ldmatrix(shared, a_at), b, quarter * 2);
    }
  }
  check_product(sums, a, w);
}

TEST_CASE("NVFP4 rows in shared memory and their scales multiply to the plain product") {
  RandomStream random(1, "nvfp4");
  constexpr int k = 128, w_at = 16 * 64;
  Bytes shared(w_at + 8 * 64), scales((16 + 8) * 8);
  Matrix a(16, k), w(8, k);
  for (auto& s : scales) s = static_cast<std::uint8_t>(0x30 + random.next() % 16);
  for (int row = 0; row < 24; ++row)
    for (int at = 0; at < k; ++at) {
      const auto code = static_cast<std::uint8_t>(random.next() % 16);
      const int r = row < 16 ? row : row - 16;
      const int byte = (row < 16 ? 0 : w_at) + (r * 4 + chunk64(r, at / 32)) * 16 + at % 32 / 2;
      shared.at(static_cast<std::size_t>(byte)) |= static_cast<std::uint8_t>(code << at % 2 * 4);
      const double scale = from_ue4m3(scales.at(static_cast<std::size_t>(row * 8 + at / 16)));
      (row < 16 ? a : w)(r, at) = from_e2m1(code) * scale;
    }
  const auto b_at = [&](int lane) {
    const int row = ldmatrix_b_row(lane);
    return w_at + (row * 4 + chunk64(row, ldmatrix_b_chunk(lane))) * 16;
  };
  check_banks(b_at);
  const Warp b = ldmatrix(shared, b_at);
  Sums sums{};
  for (int half = 0; half < 2; ++half) {
    const auto a_at = [&](int lane) {
      const int row = ldmatrix_a_row(lane);
      return (row * 4 + chunk64(row, half * 2 + ldmatrix_a_chunk(lane))) * 16;
    };
    check_banks(a_at);
    std::array<std::uint32_t, 32> scale_a{}, scale_b{};
    for (int lane = 0; lane < 32; ++lane) {
      scale_a[lane] = word_at(scales, static_cast<std::size_t>(scale_a_row(lane) * 8 + half * 4));
      scale_b[lane] =
          word_at(scales, static_cast<std::size_t>((16 + scale_b_column(lane)) * 8 + half * 4));
    }
    mma_nvfp4(sums, ldmatrix(shared, a_at), b, half * 2, scale_a, scale_b);
  }
  check_product(sums, a, w);
}

TEST_CASE("4-bit weights that lanes turn to bf16 multiply to the plain product") {
  RandomStream random(1, "w4a16");
  constexpr int k = 128, w_at = 16 * 256;
  Bytes shared(w_at + 8 * 64), scales(8 * 8);
  Matrix a = fill_bf16(shared, 0, 16, k, wide_a_chunk, random);
  Matrix w(8, k);
  for (auto& s : scales) s = static_cast<std::uint8_t>(0x30 + random.next() % 16);
  for (int row = 0; row < 8; ++row)
    for (int at = 0; at < k; ++at) {
      const auto code = static_cast<std::uint8_t>(random.next() % 16);
      const int nibble = at / 8 * 8 + nibble_of(at % 8);
      shared.at(static_cast<std::size_t>(w_at + row * 64 + nibble / 2)) |=
          static_cast<std::uint8_t>(code << nibble % 2 * 4);
      w(row, at) =
          from_e2m1(code) * from_ue4m3(scales.at(static_cast<std::size_t>(row * 8 + at / 16)));
    }
  check_banks([](int lane) { return w_at + (lane / 4 * 4 + lane % 4) * 16; });
  Sums sums{};
  for (int word = 0; word < 4; ++word) {
    for (int below = 0; below < 16; below += 8)
      check_banks([&](int lane) {
        const int row = below + lane / 4;
        return (row * 16 + wide_a_chunk(row, lane % 4 * 4 + word)) * 16;
      });
    Warp first{}, second{}, b{};
    for (int lane = 0; lane < 32; ++lane) {
      const int row = lane / 4;
      const auto read = [&](int r, int i) {
        const int chunk = r * 16 + wide_a_chunk(r, lane % 4 * 4 + word);
        return word_at(shared, static_cast<std::size_t>(chunk * 16 + i * 4));
      };
      first[lane] = {read(row, 0), read(row + 8, 0), read(row, 1), read(row + 8, 1)};
      second[lane] = {read(row, 2), read(row + 8, 2), read(row, 3), read(row + 8, 3)};
      const auto codes =
          word_at(shared, static_cast<std::size_t>(w_at + row * 64 + lane % 4 * 16 + word * 4));
      const double scale =
          from_ue4m3(scales.at(static_cast<std::size_t>(row * 8 + lane % 4 * 2 + word / 2)));
      for (int j = 0; j < 4; ++j) {
        const std::uint32_t pair = e2m1_pair_bits(codes, j);
        for (int half = 0; half < 2; ++half) {
          // the scale as the kernel forms it, times 2^118, and their product: both exact in bf16
          const double product =
              from_bf16(static_cast<std::uint16_t>(pair >> (16 * half))) * std::ldexp(scale, 118);
          CHECK(reference::rounded_to_bf16(product) == product);
          b[lane][j] |= static_cast<std::uint32_t>(reference::to_bf16(product)) << (16 * half);
        }
      }
    }
    mma_bf16(sums, first, b, 0);
    mma_bf16(sums, second, b, 2);
  }
  check_product(sums, a, w, 0x1p-8);  // which the kernel's alpha takes back
  std::set<int> places;
  for (int lane = 0; lane < 4; ++lane)
    for (int s = 0; s < 8; ++s)
      for (int i = 0; i < 4; ++i) places.insert(wide_k(lane, s, i));
  CHECK(places.size() == 128);
}

TEST_CASE("probabilities turned to A and values read across multiply to the plain product") {
  // 16 rows of probabilities over 16 tokens; values of 16 tokens x 64 columns, as they lie in a
  // cache
  RandomStream random(1, "values");
  Bytes shared(16 * 128);
  Matrix values = fill_bf16(shared, 0, 16, 64, chunk128, random);
  Matrix p(16, 16);
  for (double& v : p.v) v = reference::rounded_to_bf16(random.uniform());
  Warp a{};
  for (int lane = 0; lane < 32; ++lane)
    for (int reg = 0; reg < 4; ++reg)
      for (int i = 0; i < 2; ++i) {
        const Place place = a_of_c(lane, reg, i);
        CHECK(Bf16::a(lane, reg * 2 + i).row == place.row);  // where the instruction expects it
        CHECK(Bf16::a(lane, reg * 2 + i).column == place.column);
        a[lane][reg] |= static_cast<std::uint32_t>(reference::to_bf16(p(place.row, place.column)))
                        << (16 * i);
      }
  for (int column = 0; column < 64; column += 16) {
    const auto at = [&](int lane) {
      const int row = ldmatrix_kn_row(lane);
      return (row * 8 + chunk128(row, column / 8 + ldmatrix_kn_chunk(lane))) * 16;
    };
    check_banks(at);
    Warp b{};  // ldmatrix .trans: rows 2 (lane % 4) and + 1 of column lane / 4
    for (int lane = 0; lane < 32; ++lane)
      for (int r = 0; r < 4; ++r)
        for (int i = 0; i < 2; ++i) {
          const auto byte = static_cast<std::size_t>(at(r * 8 + lane % 4 * 2 + i) + lane / 4 * 2);
          b[lane][r] |= (word_at(shared, byte / 4 * 4) >> (byte % 4 * 8) & 0xffff) << (16 * i);
        }
    for (int half = 0; half < 2; ++half) {
      Sums sums{};
      mma_bf16(sums, a, b, half * 2);
      Matrix columns(8, 16);
      for (int n = 0; n < 8; ++n)
        for (int k = 0; k < 16; ++k) columns(n, k) = values(k, column + half * 8 + n);
      check_product(sums, p, columns);
    }
  }
}

TEST_CASE("32 bytes of FP8 a lane, as they lie, multiply to the plain product") {
  // instruction s takes words 2 s and 2 s + 1 of a lane: a permutation of K that A and B share
  RandomStream random(1, "fp8");
  Bytes keys(16 * 128), heads(8 * 128);
  for (auto* bytes : {&keys, &heads})
    for (auto& b : *bytes)
      b = static_cast<std::uint8_t>((random.next() & 0x80) | random.next() % 0x40);
  Matrix a(16, 128), w(8, 128);
  for (std::size_t i = 0; i < keys.size(); ++i) a.v[i] = reference::from_e4m3(keys[i]);
  for (std::size_t i = 0; i < heads.size(); ++i) w.v[i] = reference::from_e4m3(heads[i]);
  Sums sums{};
  for (int s = 0; s < 4; ++s) {
    double am[16][32], bm[32][8];
    for (int lane = 0; lane < 32; ++lane) {
      const auto word = [&](const Bytes& from, int row, int at) {
        return word_at(from, static_cast<std::size_t>(row * 128 + lane % 4 * 32 + at * 4));
      };
      const std::uint32_t ar[4] = {word(keys, lane / 4, s * 2), word(keys, lane / 4 + 8, s * 2),
                                   word(keys, lane / 4, s * 2 + 1),
                                   word(keys, lane / 4 + 8, s * 2 + 1)};
      const std::uint32_t br[2] = {word(heads, lane / 4, s * 2), word(heads, lane / 4, s * 2 + 1)};
      const auto number = [](std::uint32_t from, int i) {
        return reference::from_e4m3(static_cast<std::uint8_t>(element(from, i, 8)));
      };
      for (int i = 0; i < E4m3::a_elements; ++i)
        am[E4m3::a(lane, i).row][E4m3::a(lane, i).column] = number(ar[i / 4], i % 4);
      for (int i = 0; i < E4m3::b_elements; ++i)
        bm[E4m3::b(lane, i).row][E4m3::b(lane, i).column] = number(br[i / 4], i % 4);
    }
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < 4; ++i)
        for (int k = 0; k < 32; ++k)
          sums[lane][i] += am[c(lane, i).row][k] * bm[k][c(lane, i).column];
  }
  check_product(sums, a, w);
}
