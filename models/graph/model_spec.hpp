#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "hardware/gpu.hpp"
#include "sim/base/settings.hpp"

/// Multi-head latent attention: everything is projected from one latent vector per token.
struct MlaSpec {
  int heads = 0, q_lora = 0, kv_lora = 0, nope = 0, rope = 0, v = 0;
};

/// Grouped-query attention: `heads` query heads share `kv_heads` heads of keys and values
/// (multi-head attention where the two are equal).
struct GqaSpec {
  int heads = 0, kv_heads = 0, head_dim = 0;
  bool qk_norm = false;  // norms of each query and key head before the rotary embedding (Qwen3)
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
  std::variant<MlaSpec, GqaSpec> attention;
  std::optional<IndexerSpec> indexer;
  std::optional<MoeSpec> moe;   // nothing: every layer is dense
  bool tie_embeddings = false;  // the head multiplies with the embedding table
  PrecisionRecipe precision;

  const MlaSpec* mla() const { return std::get_if<MlaSpec>(&attention); }
  const GqaSpec* gqa() const { return std::get_if<GqaSpec>(&attention); }
  int attention_heads() const { return mla() ? mla()->heads : gqa()->heads; }
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
  int shards_max = 0;  // the most ways that it splits (KV heads); 0: no such limit
  /// Over how many GPUs it is split; the others hold copies.
  int shards(int tensor_parallel) const;
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

/// KV cache of one token on one GPU. MLA keeps the whole latent on every rank, grouped queries keep
/// their share of the KV heads and at least one; sparse models keep the indexer's keys too (FP8 and
/// one FP32 scale per 128), whether or not a build uses them.
BytesPerToken kv_bytes_per_token(const ModelSpec& model, Precision kv, int tensor_parallel);

/// Says what keeps the model from being split `tensor_parallel` ways; empty when nothing does.
std::string tensor_parallel_obstacle(const ModelSpec& model, int tensor_parallel);
