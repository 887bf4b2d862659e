#pragma once

#include <optional>

#include "models/graph/model_spec.hpp"
#include "models/graph/operators.hpp"

/// What an engine build makes of a model.
struct GraphOptions {
  int tensor_parallel = 1;
  bool sparse_attention = false;  // run the indexer and attend to its top-k; else dense MLA
  Precision kv = Precision::bf16;
  /// Layers that own an indexer; the others reuse their picks. Nothing: all layers.
  std::optional<int> indexer_layers = std::nullopt;
  bool bf16_activations = false;  // of the routed experts (A16), else quantised as the weights
};

/// The forward pass of an MLA + MoE model (GLM-5, DeepSeek-V3 class) under tensor parallelism: one
/// all-reduce after the vocabulary-parallel embedding, two per layer, one all-gather of the logits.
ModelGraph build_mla_moe_graph(const ModelSpec& model, const GraphOptions& options);
