#pragma once

#include "models/graph/model_spec.hpp"
#include "models/graph/operators.hpp"

/// What an engine build makes of a model.
struct GraphOptions {
  int tensor_parallel = 1;
  bool sparse_attention = false;  // run the indexer and attend to its top-k; else dense MLA
  Precision kv = Precision::bf16;
};

/// The forward pass of an MLA + MoE model (GLM-5, DeepSeek-V3 class) under tensor parallelism: one
/// all-reduce after the vocabulary-parallel embedding, two per layer, one all-gather of the logits.
ModelGraph build_mla_moe_graph(const ModelSpec& model, const GraphOptions& options);
