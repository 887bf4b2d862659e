// Row kernels: a thread takes 16 elements, what one NVFP4 scale covers.

#include "calibrate/cuda/kernels/rows.hpp"

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include "calibrate/reference/fragments.hpp"

namespace {

constexpr int block = 16;
constexpr int threads = 256;

struct Values {
  float v[block];
};

__device__ inline void unpack(std::uint32_t pair, float& low, float& high) {
  low = __uint_as_float(pair << 16);
  high = __uint_as_float(pair & 0xffff0000U);
}
__device__ inline std::uint32_t pack(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}
__device__ inline Values load(const __nv_bfloat16* from) {
  Values out;
  const auto* words = reinterpret_cast<const uint4*>(from);
#pragma unroll
  for (int w = 0; w < 2; ++w) {
    const uint4 four = words[w];
    unpack(four.x, out.v[w * 8], out.v[w * 8 + 1]);
    unpack(four.y, out.v[w * 8 + 2], out.v[w * 8 + 3]);
    unpack(four.z, out.v[w * 8 + 4], out.v[w * 8 + 5]);
    unpack(four.w, out.v[w * 8 + 6], out.v[w * 8 + 7]);
  }
  return out;
}
__device__ inline void store(__nv_bfloat16* to, const Values& x) {
  auto* words = reinterpret_cast<uint4*>(to);
#pragma unroll
  for (int w = 0; w < 2; ++w)
    words[w] = {pack(x.v[w * 8], x.v[w * 8 + 1]), pack(x.v[w * 8 + 2], x.v[w * 8 + 3]),
                pack(x.v[w * 8 + 4], x.v[w * 8 + 5]), pack(x.v[w * 8 + 6], x.v[w * 8 + 7])};
}

__device__ inline std::uint32_t e2m1_pair(float low, float high) {
#if defined(__CUDA_ARCH_FAMILY_SPECIFIC__) && __CUDA_ARCH_FAMILY_SPECIFIC__ >= 1000
  std::uint32_t byte;
  asm("{ .reg .b8 pair; cvt.rn.satfinite.e2m1x2.f32 pair, %1, %2; cvt.u32.u8 %0, pair; }"
      : "=r"(byte)
      : "f"(high), "f"(low));
  return byte;
#else
  return fragments::e2m1_code(low) | fragments::e2m1_code(high) << 4;
#endif
}

// As reference::swizzled_scale.
__device__ inline std::size_t scale_place(ScaleLayout layout, int row, int at, int blocks) {
  if (layout == ScaleLayout::rows) return static_cast<std::size_t>(row) * blocks + at;
  const int tiles = (blocks + 3) / 4;
  const std::size_t tile = static_cast<std::size_t>(row / 128) * tiles + at / 4;
  return tile * 512 + row % 32 * 16 + row % 128 / 32 * 4 + at % 4;
}

__device__ inline void store_nvfp4(const Nvfp4Rows& out, int row, int at, int blocks,
                                   const Values& x) {
  float largest = 0;
#pragma unroll
  for (float v : x.v) largest = fmaxf(largest, fabsf(v));
  const __nv_fp8_storage_t scale = __nv_cvt_float_to_fp8(largest / 6, __NV_SATFINITE, __NV_E4M3);
  const float value = __half2float(__half(__nv_cvt_fp8_to_halfraw(scale, __NV_E4M3)));
  const float inverse = value > 0 ? 1 / value : 0;
  uint2 codes{0, 0};
#pragma unroll
  for (int i = 0; i < block; i += 2) {
    const std::uint32_t byte = e2m1_pair(x.v[i] * inverse, x.v[i + 1] * inverse);
    (i < 8 ? codes.x : codes.y) |= byte << (i % 8 * 4);
  }
  static_cast<uint2*>(out.codes)[static_cast<std::size_t>(row) * blocks + at] = codes;
  out.scales[scale_place(out.layout, row, at, blocks)] = scale;
}

__global__ void __launch_bounds__(threads)
    quantise_kernel(const __nv_bfloat16* x, int blocks, Nvfp4Rows out) {
  const int row = blockIdx.x;
  for (int at = threadIdx.x; at < blocks; at += threads)
    store_nvfp4(out, row, at, blocks,
                load(x + (static_cast<std::size_t>(row) * blocks + at) * block));
}

__global__ void __launch_bounds__(threads)
    rms_norm_kernel(const __nv_bfloat16* x, __nv_bfloat16* residual, const __nv_bfloat16* weight,
                    int blocks, Nvfp4Rows out) {
  __shared__ float sums[threads / 32];
  const int row = blockIdx.x;
  const std::size_t begin = static_cast<std::size_t>(row) * blocks;
  float sum = 0;
  for (int at = threadIdx.x; at < blocks; at += threads) {
    Values v = load(x + (begin + at) * block);
    const Values r = load(residual + (begin + at) * block);
#pragma unroll
    for (int i = 0; i < block; ++i) v.v[i] = __bfloat162float(__float2bfloat16_rn(v.v[i] + r.v[i]));
#pragma unroll
    for (float each : v.v) sum += each * each;
    store(residual + (begin + at) * block, v);
  }
  for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, lane);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (float each : sums) sum += each;
  const float factor = rsqrtf(sum / (static_cast<float>(blocks) * block) + 1e-6f);
  for (int at = threadIdx.x; at < blocks; at += threads) {
    Values v = load(residual + (begin + at) * block);  // what this thread has just written
    const Values w = load(weight + static_cast<std::size_t>(at) * block);
#pragma unroll
    for (int i = 0; i < block; ++i) v.v[i] *= factor * w.v[i];
    store_nvfp4(out, row, at, blocks, v);
  }
}

