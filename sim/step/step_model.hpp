#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hardware/collective/pricing.hpp"
#include "models/cost/attention_pass.hpp"
#include "models/cost/cost_models.hpp"
#include "models/graph/expert_popularity.hpp"
#include "models/graph/operators.hpp"
#include "sim/step/timeline.hpp"

/// What one forward pass works on. Extend and decode may share a pass: one pass at the combined
/// token count, the attention parts added.
struct PassShape {
  std::int64_t decode_sequences = 0;
  std::int64_t decode_kv_tokens = 0;         // summed, the new token included
  std::int64_t decode_kv_tokens_capped = 0;  // the same with each sequence cut at the sparse top-k
  std::int64_t extend_sequences = 0;
  std::int64_t extend_tokens = 0;
  std::int64_t extend_tokens_max = 0;
  std::int64_t extend_pairs = 0;         // (query, key) pairs under the causal mask
  std::int64_t extend_pairs_capped = 0;  // with each query cut at the sparse top-k
  std::int64_t kv_max = 0;               // longest sequence of the pass
  std::int64_t heads_rows = 0;           // sequences that need logits
  /// Single lengths, for kernels that wait for the longest (StepModel::wants_lengths). Views, which
  /// must outlive the pricing of the pass; empty: all decodes are equally long, all prompts alike.
  std::span<const std::int64_t> decode_kv_each{};  // the new token included, without padding
  std::span<const PromptPart> prompts{};

  std::int64_t tokens() const { return decode_sequences + extend_tokens; }

  /// This pass with decode sequences added until there are `sequences`, of one KV token each: what
  /// padding to a captured size costs.
  PassShape padded_to(std::int64_t sequences) const {
    PassShape p = *this;
    const std::int64_t added = std::max<std::int64_t>(sequences - decode_sequences, 0);
    p.decode_sequences += added;
    p.decode_kv_tokens += added;
    p.decode_kv_tokens_capped += added;
    p.heads_rows += added;
    return p;
  }

  /// One token each for `sequences` sequences of `kv_each` tokens, the new one included.
  /// `top_k` 0 means dense attention.
  static PassShape decode(std::int64_t sequences, std::int64_t kv_each, std::int64_t top_k = 0) {
    PassShape p;
    p.decode_sequences = p.heads_rows = sequences;
    p.decode_kv_tokens = p.decode_kv_tokens_capped = sequences * kv_each;
    if (top_k > 0) p.decode_kv_tokens_capped = sequences * std::min(kv_each, top_k);
    p.kv_max = kv_each;
    return p;
  }
  /// One prompt from its beginning.
  static PassShape extend(std::int64_t tokens) { return extend(tokens, 0, 0); }
  /// A chunk of one prompt behind `prefix` tokens; `top_k` 0 means dense attention.
  static PassShape extend(std::int64_t tokens, std::int64_t prefix, std::int64_t top_k) {
    PassShape p;
    p.extend_sequences = p.heads_rows = 1;
    p.extend_tokens = p.extend_tokens_max = tokens;
    p.kv_max = prefix + tokens;
    p.extend_pairs = p.extend_pairs_capped = tokens * prefix + tokens * (tokens + 1) / 2;
    if (top_k > 0) {
      // Queries that see no more than top_k keys see all of them.
      const std::int64_t all = std::clamp<std::int64_t>(top_k - prefix, 0, tokens);
      p.extend_pairs_capped = all * prefix + all * (all + 1) / 2 + (tokens - all) * top_k;
    }
    return p;
  }
};

/// Prompts of one size, of a pass of which only sums are known: its prompts are alike, but the
/// first ones take the tokens that do not divide.
struct AlikePrompts {
  std::int64_t count = 0;
  PromptPart each;
};
inline std::array<AlikePrompts, 2> alike_prompts(const PassShape& pass) {
  const std::int64_t n = pass.extend_sequences, more = pass.extend_tokens % n;
  const auto part = [&](std::int64_t count, std::int64_t tokens) -> AlikePrompts {
    if (tokens == 0) return {};
    const std::int64_t behind = pass.extend_pairs / n - tokens * (tokens + 1) / 2;
    return {count, {tokens, std::max<std::int64_t>(behind, 0) / tokens}};
  };
  return {part(more, pass.extend_tokens / n + 1), part(n - more, pass.extend_tokens / n)};
}

