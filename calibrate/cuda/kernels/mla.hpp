#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

/// Attention of single queries over a paged latent cache (MLA decode), dense or over picked tokens.
/// Plain C++17, as .cu files include it.

inline constexpr int mla_latent = 576, mla_value = 512, mla_page = 64;

/// bf16 everywhere; `partial` and `stats` are room for the parts that are combined.
struct MlaDecode {
  const void* q;   // [queries, heads, 576]
  const void* kv;  // [slots, 576]
  /// Dense: pages of each query's sequence, [queries, pages], tokens 0 .. tokens - 1.
  const std::int32_t* pages;
  int pages_each;
  /// Sparse: slots of each query, [queries, tokens]; negative: none. Null: dense.
  const std::int32_t* slots;
  int queries, heads, tokens, splits;
  float scale;
  float* partial;  // [queries, heads, splits, 512]
  float* stats;    // [queries, heads, splits, 2]: largest score (base 2), sum
  void* out;       // [queries, heads, 512]
};

cudaError_t mla_decode(const MlaDecode& decode, cudaStream_t stream);
/// Parts that keep the SMs busy: at least 128 tokens each, at most 64.
int mla_splits(int queries, int heads, int tokens, int sms);
