// Kernel by kernel, as SGLang 0.5.9 runs deepseek_v2.py (read 2026-02 to 2026-04): 34 launches per
// MoE layer with dense MLA, 48 with the indexer; 2,633 and 3,725 a pass of GLM-5.
// Leaves out: expert and data parallelism, the MHA form of prefill, fused variants of the norms.

#include "models/graph/mla_moe_graph.hpp"

#include <algorithm>

#include "sim/base/assert.hpp"

int ModelGraph::launches() const {
  int n = 0;
  for (const auto& block : blocks)
    for (const auto& op : block.operators) n += block.repeat * op.launches;
  return n;
}

int ModelGraph::count(Collective wanted) const {
  int n = 0;
  for (const auto& block : blocks)
    for (const auto& op : block.operators)
      if (const auto* c = std::get_if<CollectiveOp>(&op.work); c && c->op == wanted)
        n += block.repeat;
  return n;
}

namespace {

constexpr std::int64_t activation = 2;  // bytes of a bf16 activation

class Builder {
 public:
  Builder(const ModelSpec& m, const GraphOptions& o) : m_(m), o_(o) {}

  ModelGraph build() const {
    ModelGraph graph;
    graph.blocks.push_back({"embedding", 1, embedding()});
    // Indexers sit in the first layers for certain; where the others lie does not change a sum.
    int indexers = o_.sparse_attention ? o_.indexer_layers.value_or(m_.layers) : 0;
    for (const bool dense : {true, false}) {
      const int layers = dense ? m_.dense_layers : m_.layers - m_.dense_layers;
      const std::string name = dense ? "dense layer" : "MoE layer";
      const int with = std::min(layers, indexers);
      indexers -= with;
      if (with > 0) graph.blocks.push_back({name, with, layer(dense, true), true});
      if (layers > with)
        graph.blocks.push_back({o_.sparse_attention ? name + " without indexer" : name,
                                layers - with, layer(dense, false), true});
    }
    graph.blocks.push_back({"head", 1, head()});
    return graph;
  }

 private:
  using Operators = std::vector<Operator>;

  static Operator small(std::string name, int launches, std::int64_t bytes_per_row,
                        Rows rows = Rows::tokens) {
    return {std::move(name), "small kernels", launches, ElementwiseOp{bytes_per_row, rows}};
  }

  void all_reduce(Operators& ops) const {
    if (o_.tensor_parallel == 1) return;
    ops.push_back({"all_reduce", "all-reduce", 1,
                   CollectiveOp{Collective::all_reduce, m_.hidden * activation, Rows::tokens}});
  }

  Operators embedding() const {
    Operators ops = {small("embedding", 2, 2 * m_.hidden * activation)};
    all_reduce(ops);
    return ops;
  }

  void indexer(Operators& ops) const {
    const auto& i = *m_.indexer;
    const auto p = m_.precision.attention;
    const std::int64_t q = std::int64_t{i.heads} * i.dim;
    ops.push_back({"indexer_q", "indexer", 1, GemmOp{q, m_.attention.q_lora, p}});
    ops.push_back({"indexer_k_weights", "indexer", 2, GemmOp{i.dim + i.heads, m_.hidden, p}});
    // k-norm, rope of q and k, Hadamard of q and k, quantise q and k, gate, store the keys
    ops.push_back({"indexer_small", "indexer", 9, ElementwiseOp{2 * q * activation, Rows::tokens}});
    ops.push_back({"indexer_top_k", "indexer", 2, IndexerOp{i.heads, i.dim, i.top_k}});
  }

