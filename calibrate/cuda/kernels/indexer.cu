// Indexer logits: a warp takes 16 keys as A (straight from memory, 32 bytes a lane) and all heads
// of one query as B, held in registers; relu, weights and the sum over heads follow in registers.
// Top-k: a block per row finds the least score that is picked, 11 bits of it at a time, then picks.

#include "calibrate/cuda/kernels/indexer.hpp"
#include "calibrate/cuda/kernels/warp.cuh"

namespace {

using namespace fragments;

constexpr int warps = 8, keys_each = 16, rounds = 4;
constexpr int strip = warps * keys_each * rounds;  // keys of a block
static_assert(index_page % keys_each == 0, "the keys of a warp lie in one page");

struct LaneBytes {
  std::uint32_t
      w[8];  // bytes 32 (lane % 4) .. + 31 of a row: instruction s takes words 2 s, 2 s + 1
};
__device__ inline LaneBytes load_row(const void* row, int lane) {
  const auto* from = static_cast<const uint4*>(row) + lane % 4 * 2;
  const uint4 a = __ldg(from), b = __ldg(from + 1);
  return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
}

template <int heads>
__global__ void __launch_bounds__(warps * 32)
    index_logits_kernel(const __grid_constant__ IndexLogits p) {
  constexpr int n_tiles = heads / 8;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4;
  const int query = blockIdx.x, sequence = query / p.queries_each;
  const int seen = p.tokens - p.queries_each + query % p.queries_each + 1;
  int token = blockIdx.y * strip + warp * keys_each;
  if (token >= seen) return;

  std::uint32_t b[n_tiles][8];
  float weights[n_tiles][2];
  const std::size_t row0 = static_cast<std::size_t>(query) * heads;
#pragma unroll
  for (int n = 0; n < n_tiles; ++n) {
    const LaneBytes bytes =
        load_row(static_cast<const char*>(p.q) + (row0 + n * 8 + group) * index_dim, lane);
#pragma unroll
    for (int i = 0; i < 8; ++i) b[n][i] = bytes.w[i];
    weights[n][0] = p.weights[row0 + n * 8 + c(lane, 0).column];
    weights[n][1] = p.weights[row0 + n * 8 + c(lane, 1).column];
  }
  const std::int32_t* pages = p.pages + static_cast<std::size_t>(sequence) * p.pages_each;
#pragma unroll 1
  for (int round = 0; round < rounds && token < seen; ++round, token += warps * keys_each) {
    const std::size_t slot =
        static_cast<std::size_t>(pages[token / index_page]) * index_page + token % index_page;
    const auto* keys = static_cast<const char*>(p.keys) + slot * index_dim;
    const LaneBytes upper = load_row(keys + group * index_dim, lane);
    const LaneBytes lower = load_row(keys + (group + 8) * index_dim, lane);
    float sums[2] = {0, 0};  // of keys `group` and `group + 8`, this lane's heads
#pragma unroll
    for (int n = 0; n < n_tiles; ++n) {
      float d[4] = {};
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        const std::uint32_t a[4] = {upper.w[s * 2], lower.w[s * 2], upper.w[s * 2 + 1],
                                    lower.w[s * 2 + 1]};
        mma_e4m3(d, a, b[n][s * 2], b[n][s * 2 + 1]);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[i / 2] += weights[n][i % 2] * fmaxf(d[i], 0);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      sums[r] += __shfl_xor_sync(0xffffffffU, sums[r], 1);
      sums[r] += __shfl_xor_sync(0xffffffffU, sums[r], 2);
      const int at = group + r * 8;
      if (lane % 4 == 0 && token + at < seen)
        p.logits[static_cast<std::size_t>(query) * p.tokens + token + at] =
            sums[r] * p.key_scales[slot + at];
    }
  }
}

constexpr int select_threads = 512, bins = 2048;

// Unsigned numbers in the order of the scores.
__device__ inline std::uint32_t ordered(float score) {
  const std::uint32_t bits = __float_as_uint(score);
  return bits & 0x80000000U ? ~bits : bits | 0x80000000U;
}

__global__ void __launch_bounds__(select_threads)
    select_top_kernel(const float* all, int queries_each, int tokens, int count,
                      std::int32_t* all_picks) {
  __shared__ int histogram[bins];
  __shared__ int sums[select_threads / 32];
  __shared__ std::uint32_t found_bin;
  __shared__ int found_left, taken, ties;
  const int row = blockIdx.x, thread = threadIdx.x;
  const int seen = tokens - queries_each + row % queries_each + 1;
  const float* scores = all + static_cast<std::size_t>(row) * tokens;
  std::int32_t* picks = all_picks + static_cast<std::size_t>(row) * count;
  if (seen <= count) {
    for (int i = thread; i < count; i += select_threads) picks[i] = i < seen ? i : -1;
    return;
  }
  std::uint32_t prefix = 0;  // bits of the least picked score that are known, at the top
  int left = count;          // still to be picked among the scores with that prefix
  constexpr int shifts[3] = {21, 10, 0}, widths[3] = {11, 11, 10};
  for (int pass = 0; pass < 3; ++pass) {
    const int shift = shifts[pass], known = shift + widths[pass];
    for (int i = thread; i < bins; i += select_threads) histogram[i] = 0;
    __syncthreads();
    for (int i = thread; i < seen; i += select_threads) {
      const std::uint32_t key = ordered(scores[i]);
      if (pass == 0 || key >> known == prefix >> known)
        atomicAdd(&histogram[key >> shift & ((1U << widths[pass]) - 1)], 1);
    }
    __syncthreads();
    // Each thread holds four bins, thread 0 the largest; how many lie in larger ones?
    constexpr int each = bins / select_threads;
    const int top = bins - 1 - thread * each;
    int own = 0;
    for (int i = 0; i < each; ++i) own += histogram[top - i];
    int before = own;
    for (int step = 1; step < 32; step *= 2) {
      const int other = __shfl_up_sync(0xffffffffU, before, step);
      if (thread % 32 >= step) before += other;
    }
    if (thread % 32 == 31) sums[thread / 32] = before;
    __syncthreads();
    for (int w = 0; w < thread / 32; ++w) before += sums[w];
    before -= own;
    if (before < left && left <= before + own)
      for (int i = 0, larger = before; i < each; larger += histogram[top - i], ++i)
        if (larger < left && left <= larger + histogram[top - i]) {
          found_bin = static_cast<std::uint32_t>(top - i);
          found_left = left - larger;
        }
    __syncthreads();
    prefix |= found_bin << shift;
    left = found_left;
  }
  if (thread == 0) taken = ties = 0;
  __syncthreads();
  for (int i = thread; i < seen; i += select_threads) {
    const std::uint32_t key = ordered(scores[i]);
    if (key > prefix || (key == prefix && atomicAdd(&ties, 1) < left))
      picks[atomicAdd(&taken, 1)] = i;
  }
}

}  // namespace

cudaError_t index_logits(const IndexLogits& p, cudaStream_t stream) {
  if (p.queries == 0) return cudaSuccess;
  const dim3 grid(p.queries, (p.tokens + strip - 1) / strip);
  if (p.heads == 32)
    index_logits_kernel<32><<<grid, warps * 32, 0, stream>>>(p);
  else if (p.heads == 64)
    index_logits_kernel<64><<<grid, warps * 32, 0, stream>>>(p);
  else
    return cudaErrorInvalidValue;
  return cudaGetLastError();
}

cudaError_t select_top(const float* scores, int rows, int queries_each, int tokens, int count,
                       std::int32_t* picks, cudaStream_t stream) {
  if (rows == 0) return cudaSuccess;
  select_top_kernel<<<rows, select_threads, 0, stream>>>(scores, queries_each, tokens, count,
                                                         picks);
  return cudaGetLastError();
}
