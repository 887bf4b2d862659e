#include "calibrate/cuda/attention/attention_graphs.hpp"

namespace {

// Strides of [batch, rows, heads, columns] in memory, as [batch, heads, rows, columns].
std::vector<std::int64_t> token_major(std::int64_t heads, std::int64_t rows, std::int64_t columns) {
  return {heads * rows * columns, columns, heads * columns, 1};
}

}  // namespace

AttentionGraph prefill_graph(const AttentionShape& s) {
  AttentionGraph out;
  CudnnGraph& g = out.graph;
  AttentionTensors& t = out.at;
  const auto rows = s.query_rows, columns = s.length;
  const std::vector<std::int64_t> square{s.batch, s.heads, rows, columns},
      column{s.batch, s.heads, rows, 1};
  t.q = g.tensor(CUDNN_DATA_BFLOAT16, {s.batch, s.heads, rows, s.dim},
                 token_major(s.heads, rows, s.dim));
  // transposed for the product: [batch, heads, dim, columns]
  t.k = g.tensor(CUDNN_DATA_BFLOAT16, {s.batch, s.kv_heads, s.dim, columns},
                 {s.kv_heads * columns * s.dim, s.dim, 1, s.kv_heads * s.dim});
  t.v = g.tensor(CUDNN_DATA_BFLOAT16, {s.batch, s.kv_heads, columns, s.value_dim},
                 token_major(s.kv_heads, columns, s.value_dim));
  t.out = g.tensor(CUDNN_DATA_BFLOAT16, {s.batch, s.heads, rows, s.value_dim},
                   token_major(s.heads, rows, s.value_dim));
  t.scale = g.scalar();
  t.minus_infinity = g.scalar();

  const Tensor scores = g.inner(CUDNN_DATA_FLOAT, square);
  g.matmul(t.q, t.k, scores);
  const Tensor scaled = g.inner(CUDNN_DATA_FLOAT, square);
  g.pointwise(CUDNN_POINTWISE_MUL, scores, t.scale, -1, scaled);
  const Tensor row = g.inner(CUDNN_DATA_INT32, square), col = g.inner(CUDNN_DATA_INT32, square);
  g.index(scaled, 2, row);
  g.index(scaled, 3, col);
  const Tensor seen = g.inner(CUDNN_DATA_BOOLEAN, square);
  g.pointwise(CUDNN_POINTWISE_CMP_GE, row, col, -1, seen);
  const Tensor masked = g.inner(CUDNN_DATA_FLOAT, square);
  g.pointwise(CUDNN_POINTWISE_BINARY_SELECT, scaled, t.minus_infinity, seen, masked);
  // softmax, with the logarithm of its sum, which the fused kernels want even unused
  const Tensor most = g.inner(CUDNN_DATA_FLOAT, column);
  g.reduce(CUDNN_REDUCE_TENSOR_MAX, masked, most);
  const Tensor shifted = g.inner(CUDNN_DATA_FLOAT, square);
  g.pointwise(CUDNN_POINTWISE_SUB, masked, most, -1, shifted);
  const Tensor powers = g.inner(CUDNN_DATA_FLOAT, square);
  g.pointwise(CUDNN_POINTWISE_EXP, shifted, -1, -1, powers);
  const Tensor sum = g.inner(CUDNN_DATA_FLOAT, column);
  g.reduce(CUDNN_REDUCE_TENSOR_ADD, powers, sum);
  const Tensor log_sum = g.inner(CUDNN_DATA_FLOAT, column);
  g.pointwise(CUDNN_POINTWISE_LOG, sum, -1, -1, log_sum);
  const Tensor stats = g.inner(CUDNN_DATA_FLOAT, column);
  g.pointwise(CUDNN_POINTWISE_ADD, most, log_sum, -1, stats);
  const Tensor weights = g.inner(CUDNN_DATA_BFLOAT16, square);
  g.pointwise(CUDNN_POINTWISE_DIV, powers, sum, -1, weights);
  g.matmul(weights, t.v, t.out);
  return out;
}

AttentionGraph decode_graph(const AttentionShape& s) {
  AttentionGraph out;
  CudnnGraph& g = out.graph;
  AttentionTensors& t = out.at;
  const auto pages = (s.length + attention_page - 1) / attention_page;
  const auto all_pages = s.batch * pages;
  t.q = g.tensor(CUDNN_DATA_BFLOAT16, {s.batch, s.heads, 1, s.dim},
                 {s.heads * s.dim, s.dim, s.heads * s.dim, 1});
  // A page: [64 tokens, kv heads, dim]. The values of MLA are columns of its keys.
  const std::vector<std::int64_t> strides{attention_page * s.kv_heads * s.dim, s.dim,
                                          s.kv_heads * s.dim, 1};
  t.k = g.tensor(CUDNN_DATA_BFLOAT16, {all_pages, s.kv_heads, attention_page, s.dim}, strides);
  t.v =
      g.tensor(CUDNN_DATA_BFLOAT16, {all_pages, s.kv_heads, attention_page, s.value_dim}, strides);
  t.out = g.tensor(CUDNN_DATA_BFLOAT16, {s.batch, s.heads, 1, s.value_dim},
                   {s.heads * s.value_dim, s.value_dim, s.heads * s.value_dim, 1});
  t.scale = g.scalar();
  t.pages_k = g.tensor(CUDNN_DATA_INT32, {s.batch, 1, pages, 1}, {pages, pages, 1, 1});
  t.pages_v = g.tensor(CUDNN_DATA_INT32, {s.batch, 1, pages, 1}, {pages, pages, 1, 1});
  t.length_q = g.tensor(CUDNN_DATA_INT32, {s.batch, 1, 1, 1}, {1, 1, 1, 1});
  t.length_kv = g.tensor(CUDNN_DATA_INT32, {s.batch, 1, 1, 1}, {1, 1, 1, 1});
  g.attention({t.q, t.k, t.v, t.out, t.scale, t.pages_k, t.pages_v, t.length_q, t.length_kv});
  return out;
}
