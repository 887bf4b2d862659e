// Attention with grouped queries from the fitted tables of a GPU. `table`: decodes and prompts each
// from a table of their own, measured as batches of equal lengths and as prompts from their
// beginning; a prompt behind a cached prefix is priced as one that has as many (query, key) pairs.
// `mixed_table`: both, and launches over a prompt and decodes, from a profile of the engine's own
// launches (mixed_attention), whose prompts have prefixes.
// Leaves out: unequal lengths (attention_pass), sliding windows.

#include <cmath>

#include "models/cost/attention_pass.hpp"
#include "models/cost/tabled.hpp"
#include "sim/base/assert.hpp"

namespace {

double pairs(const PromptPart& p) {
  const auto tokens = static_cast<double>(p.tokens);
  return tokens * static_cast<double>(p.past) + tokens * (tokens + 1) / 2;
}

// Two products of 2 x width for each pair of a query and a key.
Duration arithmetic_of(double pairs, const AttentionHeads& heads, const GpuSpec& gpu) {
  return Flops(4 * pairs * heads.query * heads.dim) / gpu.bf16;
}

Duration memory_of(double tokens, const AttentionHeads& heads, const GpuSpec& gpu) {
  return Duration::from_seconds(tokens * heads.kv * heads.kv_bytes_per_token() /
                                gpu.memory_bandwidth.count());
}

// The sets of one class for bf16 and fp8 KV; a KV precision that the engine was not measured with
// is priced as the one that was.
struct ByKv {
  Tabled bf16, fp8;

  static ByKv find(const Choice& choice, const std::string& kernel_class, int head_dim) {
    const auto words = [&](const std::string& kv) {
      return std::map<std::string, std::string>{
          {"kv_cache_dtype", kv}, {"head_dim", std::to_string(head_dim)}, {"window_size", "0"}};
    };
    return {choice.find(kernel_class, {words(kv_name(Precision::bf16)), words("")}),
            choice.find(kernel_class, {words(kv_name(Precision::fp8)), words("")})};
  }
  const Tabled& of(const AttentionHeads& heads) const {
    return heads.stored == Precision::bf16 ? bf16 : fp8;
  }
};

class TabledDecode final : public CostModel<GqaDecodeShape> {
 public:
  TabledDecode(const CostContext& context, Section& s) : gpu_(context.gpu) {
    const Choice choice(context, s);
    scale_ = choice.scale();
    tables_ = ByKv::find(choice, "generation_attention", context.head_dim);
    used_ = choice.used();
  }
  std::string rests_on() const override { return used_; }
  Prediction predict(const GqaDecodeShape& s) const override {
    SIM_ASSERT(s.sequences > 0 && s.kv_tokens_each >= 1 && s.heads.kv > 0);
    const auto sequences = static_cast<double>(s.sequences);
    const double tokens = sequences * s.kv_tokens_each;
    const Duration arithmetic = arithmetic_of(tokens, s.heads, gpu_);
    const Duration memory = memory_of(tokens, s.heads, gpu_);
    const Tabled& table = tables_.of(s.heads);
    if (!table) return roofline(arithmetic, memory);
    return table.predict({static_cast<double>(s.heads.kv), static_cast<double>(s.heads.query),
                          sequences, s.kv_tokens_each - 1},
                         scale_, arithmetic, memory);
  }

 private:
  GpuSpec gpu_;
  std::string used_;
  double scale_ = 1;
  ByKv tables_;
};

class TabledPrefill final : public CostModel<GqaPrefillShape> {
 public:
  TabledPrefill(const CostContext& context, Section& s) : gpu_(context.gpu) {
    const Choice choice(context, s);
    scale_ = choice.scale();
    tables_ = ByKv::find(choice, "context_attention", context.head_dim);
    used_ = choice.used();
  }
  std::string rests_on() const override { return used_; }
  Prediction predict(const GqaPrefillShape& s) const override {
    SIM_ASSERT(s.prompt.tokens > 0 && s.prompt.past >= 0 && s.heads.kv > 0);
    const double all = pairs(s.prompt);
    const Duration arithmetic = arithmetic_of(all, s.heads, gpu_);
    const Duration memory =
        memory_of(static_cast<double>(s.prompt.tokens + s.prompt.past), s.heads, gpu_);
    const Tabled& table = tables_.of(s.heads);
    if (!table) return roofline(arithmetic, memory);
    const double length = (std::sqrt(1 + 8 * all) - 1) / 2;
    return table.predict({static_cast<double>(s.heads.kv), static_cast<double>(s.heads.query), 1,
                          std::max(1.0, length)},
                         scale_, arithmetic, memory);
  }

