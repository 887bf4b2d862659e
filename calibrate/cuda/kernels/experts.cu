// Grouped GEMMs of routed experts: a block takes up to 16, 64 or 128 rows of one expert and 128
// columns, walks K through a ring of shared memory (cp.async), and multiplies with mma.sync.
// Warps lie 64 rows apart (where there are so many) and 32 columns.

#include "calibrate/cuda/kernels/experts.hpp"
#include "calibrate/cuda/kernels/warp.cuh"

namespace {

using namespace fragments;

constexpr int shared_max = 101376;  // bytes a block may ask for on compute capability 12.0
constexpr int tile_columns = 128, warp_columns = 32;
constexpr int n_tiles = warp_columns / 8;  // instructions of one warp across N

template <int tile_rows>
struct Shape {
  static constexpr int warp_rows = tile_rows < 64 ? tile_rows : 64;
  static constexpr int m_tiles = warp_rows / 16;
  static constexpr int threads = tile_rows / warp_rows * (tile_columns / warp_columns) * 32;
};

/// Copies ROWS rows of CHUNKS x 16 bytes; `place` permutes chunks against bank conflicts.
template <int ROWS, int CHUNKS, int THREADS, class Source, class Where>
__device__ inline void copy_rows(unsigned to, Source source, Where where) {
#pragma unroll
  for (int i = threadIdx.x; i < ROWS * CHUNKS; i += THREADS) {
    const int row = i / CHUNKS, chunk = i % CHUNKS;
    copy_async16(to + (row * CHUNKS + where(row, chunk)) * 16, source(row) + chunk * 16);
  }
}
/// ... and their scales, 8 bytes a row.
template <int ROWS, int THREADS, class Source>
__device__ inline void copy_scales(unsigned to, Source source) {
#pragma unroll
  for (int row = threadIdx.x; row < ROWS; row += THREADS) copy_async8(to + row * 8, source(row));
}

[[maybe_unused]] __device__ inline uint2 load8(unsigned at) {
  uint2 v;
  asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(at) : "memory");
  return v;
}
__device__ inline void load16(std::uint32_t (&v)[4], unsigned at) {
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "r"(at)
               : "memory");
}
[[maybe_unused]] __device__ inline std::uint32_t load4(unsigned at) {
  std::uint32_t v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
  return v;
}
__device__ inline std::uint32_t load2(unsigned at) {
  std::uint16_t v;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(at) : "memory");
  return v;
}

// What a kind of arithmetic brings: the bytes of a step, how it is loaded, how it is multiplied.
// `a_row` gives the source row of row r of the tile, `w_row` the row of W of column r.

template <int tile_rows>
struct BlockScale : Shape<tile_rows> {
  using S = Shape<tile_rows>;
  static constexpr int step = 128;
  static constexpr int stages = tile_rows == 16 ? 4 : 3;
  static constexpr int w_at = tile_rows * 64, a_scales_at = w_at + tile_columns * 64;
  static constexpr int w_scales_at = a_scales_at + tile_rows * 8;
  static constexpr int bytes = w_scales_at + tile_columns * 8;

  template <class ARow, class WRow>
  static __device__ inline void load(unsigned to, const GroupedGemm& p, int k0, ARow a_row,
                                     WRow w_row) {
    const auto* a = static_cast<const char*>(p.a) + k0 / 2;
    const auto* w = static_cast<const char*>(p.w) + k0 / 2;
    const std::size_t k2 = p.k / 2, k16 = p.k / 16;
    copy_rows<tile_rows, 4, S::threads>(
        to, [&](int r) { return a + a_row(r) * k2; }, chunk64);
    copy_rows<tile_columns, 4, S::threads>(
        to + w_at, [&](int r) { return w + w_row(r) * k2; }, chunk64);
    copy_scales<tile_rows, S::threads>(
        to + a_scales_at, [&](int r) { return p.a_scales + a_row(r) * k16 + k0 / 16; });
    copy_scales<tile_columns, S::threads>(
        to + w_scales_at, [&](int r) { return p.w_scales + w_row(r) * k16 + k0 / 16; });
  }

