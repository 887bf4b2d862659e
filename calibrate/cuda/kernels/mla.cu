// MLA decode with split KV: a block takes up to 16 heads of one query and a part of its tokens,
// walks them 32 at a time through two buffers, and leaves an unnormalised sum; a second kernel
// combines the parts. Scores: each of four warps 8 tokens; values: each warp 128 of 512 columns.

#include "calibrate/cuda/kernels/mla.hpp"

#include "calibrate/cuda/kernels/warp.cuh"

namespace {

using namespace fragments;

constexpr int warps = 4, threads = warps * 32;
constexpr int head_rows = 16, tile = 32;
constexpr int row_chunks = mla_latent * 2 / 16;  // 72 of 16 bytes
constexpr int row_bytes = row_chunks * 16;
constexpr int score_pitch = tile + 4;  // floats
constexpr int tile_bytes = tile * row_bytes, q_bytes = head_rows * row_bytes;
constexpr int shared_bytes = 2 * tile_bytes + q_bytes + head_rows * score_pitch * 4;
static_assert(shared_bytes <= 101376, "the most a block may have on compute capability 12.0");
constexpr int warp_columns = mla_value / warps, value_tiles = warp_columns / 8;

__device__ inline unsigned chunk_at(unsigned base, int row, int chunk) {
  return base + (row * row_chunks + chunk128(row, chunk)) * 16;
}

template <bool sparse>
__device__ inline int slot_of(const MlaDecode& p, int query, int token) {
  if (sparse) return p.slots[static_cast<std::size_t>(query) * p.tokens + token];
  return p.pages[static_cast<std::size_t>(query) * p.pages_each + token / mla_page] * mla_page +
         token % mla_page;
}

// Four threads copy a row. Tokens from `end` on and missing picks read some other row.
template <bool sparse>
__device__ inline void load_tile(const MlaDecode& p, unsigned to, int query, int first, int end) {
  const int row = threadIdx.x / 4;
  const int slot = max(0, slot_of<sparse>(p, query, min(first + row, end - 1)));
  const auto* from = static_cast<const char*>(p.kv) + static_cast<std::size_t>(slot) * row_bytes;
#pragma unroll
  for (int i = 0; i < row_chunks / 4; ++i) {
    const int chunk = i * 4 + threadIdx.x % 4;
    copy_async16(chunk_at(to, row, chunk), from + chunk * 16);
  }
}

template <bool sparse>
__global__ void __launch_bounds__(threads)
    mla_part_kernel(const __grid_constant__ MlaDecode p, int tokens_each) {
  extern __shared__ uint4 buffer[];
  const unsigned kv_at = shared_address(buffer), q_at = kv_at + 2 * tile_bytes;
  auto* scores =
      reinterpret_cast<float*>(reinterpret_cast<char*>(buffer) + 2 * tile_bytes + q_bytes);
  const int query = blockIdx.x, split = blockIdx.y, head0 = blockIdx.z * head_rows;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4;
  const int begin = split * tokens_each, end = min(begin + tokens_each, p.tokens);

  // Heads beyond the last read the last one again and are not written.
  for (int i = threadIdx.x; i < head_rows * row_chunks; i += threads) {
    const int row = i / row_chunks, chunk = i % row_chunks;
    const int head = min(head0 + row, p.heads - 1);
    copy_async16(chunk_at(q_at, row, chunk),
                 static_cast<const char*>(p.q) +
                     (static_cast<std::size_t>(query) * p.heads + head) * row_bytes + chunk * 16);
  }
  load_tile<sparse>(p, kv_at, query, begin, end);
  copy_commit();

  float acc[value_tiles][4] = {};
  float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};  // of rows `group` and `group + 8`
  const float scale = p.scale * 1.44269504f;                   // exponents to base 2
  int current = 0;
  for (int first = begin; first < end; first += tile, current ^= 1) {
    const unsigned kv = kv_at + current * tile_bytes;
    if (first + tile < end)
      load_tile<sparse>(p, kv_at + (current ^ 1) * tile_bytes, query, first + tile, end);
    copy_commit();
    copy_wait<1>();
    __syncthreads();

    float even[4] = {}, odd[4] = {};  // two chains of instructions
#pragma unroll 6
    for (int pair = 0; pair < mla_latent / 32; ++pair) {
      std::uint32_t b[4], a[4];
      load_matrices(
          b, chunk_at(kv, warp * 8 + ldmatrix_b_row(lane), pair * 4 + ldmatrix_b_chunk(lane)));
      load_matrices(a, chunk_at(q_at, ldmatrix_a_row(lane), pair * 4 + ldmatrix_a_chunk(lane)));
      mma_bf16(even, a, b[0], b[1]);
      load_matrices(a, chunk_at(q_at, ldmatrix_a_row(lane), pair * 4 + 2 + ldmatrix_a_chunk(lane)));
      mma_bf16(odd, a, b[2], b[3]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Place place = c(lane, i);
      const int token = first + warp * 8 + place.column;
      bool seen = token < end;
      if (sparse && seen) seen = slot_of<sparse>(p, query, token) >= 0;
      scores[place.row * score_pitch + warp * 8 + place.column] =
          seen ? (even[i] + odd[i]) * scale : -INFINITY;
    }
    __syncthreads();

    // Every warp needs all probabilities, as its A: it computes them itself.
    float s[2][4][2];  // instruction along the tokens, register, half
    float now[2] = {largest[0], largest[1]};
#pragma unroll
    for (int k = 0; k < 2; ++k)
#pragma unroll
      for (int reg = 0; reg < 4; ++reg)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const Place place = a_of_c(lane, reg, i);
          s[k][reg][i] = scores[place.row * score_pitch + k * 16 + place.column];
          now[reg % 2] = fmaxf(now[reg % 2], s[k][reg][i]);
        }
    float correction[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      now[r] = fmaxf(now[r], __shfl_xor_sync(0xffffffffU, now[r], 1));
      now[r] = fmaxf(now[r], __shfl_xor_sync(0xffffffffU, now[r], 2));
      const float base = now[r] == -INFINITY ? 0 : now[r];
      correction[r] = exp2f(largest[r] - base);
      largest[r] = now[r];
      now[r] = base;
      sum[r] *= correction[r];
    }
    std::uint32_t probabilities[2][4];
#pragma unroll
    for (int k = 0; k < 2; ++k)
#pragma unroll
      for (int reg = 0; reg < 4; ++reg) {
        const float low = exp2f(s[k][reg][0] - now[reg % 2]);
        const float high = exp2f(s[k][reg][1] - now[reg % 2]);
        sum[reg % 2] += low + high;
        probabilities[k][reg] = pack_bf16(low, high);
      }
#pragma unroll
    for (int n = 0; n < value_tiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) acc[n][i] *= correction[i / 2];
#pragma unroll
    for (int k = 0; k < 2; ++k)
#pragma unroll
      for (int n = 0; n < value_tiles; n += 2) {
        std::uint32_t b[4];
        load_matrices_transposed(b,
                                 chunk_at(kv, k * 16 + ldmatrix_kn_row(lane),
                                          warp * (warp_columns / 8) + n + ldmatrix_kn_chunk(lane)));
        mma_bf16(acc[n], probabilities[k], b[0], b[1]);
        mma_bf16(acc[n + 1], probabilities[k], b[2], b[3]);
      }
    __syncthreads();
  }

#pragma unroll
  for (int r = 0; r < 2; ++r) {
    sum[r] += __shfl_xor_sync(0xffffffffU, sum[r], 1);
    sum[r] += __shfl_xor_sync(0xffffffffU, sum[r], 2);
    const int head = head0 + group + r * 8;
    if (head >= p.heads) continue;
    const std::size_t part = (static_cast<std::size_t>(query) * p.heads + head) * p.splits + split;
    if (warp == 0 && lane % 4 == 0) {
      p.stats[part * 2] = largest[r];
      p.stats[part * 2 + 1] = sum[r];
    }
    float* out = p.partial + part * mla_value + warp * warp_columns;
#pragma unroll
    for (int n = 0; n < value_tiles; ++n)
      *reinterpret_cast<float2*>(out + n * 8 + c(lane, 0).column) = {acc[n][r * 2],
                                                                     acc[n][r * 2 + 1]};
  }
}