template <bool quantised>
__global__ void __launch_bounds__(threads)
    silu_mul_kernel(const __nv_bfloat16* gate_up, int inter_blocks, int blocks,
                    __nv_bfloat16* out_bf16, Nvfp4Rows out) {
  const int row = blockIdx.x;
  const std::size_t begin = static_cast<std::size_t>(row) * inter_blocks * 2;
  for (int at = threadIdx.x; at < blocks; at += threads) {
    Values v{};
    if (at < inter_blocks) {
      v = load(gate_up + (begin + at) * block);
      const Values up = load(gate_up + (begin + inter_blocks + at) * block);
#pragma unroll
      for (int i = 0; i < block; ++i) v.v[i] = v.v[i] / (1 + __expf(-v.v[i])) * up.v[i];
    }
    if constexpr (quantised)
      store_nvfp4(out, row, at, blocks, v);
    else
      store(out_bf16 + (static_cast<std::size_t>(row) * blocks + at) * block, v);
  }
}

__global__ void __launch_bounds__(threads)
    combine_kernel(const uint4* y, const std::int32_t* position, const float* weight, int top_k,
                   int words, uint4* out) {
  const int token = blockIdx.x;
  for (int at = threadIdx.x; at < words; at += threads) {
    float sum[8] = {};
    for (int k = 0; k < top_k; ++k) {
      const int pair = token * top_k + k, from = position[pair];
      if (from < 0) continue;
      const float w = weight[pair];
      const uint4 four = y[static_cast<std::size_t>(from) * words + at];
      const std::uint32_t pairs[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float low, high;
        unpack(pairs[i], low, high);
        sum[i * 2] += w * low;
        sum[i * 2 + 1] += w * high;
      }
    }
    out[static_cast<std::size_t>(token) * words + at] = {
        pack(sum[0], sum[1]), pack(sum[2], sum[3]), pack(sum[4], sum[5]), pack(sum[6], sum[7])};
  }
}