  static __device__ inline void multiply(float (&acc)[S::m_tiles][n_tiles][4], unsigned at,
                                         int row0, int column0, int lane) {
#ifdef CEILING_HAS_BLOCK_SCALE
    std::uint32_t b[n_tiles][4];
    uint2 scale_b[n_tiles];
#pragma unroll
    for (int n = 0; n < n_tiles; ++n) {
      const int row = column0 + n * 8 + ldmatrix_b_row(lane);
      load_matrices(b[n], at + w_at + (row * 4 + chunk64(row, ldmatrix_b_chunk(lane))) * 16);
      scale_b[n] = load8(at + w_scales_at + (column0 + n * 8 + scale_b_column(lane)) * 8);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int m = 0; m < S::m_tiles; ++m) {
        const int row = row0 + m * 16 + ldmatrix_a_row(lane);
        std::uint32_t a[4];
        load_matrices(a, at + (row * 4 + chunk64(row, half * 2 + ldmatrix_a_chunk(lane))) * 16);
        const std::uint32_t scale_a =
            load4(at + a_scales_at + (row0 + m * 16 + scale_a_row(lane)) * 8 + half * 4);
#pragma unroll
        for (int n = 0; n < n_tiles; ++n)
          mma_nvfp4(acc[m][n], a, b[n][half * 2], b[n][half * 2 + 1], scale_a,
                    half ? scale_b[n].y : scale_b[n].x);
      }
#else
    __trap();
#endif
  }
  static constexpr float correction = 1;
};

template <int tile_rows>
struct W4A16 : Shape<tile_rows> {
  using S = Shape<tile_rows>;
  static constexpr int step = 128, stages = tile_rows == 16 ? 4 : tile_rows == 64 ? 3 : 2;
  static constexpr int w_at = tile_rows * 256, w_scales_at = w_at + tile_columns * 64;
  static constexpr int bytes = w_scales_at + tile_columns * 8;

  template <class ARow, class WRow>
  static __device__ inline void load(unsigned to, const GroupedGemm& p, int k0, ARow a_row,
                                     WRow w_row) {
    const auto* a = static_cast<const char*>(p.a) + k0 * 2;
    const auto* w = static_cast<const char*>(p.w) + k0 / 2;
    const std::size_t k = p.k;
    copy_rows<tile_rows, 16, S::threads>(
        to, [&](int r) { return a + a_row(r) * k * 2; }, wide_a_chunk);
    copy_rows<tile_columns, 4, S::threads>(
        to + w_at, [&](int r) { return w + w_row(r) * (k / 2); },
        [](int, int chunk) { return chunk; });
    copy_scales<tile_columns, S::threads>(
        to + w_scales_at, [&](int r) { return p.w_scales + w_row(r) * (k / 16) + k0 / 16; });
  }

  // The largest power of two that leaves a scale of 448 finite in bf16; the rest of what brings
  // e2m1_pair_bits to their value is left to alpha.
  static constexpr float scale_up = 0x1p119f;  // applied twice: 2^238
  static constexpr float correction = 0x1p8f;
  static_assert(-e2m1_pair_exponent - ue4m3_exponent == 238 + 8, "every factor is taken back");

  static __device__ inline std::uint32_t scale_pair(std::uint32_t code) {
    const float scale = __uint_as_float(ue4m3_bits(code)) * scale_up * scale_up;
    return pack_bf16(scale, scale);
  }
  static __device__ inline std::uint32_t times(std::uint32_t a, std::uint32_t b) {
    const __nv_bfloat162 c = __hmul2(*reinterpret_cast<const __nv_bfloat162*>(&a),
                                     *reinterpret_cast<const __nv_bfloat162*>(&b));
    return *reinterpret_cast<const std::uint32_t*>(&c);
  }

