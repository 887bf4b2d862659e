#pragma once

#include "models/graph/graph.hpp"

/// The forward pass of a model with grouped-query attention (Llama 3, Qwen3), dense or MoE, under
/// tensor parallelism: collectives as in build_mla_moe_graph().
ModelGraph build_gqa_graph(const ModelSpec& model, const GraphOptions& options);