/// Host costs of launching.
struct LaunchCosts {
  Duration per_launch;  // eager: dispatch and driver
  Duration graph;       // one graph launch
  Duration graph_per_node;
  bool side_streams = false;  // captured passes run side operators beside the main stream
  /// All small kernels of one layer together, beside their bytes and without those of an indexer,
  /// which cost as much each; nothing: the law's own floor each.
  std::optional<Constant<Duration>> small_kernels = std::nullopt;
};

/// What passes take on the GPU beside their kernels, as a build states it: what kernel sums leave
/// of measured steps.
struct PassResiduals {
  struct Band {
    std::int64_t batch_min = 0, batch_max = 0;  // padded sequences of a decode pass
    Constant<Duration> time;
    std::optional<Constant<Duration>> per_sequence = std::nullopt;  // on top, for each of them
  };
  /// Multiplies every kernel, collectives excepted.
  std::optional<Constant<double>> kernel_scale = std::nullopt;
  Constant<Duration> per_prefill_layer;  // of every layer of a pass with prompts
  std::vector<Band> bands;
};

/// Counts only one resource: what a ceiling is made of.
enum class Only { everything, arithmetic, memory, interconnect, launch, nothing };

/// One line of a breakdown.
struct BreakdownItem {
  std::string group;
  std::string resource;  // memory, arithmetic, interconnect, kernel latency, kernel launch
  Duration time;
  Provenance provenance = Provenance::exact;
  double error = 0;
  std::string rests_on;  // for people: the source of the numbers
};

/// Where the time of one pass goes on the GPU, and what the host needs beside it.
struct Breakdown {
  std::vector<BreakdownItem> items;  // adds up to `device`
  Duration device, host;
};

/// Prices a forward pass: kernels on a host thread and GPU streams. Pure.
class StepModel {
 public:
  StepModel(ModelGraph graph, const CostModels& costs, const CollectivePricer& collectives,
            ExpertPopularity popularity, LaunchCosts launch, Only only = Only::everything);
  /// How the attention kernels of grouped queries run a pass on this card; without it parts are
  /// added.
  void set_attention(const GpuSpec& gpu, const AttentionKernel& kernel);
  void set_residuals(PassResiduals residuals);

  /// `captured`: the pass is one CUDA graph (the shape must already be padded to a captured size).
  Timeline cost(const PassShape& pass, bool captured) const;
  Breakdown breakdown(const PassShape& pass, bool captured) const;
  /// Time on the GPU beside the kernels: a function of the padded batch and of whether there are
  /// prompts.
  Duration residual(const PassShape& pass) const;
  /// Whether some kernel's time depends on the lengths of single sequences.
  bool wants_lengths() const;
  /// Whether grouped-query attention of a pass without decodes is the sum of its prompts' own.
  bool adds_prompts() const { return !attention_kernel_.sums_prompts; }
  /// The operators [first, last) of a block in a row, which must not cut a fork from its join.
  Timeline stretch(const LayerBlock& block, std::size_t first, std::size_t last,
                   const PassShape& pass, bool captured) const;
  /// The time of one operator alone.
  Duration time(const Operator& op, const LayerBlock& block, const PassShape& pass) const;
  /// The issue of an operator's launches, `total` of device time in all.
  Timeline issued(const Operator& op, Duration total, bool captured) const;
  /// What goes before the operators of a pass: the launch of its graph.
  Timeline graph_launch(bool captured) const;
  const ModelGraph& graph() const { return graph_; }
  const ExpertPopularity& popularity() const { return popularity_; }

 private:
  struct Priced {
    Duration time, arithmetic, memory;
    Provenance provenance = Provenance::exact;
    double error = 0;
    bool collective = false;
  };
  Priced price(const Operator& op, const PassShape& pass, int small_kernels) const;
  Prediction attention(const GqaOp& op, const PassShape& pass) const;
  /// The parts of residual(), for people.
  std::vector<BreakdownItem> residual_items(const PassShape& pass) const;
  Duration counted(const Priced& priced) const;
  int small_kernels(const LayerBlock& block) const;
  bool host_counts() const { return only_ == Only::everything || only_ == Only::launch; }
  template <class Visit>
  Duration walk_block(const LayerBlock& block, std::size_t first, std::size_t last,
                      const PassShape& pass, bool side_streams, Visit visit) const;

  ModelGraph graph_;
  const CostModels& costs_;
  const CollectivePricer& collectives_;
  ExpertPopularity popularity_;
  LaunchCosts launch_;
  Only only_;
  GpuSpec gpu_;
  AttentionKernel attention_kernel_;
  PassResiduals residuals_;
  std::int64_t launches_ = 0, layers_ = 0;  // of a whole pass
};