__global__ void __launch_bounds__(threads)
    gather_kernel(const uint4* table, const std::int32_t* index, int words, uint4* out) {
  const int row = blockIdx.x;
  const uint4* from = table + static_cast<std::size_t>(index[row]) * words;
  for (int at = threadIdx.x; at < words; at += threads)
    out[static_cast<std::size_t>(row) * words + at] = from[at];
}

__global__ void __launch_bounds__(threads)
    copy_kernel(const uint4* from, uint4* to, std::size_t words) {
  constexpr int each = 4;  // 64 bytes in flight per thread
  const std::size_t first = static_cast<std::size_t>(blockIdx.x) * threads * each + threadIdx.x;
  uint4 held[each];
#pragma unroll
  for (int i = 0; i < each; ++i)
    if (first + i * threads < words) held[i] = __ldcs(from + first + i * threads);
#pragma unroll
  for (int i = 0; i < each; ++i)
    if (first + i * threads < words) __stcs(to + first + i * threads, held[i]);
}

const __nv_bfloat16* bf16(const void* p) { return static_cast<const __nv_bfloat16*>(p); }
__nv_bfloat16* bf16(void* p) { return static_cast<__nv_bfloat16*>(p); }

}  // namespace

cudaError_t quantise_rows(const void* x, int rows, int k, const Nvfp4Rows& out,
                          cudaStream_t stream) {
  if (rows == 0) return cudaSuccess;
  quantise_kernel<<<rows, threads, 0, stream>>>(bf16(x), k / block, out);
  return cudaGetLastError();
}
cudaError_t rms_norm_quantise(const void* x, void* residual, const void* weight, int rows, int k,
                              const Nvfp4Rows& out, cudaStream_t stream) {
  if (rows == 0) return cudaSuccess;
  rms_norm_kernel<<<rows, threads, 0, stream>>>(bf16(x), bf16(residual), bf16(weight), k / block,
                                                out);
  return cudaGetLastError();
}
cudaError_t silu_mul(const void* gate_up, int rows, int inter, int k, void* out_bf16,
                     cudaStream_t stream) {
  if (rows == 0) return cudaSuccess;
  silu_mul_kernel<false>
      <<<rows, threads, 0, stream>>>(bf16(gate_up), inter / block, k / block, bf16(out_bf16), {});
  return cudaGetLastError();
}
cudaError_t silu_mul_quantise(const void* gate_up, int rows, int inter, int k, const Nvfp4Rows& out,
                              cudaStream_t stream) {
  if (rows == 0) return cudaSuccess;
  silu_mul_kernel<true>
      <<<rows, threads, 0, stream>>>(bf16(gate_up), inter / block, k / block, nullptr, out);
  return cudaGetLastError();
}
cudaError_t combine_rows(const void* y, const std::int32_t* position, const float* weight,
                         int tokens, int top_k, int width, void* out, cudaStream_t stream) {
  if (tokens == 0) return cudaSuccess;
  combine_kernel<<<tokens, threads, 0, stream>>>(static_cast<const uint4*>(y), position, weight,
                                                 top_k, width / 8, static_cast<uint4*>(out));
  return cudaGetLastError();
}
cudaError_t gather_rows(const void* table, const std::int32_t* index, int rows,
                        std::size_t row_bytes, void* out, cudaStream_t stream) {
  if (rows == 0) return cudaSuccess;
  gather_kernel<<<rows, threads, 0, stream>>>(static_cast<const uint4*>(table), index,
                                              static_cast<int>(row_bytes / 16),
                                              static_cast<uint4*>(out));
  return cudaGetLastError();
}
cudaError_t stream_copy(const void* from, void* to, std::size_t bytes, cudaStream_t stream) {
  const std::size_t words = bytes / 16;
  if (words == 0) return cudaSuccess;
  copy_kernel<<<static_cast<unsigned>((words + threads * 4 - 1) / (threads * 4)), threads, 0,
                stream>>>(static_cast<const uint4*>(from), static_cast<uint4*>(to), words);
  return cudaGetLastError();
}
