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
  /// The attention kernels as measured write the new keys and values (grouped queries).
  bool attention_writes_kv = false;
  bool bf16_activations = false;  // of the routed experts (A16), else quantised as the weights
};

/// The forward pass of a model on one GPU, by its kind of attention.
ModelGraph build_graph(const ModelSpec& model, const GraphOptions& options);
