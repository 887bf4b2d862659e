#pragma once

#include <string>
#include <variant>
#include <vector>

#include "hardware/collective/collective.hpp"
#include "hardware/gpu.hpp"

/// What the rows of an operator are: every token of the pass, or one per sequence (the head).
enum class Rows { tokens, sequences };

struct GemmOp {
  std::int64_t n = 0, k = 0;
  Precision precision = Precision::bf16;
  Rows rows = Rows::tokens;
};
struct BatchedGemmOp {
  std::int64_t batch = 0, n = 0, k = 0;
};
struct MoeOp {
  int hidden = 0, inter = 0, experts_per_token = 0;
  int experts = 0, ways = 1;  // of the model; tensor-parallel split of one expert
  Precision precision = Precision::nvfp4;
  bool bf16_activations = false;  // weights are unpacked instead (A16)
};
/// Attention core over the latent KV; `top_k` 0 means dense.
struct MlaOp {
  int heads = 0, kv_lora = 0, rope = 0, top_k = 0;
  Precision kv = Precision::bf16;
};
/// Attention core with grouped queries; heads of this GPU.
struct GqaOp {
  int heads = 0, kv_heads = 0, head_dim = 0;
  Precision kv = Precision::bf16;
};
struct IndexerOp {
  int heads = 0, dim = 0, top_k = 0;
};
struct ElementwiseOp {
  std::int64_t bytes_per_row = 0;  // of one kernel
  Rows rows = Rows::tokens;
  bool in_place = false;
};
struct CollectiveOp {
  Collective op = Collective::all_reduce;
  std::int64_t bytes_per_row = 0;  // size as in CollectiveAlgorithm::schedule
  Rows rows = Rows::tokens;
};

using Work = std::variant<GemmOp, BatchedGemmOp, MoeOp, MlaOp, GqaOp, IndexerOp, ElementwiseOp,
                          CollectiveOp>;

/// One operator of a forward pass on one GPU: what it computes, how many kernels it launches.
/// Operators run in order on stream 0. A side operator runs beside them from the moment of the last
/// stream-0 operator listed before it until the next `join`, if the pass captures side streams;
/// else it takes its turn on stream 0.
struct Operator {
  std::string name;
  std::string group;  // line of the breakdown it belongs to
  int launches = 1;
  Work work;
  bool side = false;
  bool join = false;
};

/// Equal layers: their operators once, and how often.
struct LayerBlock {
  std::string name;
  int repeat = 1;
  std::vector<Operator> operators;
  bool is_layer = false;  // of the transformer; not the embedding or the head
};

/// One forward pass on one GPU, built once per model, parallelism and build.
struct ModelGraph {
  std::vector<LayerBlock> blocks;
  /// Operators and launches of a whole pass.
  int launches() const;
  int count(Collective op) const;
};
