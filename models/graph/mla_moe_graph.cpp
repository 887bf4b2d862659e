// Kernel by kernel, as SGLang 0.5.9 runs deepseek_v2.py (read 2026-02 to 2026-04): 34 launches per
// MoE layer with dense MLA, 48 with the indexer; 2,633 and 3,725 a pass of GLM-5.
// Leaves out: expert and data parallelism, the MHA form of prefill, fused variants of the norms.

#include "models/graph/mla_moe_graph.hpp"

#include <algorithm>

#include "models/graph/parts.hpp"
#include "sim/base/assert.hpp"

namespace {

class Builder : GraphParts {
 public:
  Builder(const ModelSpec& m, const GraphOptions& o)
      : GraphParts(m, o), m_(m), a_(*m.mla()), o_(o) {}

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
    graph.blocks.push_back({"head", 1, head(4)});
    return graph;
  }

 private:
  void indexer(Operators& ops) const {
    const auto& i = *m_.indexer;
    const auto p = m_.precision.attention;
    const std::int64_t q = std::int64_t{i.heads} * i.dim;
    ops.push_back({"indexer_q", "indexer", 1, GemmOp{q, a_.q_lora, p}});
    ops.push_back({"indexer_k_weights", "indexer", 2, GemmOp{i.dim + i.heads, m_.hidden, p}});
    // k-norm, rope of q and k, Hadamard of q and k, quantise q and k, gate, store the keys
    ops.push_back({"indexer_small", "indexer", 9, ElementwiseOp{2 * q * activation, Rows::tokens}});
    ops.push_back({"indexer_top_k", "indexer", 2, IndexerOp{i.heads, i.dim, i.top_k}});
  }

  Operators layer(bool dense, bool own_indexer) const {
    const auto& a = a_;
    const std::int64_t hidden = m_.hidden, heads = a.heads / o_.tensor_parallel;
    const auto p = m_.precision.attention;
    const std::int64_t q_width = heads * (a.nope + a.rope);
    Operators ops;
    ops.push_back(in_place("input_norm", 4 * hidden * activation));
    ops.push_back({"q_a_kv_a", "attention projections", 1,
                   GemmOp{std::int64_t{a.q_lora} + a.kv_lora + a.rope, hidden, p}});
    ops.push_back(small("q_kv_norm", 2, (a.q_lora + a.kv_lora) * activation));
    ops.push_back({"q_b", "attention projections", 1, GemmOp{q_width, a.q_lora, p}});
    ops.push_back(
        {"absorbed_q", "attention projections", 1, BatchedGemmOp{heads, a.kv_lora, a.nope}});
    ops.push_back(in_place("rope", 2 * (heads + 1) * a.rope * activation));
    if (own_indexer) indexer(ops);
    ops.push_back(small("kv_write_q_concat", 3, heads * (a.kv_lora + a.rope) * activation));
    ops.push_back({"attention", "attention", 2,
                   MlaOp{static_cast<int>(heads), a.kv_lora, a.rope,
                         o_.sparse_attention ? m_.indexer->top_k : 0, o_.kv}});
    ops.push_back({"absorbed_v", "attention projections", 1, BatchedGemmOp{heads, a.v, a.kv_lora}});
    ops.push_back({"o_proj", "attention projections", 1, GemmOp{hidden, heads * a.v, p}});
    all_reduce(ops);
    feed_forward(ops, dense);
    return ops;
  }

  const ModelSpec& m_;
  const MlaSpec& a_;
  const GraphOptions& o_;
};

}  // namespace

ModelGraph build_mla_moe_graph(const ModelSpec& model, const GraphOptions& options) {
  SIM_ASSERT(model.mla() && model.moe);
  SIM_ASSERT(tensor_parallel_obstacle(model, options.tensor_parallel).empty());
  SIM_ASSERT(!options.sparse_attention || model.indexer);
  return Builder(model, options).build();
}
