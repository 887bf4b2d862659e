#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hardware/gpu.hpp"
#include "sim/base/settings.hpp"

/// Multi-head latent attention: everything is projected from one latent vector per token.
struct MlaSpec {
  int heads = 0, q_lora = 0, kv_lora = 0, nope = 0, rope = 0, v = 0;
};

/// The lightning indexer of sparse attention (DSA): picks the `top_k` keys that attention reads.
struct IndexerSpec {
  int heads = 0, dim = 0, top_k = 0;
};

struct MoeSpec {
  int experts = 0, experts_per_token = 0, shared_experts = 0, inter = 0;
};

/// How each part of a checkpoint is stored.
struct PrecisionRecipe {
  Precision attention = Precision::bf16, dense_mlp = Precision::bf16,
            shared_experts = Precision::bf16, experts = Precision::bf16, router = Precision::bf16,
            embedding = Precision::bf16, lm_head = Precision::bf16, mtp = Precision::bf16;
};

/// One LLM architecture with its checkpoint, as its file in models/zoo says.
struct ModelSpec {
  std::string id, name;
  int layers = 0, dense_layers = 0, hidden = 0, dense_inter = 0, vocab = 0, mtp_layers = 0;
  std::int64_t context_length = 0;
  MlaSpec attention;
  std::optional<IndexerSpec> indexer;
  MoeSpec moe;
  PrecisionRecipe precision;
};

ModelSpec read_model(const std::string& id, const Settings& file, Reading& reading);

/// One weight matrix (or a set of equal ones): parameters, storage, and whether tensor parallelism
/// splits it. `group` is what a reader wants to see summed.
struct WeightMatrix {
  std::string name, group;
  std::int64_t parameters = 0;  // of all layers together
  double active_share = 1;      // of the parameters that one token uses
  Precision precision = Precision::bf16;
  bool sharded = true;
  bool mtp = false;
};

/// Every weight matrix of the model; norms and biases, under 0.01 %, are left out.
std::vector<WeightMatrix> weight_matrices(const ModelSpec& model);

struct ParameterCount {
  std::int64_t total = 0;   // without the MTP layers
  std::int64_t active = 0;  // that one token uses, without the embedding table
  std::int64_t mtp = 0;
};
ParameterCount count_parameters(const ModelSpec& model);

/// Bytes of weights on one GPU under tensor parallelism, per group in the order of the model, and
/// their sum. MTP layers are loaded only with speculation.
struct WeightBytes {
  std::vector<std::pair<std::string, Bytes>> groups;
  Bytes total;
};
WeightBytes weight_bytes_per_gpu(const ModelSpec& model, int tensor_parallel, bool with_mtp);

/// KV cache of one token on one GPU. MLA keeps the whole latent on every rank; sparse models keep
/// the indexer's keys too (FP8 and one FP32 scale per 128), whether or not a build uses them.
BytesPerToken kv_bytes_per_token(const ModelSpec& model, Precision kv);

/// Says what keeps the model from being split `tensor_parallel` ways; empty when nothing does.
std::string tensor_parallel_obstacle(const ModelSpec& model, int tensor_parallel);
