#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "calibrate/reference/routing.hpp"

/// Grouped GEMMs over rows sorted by expert. Plain C++17, as .cu files include it.

enum class ExpertKind {
  block_scale,  // NVFP4 x NVFP4 by the tensor cores of compute capability 12.x
  w4a16,        // NVFP4 weights become bf16 in registers
  bf16,
};

/// K is a multiple of this for every kind: of one step along it.
inline constexpr int expert_k_step = 128;
/// Rows of a tile that a kernel exists for.
inline constexpr int expert_tile_rows[] = {16, 64, 128};

/// out[row, n] = alpha * sum over k of a[source of row, k] * w[expert, n, k].
struct GroupedGemm {
  const void* a;                 // [*, k] bf16 or, for block_scale, e2m1 pairs
  const std::uint8_t* a_scales;  // block_scale: [*, k / 16] ue4m3
  const void* w;                 // [experts, n, k] e2m1 pairs or bf16
  const std::uint8_t* w_scales;  // [experts, n, k / 16] ue4m3
  const std::int32_t* a_rows;    // source of each sorted row; null: the row itself
  const reference::ExpertTile* tiles;
  void* out;  // [rows, n] bf16
  int n, k;   // n even
  float alpha;
};

/// `tile_rows` is the one the tiles were cut with.
cudaError_t grouped_gemm(ExpertKind kind, int tile_rows, const GroupedGemm& gemm, int tiles,
                         cudaStream_t stream);
