#include "models/graph/graph.hpp"

#include "models/graph/gqa_graph.hpp"
#include "models/graph/mla_moe_graph.hpp"

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

ModelGraph build_graph(const ModelSpec& model, const GraphOptions& options) {
  return model.gqa() ? build_gqa_graph(model, options) : build_mla_moe_graph(model, options);
}
