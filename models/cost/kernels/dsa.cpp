// Sparse MLA (DSA) as measured: whole attention blocks with projections, indexer, top-k and sparse
// attention, and the pieces of the GLM-5 block. Every query scores all keys in the indexer and
// attends to at most 2,048 of them. Prefill rows and decode rows above the captured batch were
// measured eagerly: their floor is host time and belongs to the table, not to a GPU.
// Leaves out: how many layers own an indexer (a build says so).

#include <algorithm>
#include <cmath>

#include "models/cost/kernel_class.hpp"

namespace {

constexpr double latent = 576, value = 512, top_k = 2048;
enum { start, bandwidth, arithmetic, projections, indexer };

double block_weights(double heads) {
  return 6656.0 * (2048 + 576) + heads * (2048.0 * 256 + 512.0 * 448 + 256.0 * 6656);
}

// scores of queries against keys, in (query, key) pairs
double pairs(double tokens, double past) { return tokens * past + tokens * (tokens + 1) / 2; }

double sparse_pairs(double tokens, double past) {
  if (past >= top_k) return tokens * top_k;
  const double dense = std::min(tokens, top_k - past);
  return pairs(dense, past) + (tokens - dense) * top_k;
}

double block(const LawContext& c, const double* p, double heads, double batch, double tokens,
             double past) {
  const double weights = block_weights(heads);
  const double gemm =
      std::max(weights * c.weight_bytes / c.bandwidth, 2 * batch * tokens * weights / c.peak) /
      p[projections];
  const double attended = batch * sparse_pairs(tokens, past);
  const double bytes = attended * latent * c.kv_bytes;
  const double flops = 2 * attended * heads * (latent + value);
  return p[start] + gemm +
         std::max(tokens < 2 ? bytes / (c.bandwidth * p[bandwidth]) : 0.0,
                  flops / (c.peak * p[arithmetic])) +
         p[indexer] * 1e-3 * batch * pairs(tokens, past) / 1000;
}

double generation(const LawContext& c, const double* p, const double* x) {
  return block(c, p, x[0], x[1], 1, x[2]);
}

double context(const LawContext& c, const double* p, const double* x) {
  return block(c, p, x[0], x[2], x[3], x[1]);
}

KernelBound no_bound(const LawContext&, const double*) { return {}; }

std::vector<LawParameter> parameters() {
  return {{"start_us", 50, 1, 3000},
          {"bandwidth_efficiency", 0.8, 0.02, 8},
          {"arithmetic_efficiency", 0.4, 0.005, 1.5},
          {"projection_efficiency", 0.6, 0.02, 1.5},
          {"indexer_ns_per_1000_pairs", 10, 0.001, 2000}};
}

LawContext block_context(const GpuSpec& gpu, const std::map<std::string, std::string>& w) {
  auto c = law_context(gpu, word(w, "gemm_type"), word(w, "gemm_type"));
  c.kv_bytes = table_bytes_per_element(word(w, "kv_cache_dtype"));
  return c;
}

const std::vector<std::string> words{"op_name",   "kernel_source",  "model",
                                     "mla_dtype", "kv_cache_dtype", "gemm_type"};

const Registered<KernelClass> a("generation_dsa_module",
                                {"sparse MLA decode block with projections and indexer",
                                 {"dsa_generation_module"},
                                 words,
                                 {{"num_heads"}, {"batch_size"}, {"step"}},
                                 2,
                                 parameters(),
                                 block_context,
                                 generation,
                                 no_bound});
const Registered<KernelClass> b("context_dsa_module",
                                {"sparse MLA prefill block with projections and indexer",
                                 {"dsa_context_module"},
                                 words,
                                 {{"num_heads"}, {"step"}, {"batch_size"}, {"isl"}},
                                 3,
                                 parameters(),
                                 block_context,
                                 context,
                                 no_bound});

// The attention core: start-up, a rate per attended pair and one per scored pair.
enum { piece_start, per_scored, per_attended, per_row };

double piece(const LawContext&, const double* p, const double* x) {
  const double batch = x[0], tokens = x[1], past = x[2];
  return p[piece_start] + p[per_scored] * 1e-6 * batch * pairs(tokens, past) +
         p[per_attended] * 1e-6 * batch * sparse_pairs(tokens, past) +
         p[per_row] * 1e-3 * batch * tokens;
}

std::vector<LawParameter> piece_parameters() {
  return {{"start_us", 10, 0.5, 500},
          {"scored_ns_per_1000_pairs", 10, 1e-4, 10000},
          {"attended_ns_per_1000_pairs", 10, 1e-4, 100000},
          {"per_row_ns", 1, 1e-4, 10000}};
}

// Indexer and top-k: a block walks all keys for `queries` rows, so time goes up in waves of that
// many rows an SM; pairs beside it are what does not wait for a block.
enum { walk_start, walk_per_scored, wave, per_key };

template <int queries>
double walk(const LawContext& c, const double* p, const double* x) {
  const double batch = x[0], tokens = x[1], past = x[2];
  const double waves = std::ceil(batch * tokens / (queries * c.sms));
  return p[walk_start] + p[walk_per_scored] * 1e-6 * batch * pairs(tokens, past) +
         waves * (p[wave] + p[per_key] * 1e-3 * (past + (tokens + 1) / 2));
}

std::vector<LawParameter> walk_parameters() {
  return {{"start_us", 4, 0.5, 500},
          {"scored_ns_per_1000_pairs", 3, 1e-4, 10000},
          {"wave_us", 2, 1e-3, 100},
          {"per_key_ns", 1, 1e-3, 100}};
}

LawContext piece_context(const GpuSpec& gpu, const std::map<std::string, std::string>&) {
  return law_context(gpu, "bfloat16", "bfloat16");
}

const std::vector<KernelAxis> piece_axes{{"batch_size"}, {"isl"}, {"step"}};
const std::vector<std::string> piece_words{"op_name", "kernel_source"};

const Registered<KernelClass> d("dsa_attention", {"sparse MLA attention core of GLM-5",
                                                  {"glm5_dsa_attn_module"},
                                                  piece_words,
                                                  piece_axes,
                                                  2,
                                                  piece_parameters(),
                                                  piece_context,
                                                  piece,
                                                  no_bound});
const Registered<KernelClass> e("dsa_indexer", {"indexer logits of GLM-5",
                                                {"glm5_mqa_logits_module"},
                                                piece_words,
                                                piece_axes,
                                                2,
                                                walk_parameters(),
                                                piece_context,
                                                walk<4>,
                                                no_bound});
const Registered<KernelClass> f("dsa_top_k", {"top-k of the indexer's scores",
                                              {"glm5_topk_module"},
                                              {"op_name", "kernel_source", "score_mode"},
                                              piece_axes,
                                              2,
                                              walk_parameters(),
                                              piece_context,
                                              walk<1>,
                                              no_bound});

}  // namespace
