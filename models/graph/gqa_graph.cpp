// Kernel by kernel, in the order of vLLM's llama.py and qwen3.py: 11 launches per dense layer, 13
// with norms of queries and keys.
// Leaves out: biases, sliding windows, sequence parallelism, fused variants of the norms and of the
// rotary embedding (torch.compile writes some), expert and data parallelism.

#include "models/graph/gqa_graph.hpp"

#include <algorithm>

#include "models/graph/parts.hpp"
#include "sim/base/assert.hpp"

namespace {

class Builder : GraphParts {
 public:
  Builder(const ModelSpec& m, const GraphOptions& o)
      : GraphParts(m, o), m_(m), a_(*m.gqa()), o_(o) {}

  ModelGraph build() const {
    ModelGraph graph;
    graph.blocks.push_back({"embedding", 1, embedding()});
    for (const bool dense : {true, false}) {
      const int layers = dense ? m_.dense_layers : m_.layers - m_.dense_layers;
      if (layers > 0)
        graph.blocks.push_back({dense ? "dense layer" : "MoE layer", layers, layer(dense), true});
    }
    // vLLM's greedy sampler on 128,256 logits: 25 us at 1 sequence, 64 and 109 at 128, 164 and 311
    // at 256 (LLMServingSim's profile, RTX PRO 6000 and RTX 4090): 14 B a logit, mostly in the L2.
    graph.blocks.push_back({"head", 1, head(1.4)});
    return graph;
  }

 private:
  Operators layer(bool dense) const {
    const std::int64_t hidden = m_.hidden, dim = a_.head_dim;
    const int heads = a_.heads / o_.tensor_parallel;
    const int kv_heads = std::max(a_.kv_heads / o_.tensor_parallel, 1);
    const std::int64_t q = heads * dim, kv = kv_heads * dim;
    const auto p = m_.precision.attention;
    Operators ops;
    ops.push_back(in_place("input_norm", 4 * hidden * activation));
    ops.push_back({"qkv", "attention projections", 1, GemmOp{q + 2 * kv, hidden, p}});
    if (a_.qk_norm) ops.push_back(small("qk_norm", 2, (q + kv) * activation));
    ops.push_back(in_place("rope", 2 * (q + kv) * activation));
    if (!o_.attention_writes_kv) ops.push_back(small("kv_write", 1, 4 * kv * activation));
    // FlashAttention launches a second kernel where it splits KV
    ops.push_back({"attention", "attention", 2, GqaOp{heads, kv_heads, a_.head_dim, o_.kv}});
    ops.push_back({"o_proj", "attention projections", 1, GemmOp{hidden, q, p}});
    all_reduce(ops);
    feed_forward(ops, dense);
    return ops;
  }

  const ModelSpec& m_;
  const GqaSpec& a_;
  const GraphOptions& o_;
};

}  // namespace

ModelGraph build_gqa_graph(const ModelSpec& model, const GraphOptions& options) {
  SIM_ASSERT(model.gqa());
  SIM_ASSERT(tensor_parallel_obstacle(model, options.tensor_parallel).empty());
  SIM_ASSERT(!options.sparse_attention);
  return Builder(model, options).build();
}
