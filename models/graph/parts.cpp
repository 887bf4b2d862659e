#include "models/graph/parts.hpp"

Operator GraphParts::small(std::string name, int launches, std::int64_t bytes_per_row, Rows rows) {
  return {std::move(name), "small kernels", launches, ElementwiseOp{bytes_per_row, rows}};
}

Operator GraphParts::in_place(std::string name, std::int64_t bytes_per_row) {
  return {std::move(name), "small kernels", 1, ElementwiseOp{bytes_per_row, Rows::tokens, true}};
}

void GraphParts::all_reduce(Operators& ops) const {
  if (o_.tensor_parallel == 1) return;
  ops.push_back({"all_reduce", "all-reduce", 1,
                 CollectiveOp{Collective::all_reduce, m_.hidden * activation, Rows::tokens}});
}

GraphParts::Operators GraphParts::embedding() const {
  Operators ops = {small("embedding", 2, 2 * m_.hidden * activation)};
  all_reduce(ops);
  return ops;
}

void GraphParts::feed_forward(Operators& ops, bool dense) const {
  ops.push_back(in_place("post_attention_norm", 4 * m_.hidden * activation));
  if (dense)
    mlp(ops, "dense MLP", m_.dense_inter / o_.tensor_parallel, m_.precision.dense_mlp, false);
  else
    moe(ops);
  all_reduce(ops);
}

// gate_up, activation, down. Quantised GEMMs launch a quantiser of their own, whose time is in
// the GEMM's table.
void GraphParts::mlp(Operators& ops, const std::string& group, std::int64_t inter, Precision p,
                     bool side) const {
  const int launches = p == Precision::bf16 ? 1 : 2;
  ops.push_back({"gate_up", group, launches, GemmOp{2 * inter, m_.hidden, p}, side});
  ops.push_back(
      {"activation", group, 1, ElementwiseOp{3 * inter * activation, Rows::tokens}, side});
  ops.push_back({"down", group, launches, GemmOp{m_.hidden, inter, p}, side});
}

void GraphParts::moe(Operators& ops) const {
  const MoeSpec& e = *m_.moe;
  const std::int64_t inter = e.inter / o_.tensor_parallel;
  if (e.shared_experts > 0)
    mlp(ops, "shared expert", inter * e.shared_experts, m_.precision.shared_experts, true);
  ops.push_back({"router", "router", 1, GemmOp{e.experts, m_.hidden, m_.precision.router}});
  // top-k, quantise, route and permute (4), GEMM 1, activation and quantise, GEMM 2, finalise
  ops.push_back({"routed_experts", "routed experts", 10,
                 MoeOp{m_.hidden, static_cast<int>(inter), e.experts_per_token, e.experts,
                       o_.tensor_parallel, m_.precision.experts, o_.bf16_activations}});
  if (e.shared_experts > 0) {
    ops.push_back(small("add_shared", 1, 3 * m_.hidden * activation));
    ops.back().join = true;
  }
}

GraphParts::Operators GraphParts::head(double sampling_bytes) const {
  Operators ops = {in_place("final_norm", 4 * m_.hidden * activation)};
  const std::int64_t vocab = m_.vocab;
  ops.push_back(
      {"lm_head", "head and sampling", 2,
       GemmOp{vocab / o_.tensor_parallel, m_.hidden, m_.precision.lm_head, Rows::sequences}});
  if (o_.tensor_parallel > 1)
    ops.push_back({"logits_all_gather", "logits all-gather", 1,
                   CollectiveOp{Collective::all_gather, vocab * activation, Rows::sequences}});
  ops.push_back(
      {"sampling", "head and sampling", 10,
       ElementwiseOp{static_cast<std::int64_t>(m_.vocab * sampling_bytes), Rows::sequences}});
  return ops;
}
