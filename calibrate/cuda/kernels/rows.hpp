#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

/// Kernels that move rows: norms, activations, quantisers, gathers. Plain C++17, as .cu files
/// include it. Rows are bf16; NVFP4 is e2m1 pairs and a ue4m3 scale for 16 elements, scale =
/// largest / 6, without a second scale for the tensor.

/// How the scales of a quantised matrix lie: row by row, or in the tiles of 128 x 4 of
/// reference::swizzled_scale.
enum class ScaleLayout { rows, swizzled };

struct Nvfp4Rows {
  void* codes;           // [rows, k / 2]
  std::uint8_t* scales;  // [rows, k / 16]
  ScaleLayout layout;
};

/// k a multiple of 16.
cudaError_t quantise_rows(const void* x, int rows, int k, const Nvfp4Rows& out,
                          cudaStream_t stream);

/// residual += x; out = residual / rms(residual) * weight, quantised.
cudaError_t rms_norm_quantise(const void* x, void* residual, const void* weight, int rows, int k,
                              const Nvfp4Rows& out, cudaStream_t stream);

/// SiLU(gate) * up of rows [gate | up] of `inter` each, inter a multiple of 16; columns from
/// `inter` to `k` become 0.
cudaError_t silu_mul(const void* gate_up, int rows, int inter, int k, void* out_bf16,
                     cudaStream_t stream);
cudaError_t silu_mul_quantise(const void* gate_up, int rows, int inter, int k, const Nvfp4Rows& out,
                              cudaStream_t stream);

/// out[token] = sum over top_k of weight[pair] * y[position[pair]], pair = token x top_k + rank; a
/// negative position is left out. `width` a multiple of 8.
cudaError_t combine_rows(const void* y, const std::int32_t* position, const float* weight,
                         int tokens, int top_k, int width, void* out, cudaStream_t stream);

/// out[i] = table[index[i]], rows of `row_bytes`, a multiple of 16.
cudaError_t gather_rows(const void* table, const std::int32_t* index, int rows,
                        std::size_t row_bytes, void* out, cudaStream_t stream);

/// to = from, `bytes` a multiple of 16.
cudaError_t stream_copy(const void* from, void* to, std::size_t bytes, cudaStream_t stream);
