#pragma once

#include "models/graph/graph.hpp"

/// The forward pass of an MLA + MoE model (GLM-5, DeepSeek-V3 class) under tensor parallelism: one
/// all-reduce after the vocabulary-parallel embedding, two per layer, one all-gather of the logits.
ModelGraph build_mla_moe_graph(const ModelSpec& model, const GraphOptions& options);