  static __device__ inline void multiply(float (&acc)[S::m_tiles][n_tiles][4], unsigned at,
                                         int row0, int column0, int lane) {
    std::uint32_t w[n_tiles][4], scale[n_tiles][2];
#pragma unroll
    for (int n = 0; n < n_tiles; ++n) {
      const int row = column0 + n * 8 + lane / 4;
      load16(w[n], at + w_at + (row * 4 + lane % 4) * 16);
      const std::uint32_t codes = load2(at + w_scales_at + row * 8 + lane % 4 * 2);
      scale[n][0] = scale_pair(codes);
      scale[n][1] = scale_pair(codes >> 8);
    }
#pragma unroll
    for (int word = 0; word < 4; ++word) {  // two instructions each: see fragments::wide_k
      std::uint32_t b[n_tiles][4];
#pragma unroll
      for (int n = 0; n < n_tiles; ++n)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          b[n][j] = times(e2m1_pair_bits(w[n][word], j), scale[n][word / 2]);
#pragma unroll
      for (int m = 0; m < S::m_tiles; ++m) {
        const int row = row0 + m * 16 + lane / 4;
        std::uint32_t upper[4], lower[4];
        load16(upper, at + (row * 16 + wide_a_chunk(row, lane % 4 * 4 + word)) * 16);
        load16(lower, at + ((row + 8) * 16 + wide_a_chunk(row + 8, lane % 4 * 4 + word)) * 16);
        const std::uint32_t first[4] = {upper[0], lower[0], upper[1], lower[1]};
        const std::uint32_t second[4] = {upper[2], lower[2], upper[3], lower[3]};
#pragma unroll
        for (int n = 0; n < n_tiles; ++n) {
          mma_bf16(acc[m][n], first, b[n][0], b[n][1]);
          mma_bf16(acc[m][n], second, b[n][2], b[n][3]);
        }
      }
    }
  }
};

template <int tile_rows>
struct Plain : Shape<tile_rows> {
  using S = Shape<tile_rows>;
  static constexpr int step = 64, stages = tile_rows == 16 ? 4 : 3;
  static constexpr int w_at = tile_rows * 128, bytes = w_at + tile_columns * 128;

  template <class ARow, class WRow>
  static __device__ inline void load(unsigned to, const GroupedGemm& p, int k0, ARow a_row,
                                     WRow w_row) {
    const auto* a = static_cast<const char*>(p.a) + k0 * 2;
    const auto* w = static_cast<const char*>(p.w) + k0 * 2;
    const std::size_t k2 = p.k * std::size_t{2};
    copy_rows<tile_rows, 8, S::threads>(
        to, [&](int r) { return a + a_row(r) * k2; }, chunk128);
    copy_rows<tile_columns, 8, S::threads>(
        to + w_at, [&](int r) { return w + w_row(r) * k2; }, chunk128);
  }

  static __device__ inline void multiply(float (&acc)[S::m_tiles][n_tiles][4], unsigned at,
                                         int row0, int column0, int lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      std::uint32_t b[n_tiles][4];
#pragma unroll
      for (int n = 0; n < n_tiles; ++n) {
        const int row = column0 + n * 8 + ldmatrix_b_row(lane);
        load_matrices(
            b[n], at + w_at + (row * 8 + chunk128(row, half * 4 + ldmatrix_b_chunk(lane))) * 16);
      }
#pragma unroll
      for (int quarter = 0; quarter < 2; ++quarter)
#pragma unroll
        for (int m = 0; m < S::m_tiles; ++m) {
          const int row = row0 + m * 16 + ldmatrix_a_row(lane);
          std::uint32_t a[4];
          load_matrices(
              a,
              at + (row * 8 + chunk128(row, half * 4 + quarter * 2 + ldmatrix_a_chunk(lane))) * 16);
#pragma unroll
          for (int n = 0; n < n_tiles; ++n)
            mma_bf16(acc[m][n], a, b[n][quarter * 2], b[n][quarter * 2 + 1]);
        }
    }
  }
  static constexpr float correction = 1;
};