 private:
  GpuSpec gpu_;
  std::string used_;
  double scale_ = 1;
  ByKv tables_;
};

Tabled find_mixed(const Choice& choice, int head_dim) {
  return choice.find("mixed_attention", {{{"head_dim", std::to_string(head_dim)}}});
}

// The least that was measured; a block takes 64 queries, so that fewer cost no less.
double least_chunk(const PromptPart& p) {
  return static_cast<double>(std::max<std::int64_t>(p.tokens, 16));
}

/// The table of the mixed kernel, from which all three kinds of passes are answered.
template <class Shape>
class MixedTable : public CostModel<Shape> {
 public:
  MixedTable(const CostContext& context, Section& s) : gpu_(context.gpu) {
    const Choice choice(context, s);
    scale_ = choice.scale();
    table_ = find_mixed(choice, context.head_dim);
    used_ = choice.used();
  }
  std::string rests_on() const override { return used_; }

 protected:
  GpuSpec gpu_;
  std::string used_;
  double scale_ = 1;
  Tabled table_;
};

class MixedDecode final : public MixedTable<GqaDecodeShape> {
 public:
  using MixedTable::MixedTable;
  Prediction predict(const GqaDecodeShape& s) const override {
    SIM_ASSERT(s.sequences > 0 && s.kv_tokens_each >= 1 && s.heads.kv > 0);
    const auto sequences = static_cast<double>(s.sequences);
    const double tokens = sequences * s.kv_tokens_each;
    const Duration arithmetic = arithmetic_of(tokens, s.heads, gpu_);
    const Duration memory = memory_of(tokens, s.heads, gpu_);
    if (!table_) return roofline(arithmetic, memory);
    return table_.predict({static_cast<double>(s.heads.kv), static_cast<double>(s.heads.query), 0,
                           0, sequences, s.kv_tokens_each},
                          scale_, arithmetic, memory);
  }
};

class MixedPrefill final : public MixedTable<GqaPrefillShape> {
 public:
  using MixedTable::MixedTable;
  Prediction predict(const GqaPrefillShape& s) const override {
    SIM_ASSERT(s.prompt.tokens > 0 && s.prompt.past >= 0 && s.heads.kv > 0);
    const Duration arithmetic = arithmetic_of(pairs(s.prompt), s.heads, gpu_);
    const Duration memory =
        memory_of(static_cast<double>(s.prompt.tokens + s.prompt.past), s.heads, gpu_);
    if (!table_) return roofline(arithmetic, memory);
    return table_.predict({static_cast<double>(s.heads.kv), static_cast<double>(s.heads.query),
                           least_chunk(s.prompt), static_cast<double>(s.prompt.past), 0, 0},
                          scale_, arithmetic, memory);
  }
};

class MixedLaunch final : public MixedTable<GqaMixedShape> {
 public:
  using MixedTable::MixedTable;
  Prediction predict(const GqaMixedShape& s) const override {
    SIM_ASSERT(s.prompt.tokens > 0 && s.sequences > 0 && s.kv_tokens_each >= 1);
    const auto sequences = static_cast<double>(s.sequences);
    const double decoded = sequences * s.kv_tokens_each;
    const Duration arithmetic = arithmetic_of(pairs(s.prompt) + decoded, s.heads, gpu_);
    const Duration memory =
        memory_of(static_cast<double>(s.prompt.tokens + s.prompt.past) + decoded, s.heads, gpu_);
    if (!table_) return roofline(arithmetic, memory);
    return table_.predict(
        {static_cast<double>(s.heads.kv), static_cast<double>(s.heads.query), least_chunk(s.prompt),
         static_cast<double>(s.prompt.past), sequences, s.kv_tokens_each},
        scale_, arithmetic, memory);
  }
};

const Registered<CostModelFactory<GqaDecodeShape>> decode(
    "table", make_cost_model<TabledDecode, GqaDecodeShape>);
const Registered<CostModelFactory<GqaPrefillShape>> prefill(
    "table", make_cost_model<TabledPrefill, GqaPrefillShape>);
const Registered<CostModelFactory<GqaDecodeShape>> mixed_decode(
    "mixed_table", make_cost_model<MixedDecode, GqaDecodeShape>);
const Registered<CostModelFactory<GqaMixedShape>> mixed_launch(
    "mixed_table", make_cost_model<MixedLaunch, GqaMixedShape>);
const Registered<CostModelFactory<GqaPrefillShape>> mixed_prefill(
    "mixed_table", make_cost_model<MixedPrefill, GqaPrefillShape>);

}  // namespace