// Parts without a token have sum 0 and the largest score -infinity.
__global__ void __launch_bounds__(mla_value / 4)
    mla_combine_kernel(const __grid_constant__ MlaDecode p) {
  const std::size_t row = static_cast<std::size_t>(blockIdx.x) * p.heads + blockIdx.y;
  const float* stats = p.stats + row * p.splits * 2;
  float largest = -INFINITY, sum = 0;
  for (int s = 0; s < p.splits; ++s) largest = fmaxf(largest, stats[s * 2]);
  float4 out{0, 0, 0, 0};
  for (int s = 0; s < p.splits; ++s) {
    if (stats[s * 2] == -INFINITY) continue;
    const float weight = exp2f(stats[s * 2] - largest);
    sum += weight * stats[s * 2 + 1];
    const float4 part =
        reinterpret_cast<const float4*>(p.partial + (row * p.splits + s) * mla_value)[threadIdx.x];
    out.x += weight * part.x;
    out.y += weight * part.y;
    out.z += weight * part.z;
    out.w += weight * part.w;
  }
  const float factor = sum > 0 ? 1 / sum : 0;
  reinterpret_cast<uint2*>(static_cast<__nv_bfloat16*>(p.out) + row * mla_value)[threadIdx.x] = {
      pack_bf16(out.x * factor, out.y * factor), pack_bf16(out.z * factor, out.w * factor)};
}

template <bool sparse>
cudaError_t run(const MlaDecode& p, cudaStream_t stream) {
  if (const auto error = cudaFuncSetAttribute(
          mla_part_kernel<sparse>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
      error != cudaSuccess)
    return error;
  const int tiles = (p.tokens + tile - 1) / tile;
  const int tokens_each = (tiles + p.splits - 1) / p.splits * tile;
  const dim3 grid(p.queries, p.splits, (p.heads + head_rows - 1) / head_rows);
  mla_part_kernel<sparse><<<grid, threads, shared_bytes, stream>>>(p, tokens_each);
  mla_combine_kernel<<<dim3(p.queries, p.heads), mla_value / 4, 0, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace

cudaError_t mla_decode(const MlaDecode& p, cudaStream_t stream) {
  if (p.queries == 0 || p.tokens == 0) return cudaSuccess;
  return p.slots ? run<true>(p, stream) : run<false>(p, stream);
}

int mla_splits(int queries, int heads, int tokens, int sms) {
  const int blocks = queries * ((heads + head_rows - 1) / head_rows);
  const int wanted = (2 * sms + blocks - 1) / blocks, most = (tokens + 127) / 128;
  const int splits = min(min(wanted, most), 64);
  // no part without tokens: rounding up to tiles may leave some
  const int tiles = (tokens + tile - 1) / tile, each = (tiles + splits - 1) / splits;
  return (tiles + each - 1) / each;
}