  Operators layer(bool dense, bool own_indexer) const {
    const auto& a = m_.attention;
    const std::int64_t hidden = m_.hidden, heads = a.heads / o_.tensor_parallel;
    const auto p = m_.precision.attention;
    const std::int64_t q_width = heads * (a.nope + a.rope);
    Operators ops;
    ops.push_back(small("input_norm", 1, 4 * hidden * activation));
    ops.push_back({"q_a_kv_a", "attention projections", 1,
                   GemmOp{std::int64_t{a.q_lora} + a.kv_lora + a.rope, hidden, p}});
    ops.push_back(small("q_kv_norm", 2, (a.q_lora + a.kv_lora) * activation));
    ops.push_back({"q_b", "attention projections", 1, GemmOp{q_width, a.q_lora, p}});
    ops.push_back(
        {"absorbed_q", "attention projections", 1, BatchedGemmOp{heads, a.kv_lora, a.nope}});
    ops.push_back(small("rope", 1, 2 * (heads + 1) * a.rope * activation));
    if (own_indexer) indexer(ops);
    ops.push_back(small("kv_write_q_concat", 3, heads * (a.kv_lora + a.rope) * activation));
    ops.push_back({"attention", "attention", 2,
                   MlaOp{static_cast<int>(heads), a.kv_lora, a.rope,
                         o_.sparse_attention ? m_.indexer->top_k : 0, o_.kv}});
    ops.push_back({"absorbed_v", "attention projections", 1, BatchedGemmOp{heads, a.v, a.kv_lora}});
    ops.push_back({"o_proj", "attention projections", 1, GemmOp{hidden, heads * a.v, p}});
    all_reduce(ops);
    ops.push_back(small("post_attention_norm", 1, 4 * hidden * activation));
    if (dense)
      mlp(ops, "dense MLP", m_.dense_inter / o_.tensor_parallel, m_.precision.dense_mlp, false);
    else
      moe(ops);
    all_reduce(ops);
    return ops;
  }

  // gate_up, activation, down. Quantised GEMMs launch a quantiser of their own, whose time is in
  // the GEMM's table.
  void mlp(Operators& ops, const std::string& group, std::int64_t inter, Precision p,
           bool side) const {
    const int launches = p == Precision::bf16 ? 1 : 2;
    ops.push_back({"gate_up", group, launches, GemmOp{2 * inter, m_.hidden, p}, side});
    ops.push_back(
        {"activation", group, 1, ElementwiseOp{3 * inter * activation, Rows::tokens}, side});
    ops.push_back({"down", group, launches, GemmOp{m_.hidden, inter, p}, side});
  }

  void moe(Operators& ops) const {
    const std::int64_t inter = m_.moe.inter / o_.tensor_parallel;
    if (m_.moe.shared_experts > 0)
      mlp(ops, "shared expert", inter * m_.moe.shared_experts, m_.precision.shared_experts, true);
    ops.push_back({"router", "router", 1, GemmOp{m_.moe.experts, m_.hidden, m_.precision.router}});
    // top-k, quantise, route and permute (4), GEMM 1, activation and quantise, GEMM 2, finalise
    ops.push_back(
        {"routed_experts", "routed experts", 10,
         MoeOp{m_.hidden, static_cast<int>(inter), m_.moe.experts_per_token, m_.moe.experts,
               o_.tensor_parallel, m_.precision.experts, o_.bf16_activations}});
    if (m_.moe.shared_experts > 0) {
      ops.push_back(small("add_shared", 1, 3 * m_.hidden * activation));
      ops.back().join = true;
    }
  }

  Operators head() const {
    Operators ops = {small("final_norm", 1, 4 * m_.hidden * activation)};
    const std::int64_t vocab = m_.vocab;
    ops.push_back(
        {"lm_head", "head and sampling", 2,
         GemmOp{vocab / o_.tensor_parallel, m_.hidden, m_.precision.lm_head, Rows::sequences}});
    if (o_.tensor_parallel > 1)
      ops.push_back({"logits_all_gather", "logits all-gather", 1,
                     CollectiveOp{Collective::all_gather, vocab * activation, Rows::sequences}});
    ops.push_back({"sampling", "head and sampling", 10, ElementwiseOp{vocab * 4, Rows::sequences}});
    return ops;
  }

  const ModelSpec& m_;
  const GraphOptions& o_;
};

}  // namespace

ModelGraph build_mla_moe_graph(const ModelSpec& model, const GraphOptions& options) {
  SIM_ASSERT(tensor_parallel_obstacle(model, options.tensor_parallel).empty());
  SIM_ASSERT(!options.sparse_attention || model.indexer);
  return Builder(model, options).build();
}
