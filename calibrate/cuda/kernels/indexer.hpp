#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

/// DSA's indexer: scores of all keys in FP8, and the choice of the largest. Plain C++17, as .cu
/// files include it.

inline constexpr int index_dim = 128, index_page = 64;

struct IndexLogits {
  const void* q;              // [queries, heads, 128] e4m3
  const float* weights;       // [queries, heads]
  const void* keys;           // [slots, 128] e4m3
  const float* key_scales;    // [slots]
  const std::int32_t* pages;  // [sequences, pages_each]
  int pages_each;
  int queries, queries_each;  // of all sequences; of one, the last of its tokens
  int heads;                  // 32 or 64
  int tokens;                 // of each sequence, the queries' own among them
  float* logits;              // [queries, tokens]; a query writes the tokens that it sees
};
cudaError_t index_logits(const IndexLogits& logits, cudaStream_t stream);

/// Indices of the `count` largest of each row's first `seen` scores, in no order; where there are
/// fewer all of them, then -1. Row r of sequence r / queries_each sees tokens - queries_each + r %
/// queries_each + 1.
cudaError_t select_top(const float* scores, int rows, int queries_each, int tokens, int count,
                       std::int32_t* picks, cudaStream_t stream);