template <int tile_rows, class Kind>
__device__ inline void gemm_tile(const GroupedGemm& p) {
  using S = Shape<tile_rows>;
  static_assert(Kind::bytes * Kind::stages + tile_rows * 4 <= shared_max, "too much shared memory");
  static_assert(expert_k_step % Kind::step == 0, "K is whole steps");
  extern __shared__ uint4 ring[];
  __shared__ std::int32_t sources[tile_rows];
  const auto tile = p.tiles[blockIdx.x];
  const int n0 = blockIdx.y * tile_columns, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  // Rows and columns beyond the end read the last one; their results are not written.
  for (int r = threadIdx.x; r < tile_rows; r += S::threads) {
    const int row = tile.first + min(r, tile.rows - 1);
    sources[r] = p.a_rows ? p.a_rows[row] : row;
  }
  __syncthreads();
  const auto a_row = [&](int r) { return static_cast<std::size_t>(sources[r]); };
  const std::size_t w0 = static_cast<std::size_t>(tile.expert) * p.n;
  const auto w_row = [&](int r) { return w0 + min(n0 + r, p.n - 1); };

  const unsigned at = shared_address(ring);
  const int steps = p.k / Kind::step;
  for (int s = 0; s < Kind::stages - 1; ++s) {
    if (s < steps) Kind::load(at + s * Kind::bytes, p, s * Kind::step, a_row, w_row);
    copy_commit();
  }
  float acc[S::m_tiles][n_tiles][4] = {};
  const int row0 = warp / 4 * S::warp_rows, column0 = warp % 4 * warp_columns;
  int reading = 0, writing = Kind::stages - 1;
  for (int s = 0; s < steps; ++s) {
    copy_wait<Kind::stages - 2>();
    __syncthreads();
    if (const int next = s + Kind::stages - 1; next < steps)
      Kind::load(at + writing * Kind::bytes, p, next * Kind::step, a_row, w_row);
    copy_commit();
    Kind::multiply(acc, at + reading * Kind::bytes, row0, column0, lane);
    reading = reading + 1 == Kind::stages ? 0 : reading + 1;
    writing = writing + 1 == Kind::stages ? 0 : writing + 1;
  }

  auto* out = static_cast<__nv_bfloat16*>(p.out);
#pragma unroll
  for (int m = 0; m < S::m_tiles; ++m)
#pragma unroll
    for (int n = 0; n < n_tiles; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Place place = c(lane, half * 2);
        const int row = row0 + m * 16 + place.row, column = n0 + column0 + n * 8 + place.column;
        if (row < tile.rows && column < p.n)
          *reinterpret_cast<std::uint32_t*>(out + static_cast<std::size_t>(tile.first + row) * p.n +
                                            column) =
              pack_bf16(acc[m][n][half * 2] * p.alpha, acc[m][n][half * 2 + 1] * p.alpha);
      }
}

// Named apart, so that the compiler's report tells them apart.
template <int tile_rows>
__global__ void __launch_bounds__(Shape<tile_rows>::threads)
    experts_block_scale(const __grid_constant__ GroupedGemm p) {
#if defined(__CUDA_ARCH__) && !defined(CEILING_HAS_BLOCK_SCALE)
  __trap();
#else
  gemm_tile<tile_rows, BlockScale<tile_rows>>(p);
#endif
}
template <int tile_rows>
__global__ void __launch_bounds__(Shape<tile_rows>::threads)
    experts_w4a16(const __grid_constant__ GroupedGemm p) {
  gemm_tile<tile_rows, W4A16<tile_rows>>(p);
}
template <int tile_rows>
__global__ void __launch_bounds__(Shape<tile_rows>::threads)
    experts_bf16(const __grid_constant__ GroupedGemm p) {
  gemm_tile<tile_rows, Plain<tile_rows>>(p);
}

template <class Kind>
cudaError_t run(void (*kernel)(GroupedGemm), GroupedGemm p, int tiles, cudaStream_t stream) {
  if (p.k % Kind::step != 0) return cudaErrorInvalidValue;
  p.alpha *= Kind::correction;
  constexpr int bytes = Kind::bytes * Kind::stages;
  if (const auto error =
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
      error != cudaSuccess)
    return error;
  const dim3 grid(tiles, (p.n + tile_columns - 1) / tile_columns);
  kernel<<<grid, Kind::threads, bytes, stream>>>(p);
  return cudaGetLastError();
}

template <int tile_rows>
cudaError_t run_kind(ExpertKind kind, const GroupedGemm& p, int tiles, cudaStream_t stream) {
  switch (kind) {
    case ExpertKind::block_scale:
      return run<BlockScale<tile_rows>>(experts_block_scale<tile_rows>, p, tiles, stream);
    case ExpertKind::w4a16:
      return run<W4A16<tile_rows>>(experts_w4a16<tile_rows>, p, tiles, stream);
    case ExpertKind::bf16:
      return run<Plain<tile_rows>>(experts_bf16<tile_rows>, p, tiles, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t grouped_gemm(ExpertKind kind, int tile_rows, const GroupedGemm& p, int tiles,
                         cudaStream_t stream) {
  if (tiles == 0) return cudaSuccess;
  if (tile_rows == 16) return run_kind<16>(kind, p, tiles, stream);
  if (tile_rows == 64) return run_kind<64>(kind, p, tiles, stream);
  if (tile_rows == 128) return run_kind<128>(kind, p, tiles, stream);
  return cudaErrorInvalidValue;
}
