#pragma once

#include "calibrate/cuda/attention/cudnn_graph.hpp"

/// Sizes of one attention call. Keys and values of MLA share their memory: `value_dim` of the
/// first columns of the keys.
struct AttentionShape {
  std::int64_t batch = 1, heads = 1, kv_heads = 1, query_rows = 1, length = 1;
  std::int64_t dim = 128, value_dim = 128;
};

/// What the caller binds, by number in the graph; -1 where the graph has no such tensor.
struct AttentionTensors {
  Tensor q = -1, k = -1, v = -1, out = -1, scale = -1, minus_infinity = -1;
  Tensor pages_k = -1, pages_v = -1, length_q = -1, length_kv = -1, stats = -1;
};
struct AttentionGraph {
  CudnnGraph graph;
  AttentionTensors at;
};

inline constexpr std::int64_t attention_page = 64;  // tokens

/// Causal prefill of whole prompts, [batch, heads, rows, dim] in bfloat16, as the composite graph
/// that cuDNN fuses.
AttentionGraph prefill_graph(const AttentionShape& shape);
/// One new token per sequence against a paged cache, bfloat16, as cuDNN's one operation. Each page
/// holds 64 tokens of every KV head.
AttentionGraph decode_graph(const AttentionShape& shape);
