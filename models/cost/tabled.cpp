// Cost models that answer from the fitted tables of a GPU (model: table): an exact point, else
// interpolation of what the measured times differ from a law, else the law, and never less than the
// roofline. The table is that of the build's engine in the nearest version, or of the engine and
// version that the section names. Weights and KV count as cold. A shape of a precision that nobody
// measured is the bare roofline.
// Leaves out: unequal lengths inside a decode batch (the mean is priced), expert parallelism.

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "models/cost/cost_model.hpp"
#include "models/cost/kernel_tables.hpp"
#include "sim/base/assert.hpp"

namespace {

// Beyond twice the measured range an answer is a guess; half again as much either way.
constexpr double extrapolation_error = 0.5;
// Another engine's kernel of the same class: 25 % and more off in decode (GLM-5 on RTX PRO 6000,
// CUTLASS experts for b12x, and the reverse).
constexpr double foreign_error = 0.25;
// Kernels of a card that was not measured, from those of its neighbour. Assumed: no such card was
// compared yet.
constexpr double scaling_error = 0.25;

// One fitted set with the last answers, found again by their sizes.
class Tabled {
 public:
  Tabled() = default;
  Tabled(const KernelSet* set, double least_error)
      : set_(set), least_error_(least_error), memory_(set ? 1024 : 0) {}
  explicit operator bool() const { return set_ != nullptr; }
  const KernelSet& set() const { return *set_; }

  TableAnswer answer(const Coordinates& x) const {
    std::uint64_t hash = 0;
    for (std::size_t i = 0; i < set_->kind().axes.size(); ++i)
      hash = (hash ^ static_cast<std::uint64_t>(x[i] * 64)) * 0x9e3779b97f4a7c15U;
    Entry& entry = memory_[hash >> 54];
    if (!entry.used || entry.x != x) entry = {true, x, set_->predict_cold(x.data())};
    return entry.answer;
  }
  Prediction predict(const Coordinates& x, double scale, Duration arithmetic,
                     Duration memory) const {
    TableAnswer a = answer(x);
    ModelQuality quality;
    const bool guess = least_error_ > 0 || a.extrapolated;
    quality.provenance = guess ? Provenance::assumed : a.provenance;
    quality.error = std::max({a.error, a.extrapolated ? extrapolation_error : 0, least_error_});
    return predicted(a.us * scale, arithmetic, memory, quality);
  }

 private:
  struct Entry {
    bool used = false;
    Coordinates x{};
    TableAnswer answer;
  };
  const KernelSet* set_ = nullptr;
  double least_error_ = 0;  // of a table that was measured elsewhere; 0: at home
  mutable std::vector<Entry> memory_;
};

Prediction roofline(Duration arithmetic, Duration memory) {
  return {std::max(arithmetic, memory), arithmetic, memory, Provenance::roofline, 1.0};
}

// What a section says about its table, and the sets of a class that this leaves.
class Choice {
 public:
  Choice(const CostContext& context, Section& s)
      : context_(context),
        engine_(s.optional<std::string>("engine", context.engine)),
        version_(s.optional<std::string>("version", context.version)),
        kernel_source_(s.optional<std::string>("kernel_source", "")),
        scale_(s.constant<double>("scale", 1.0, between(0.01, 100.0)).value) {
    if (!context.tables || context.tables->empty())
      s.error("model",
              fmt::format("no kernel of {} or of a card like it was measured", context.gpu.name),
              "ceiling fit kernels makes tables; else name a law");
  }
  /// The first of the alternatives that the engine itself was measured with, else the first that
  /// any engine was.
  Tabled find(const std::string& kernel_class,
              std::vector<std::map<std::string, std::string>> alternatives) const {
    if (!context_.tables) return {};
    TableChoice choice;
    for (auto& words : alternatives) {
      words["kernel_source"] = kernel_source_;
      const auto found = context_.tables->find(kernel_class, engine_, version_, words);
      if (found.set && (!choice.set || (found.same_engine && !choice.same_engine))) choice = found;
    }
    if (!choice.set) return {};
    used_ += (used_.empty() ? "" : "; ") + choice.set->engine + " " + choice.set->version;
    for (const auto& [word, value] : choice.set->words)
      if (value != "?") used_ += " " + value;
    if (context_.scaled) used_ += " (measured on another card and scaled)";
    double least_error = context_.scaled ? scaling_error : 0;
    if (!choice.same_engine) {
      used_ += fmt::format(" (of another engine: {} was not measured)", engine_);
      least_error = std::max(least_error, foreign_error);
    } else if (!choice.same_version) {
      used_ += fmt::format(" (nearest to {})", version_);
    }
    return {choice.set, least_error};
  }
  /// The sets that `find` chose, for people.
  const std::string& used() const { return used_; }
  double scale() const { return scale_; }

 private:
  CostContext context_;
  std::string engine_, version_, kernel_source_;
  double scale_;
  mutable std::string used_;
};

constexpr std::array precisions{Precision::bf16, Precision::fp8, Precision::nvfp4};

// Names of a precision in the tables, the usual form of a checkpoint first.
std::vector<std::string> table_names(Precision p) {
  if (p == Precision::fp8) return {"fp8_block", "fp8"};
  return {p == Precision::nvfp4 ? "nvfp4" : "bfloat16"};
}

// One alternative per name of the precision, beside the other words.
std::vector<std::map<std::string, std::string>> named(
    const std::string& word, Precision p, const std::map<std::string, std::string>& others) {
  std::vector<std::map<std::string, std::string>> out;
  for (const auto& name : table_names(p)) {
    out.push_back(others);
    out.back()[word] = name;
  }
  return out;
}

class TabledGemm final : public CostModel<GemmShape> {
 public:
  TabledGemm(const CostContext& context, Section& s) : gpu_(context.gpu) {
    const Choice choice(context, s);
    scale_ = choice.scale();
    for (const Precision p : precisions)
      tables_[static_cast<std::size_t>(p)] = choice.find("gemm", named("gemm_dtype", p, {}));
    used_ = choice.used();
  }
  std::string rests_on() const override { return used_; }
  Prediction predict(const GemmShape& s) const override {
    SIM_ASSERT(s.m > 0 && s.n > 0 && s.k > 0);
    const auto m = static_cast<double>(s.m), n = static_cast<double>(s.n),
               k = static_cast<double>(s.k);
    const Duration arithmetic = Flops(2 * m * n * k) / gpu_.peak(s.precision);
    const Duration memory =
        Duration::from_seconds((n * k * bytes_per_element(s.precision) + (m * k + m * n) * 2) /
                               gpu_.memory_bandwidth.count());
    const Tabled& table = tables_[static_cast<std::size_t>(s.precision)];
    return table ? table.predict({n, k, m}, scale_, arithmetic, memory)
                 : roofline(arithmetic, memory);
  }

 private:
  GpuSpec gpu_;
  std::string used_;
  double scale_ = 1;
  std::array<Tabled, precisions.size()> tables_;
};

// DeepSeek's absorbed projections were measured (128 x 512); others by their weights.
class TabledBatchedGemm final : public CostModel<BatchedGemmShape> {
 public:
  TabledBatchedGemm(const CostContext& context, Section& s) : gpu_(context.gpu) {
    const Choice choice(context, s);
    scale_ = choice.scale();
    table_ = choice.find("mla_bmm", {{{"bmm_dtype", "bfloat16"}, {"op_name", "mla_gen_pre"}}});
    used_ = choice.used();
  }
  std::string rests_on() const override { return used_; }
  Prediction predict(const BatchedGemmShape& s) const override {
    const double batch = static_cast<double>(s.batch), m = static_cast<double>(s.m),
                 nk = static_cast<double>(s.n * s.k);
    const Duration arithmetic = Flops(2 * batch * m * nk) / gpu_.bf16;
    const Duration memory = Duration::from_seconds(batch * nk * 2 / gpu_.memory_bandwidth.count());
    if (!table_) return roofline(arithmetic, memory);
    const Coordinates x{batch, m};
    // start-up does not grow with the widths
    const double us = table_.answer(x).us, start = table_.set().parameters[0];
    const double wider = std::max(1.0, nk / (128.0 * 512));
    return table_.predict(x, scale_ * (start + std::max(0.0, us - start) * wider) / us, arithmetic,
                          memory);
  }

 private:
  GpuSpec gpu_;
  std::string used_;
  double scale_ = 1;
  Tabled table_;
};

// The table under the routing skew that lies nearest to served traffic (power law 1.01); another
// number of distinct experts moves the time as the law says.
class TabledMoe final : public CostModel<MoeShape> {
 public:
  TabledMoe(const CostContext& context, Section& s) : gpu_(context.gpu) {
    const Choice choice(context, s);
    scale_ = choice.scale();
    for (const Precision p : precisions)
      tables_[static_cast<std::size_t>(p)] =
          choice.find("moe", named("moe_dtype", p, {{"distribution", "power_law_1.01"}}));
    used_ = choice.used();
  }
  std::string rests_on() const override { return used_; }
  Prediction predict(const MoeShape& s) const override {
    SIM_ASSERT(s.tokens > 0 && s.hidden > 0 && s.inter > 0 && s.distinct_experts > 0);
    const double weights = 3.0 * s.hidden * s.inter;
    const double bytes = s.distinct_experts * weights * bytes_per_element(s.precision);
    const Duration arithmetic =
        Flops(2 * weights * static_cast<double>(s.tokens * s.experts_per_token)) /
        gpu_.peak(s.precision);
    const Duration memory = Duration::from_seconds(bytes / gpu_.memory_bandwidth.count());
    const Tabled& table = tables_[static_cast<std::size_t>(s.precision)];
    if (!table) return roofline(arithmetic, memory);
    const Coordinates x{static_cast<double>(s.experts_per_token),
                        static_cast<double>(s.experts),
                        static_cast<double>(s.hidden),
                        static_cast<double>(s.inter) * s.ways,
                        1,
                        static_cast<double>(s.ways),
                        static_cast<double>(s.tokens)};
    const KernelSet& set = table.set();
    const double us = table.answer(x).us;
    // what the law gives for the weights of the experts that were touched when it was measured
    const double measured_weights_us =
        set.kind().cold(set.context(), set.parameters.data(), x.data()) - set.parameters[0];
    const double each_us =
        weights * set.context().weight_bytes / (set.context().bandwidth * set.parameters[1]);
    const double delta = s.distinct_experts * each_us - measured_weights_us;
    const double adjusted = std::max(us / 2, us + delta);
    return table.predict(x, scale_ * adjusted / us, arithmetic, memory);
  }

 private:
  GpuSpec gpu_;
  std::string used_;
  double scale_ = 1;
  std::array<Tabled, precisions.size()> tables_;
};

std::string kv_name(Precision p) { return p == Precision::bf16 ? "bfloat16" : "fp8"; }

// A KV precision that the engine was not measured with is priced as the one that was.
Tabled find_attention(const Choice& choice, const std::string& kernel_class, Precision kv) {
  return choice.find(kernel_class, {{{"kv_cache_dtype", kv_name(kv)}}, {}});
}

class TabledMlaDecode final : public CostModel<MlaDecodeShape> {
 public:
  TabledMlaDecode(const CostContext& context, Section& s) : gpu_(context.gpu) {
    const Choice choice(context, s);
    scale_ = choice.scale();
    bf16_ = find_attention(choice, "generation_mla", Precision::bf16);
    fp8_ = find_attention(choice, "generation_mla", Precision::fp8);
    used_ = choice.used();
  }
  std::string rests_on() const override { return used_; }
  Prediction predict(const MlaDecodeShape& s) const override {
    SIM_ASSERT(s.sequences > 0 && s.kv_tokens >= s.sequences && s.heads > 0);
    const auto tokens = static_cast<double>(s.kv_tokens),
               sequences = static_cast<double>(s.sequences);
    const Duration arithmetic = Flops(2 * tokens * s.heads * (2 * s.kv_lora + s.rope)) / gpu_.bf16;
    const Duration memory = Duration::from_seconds(
        tokens * (s.kv_lora + s.rope) * bytes_per_element(s.kv) / gpu_.memory_bandwidth.count());
    const Tabled& table = s.kv == Precision::bf16 ? bf16_ : fp8_;
    if (!table) return roofline(arithmetic, memory);
    return table.predict({static_cast<double>(s.heads), sequences, tokens / sequences - 1}, scale_,
                         arithmetic, memory);
  }

 private:
  GpuSpec gpu_;
  std::string used_;
  double scale_ = 1;
  Tabled bf16_, fp8_;
};

// Prompts were measured from their beginning: a prompt with a cached prefix is priced as one that
// has as many (query, key) pairs.
class TabledMlaPrefill final : public CostModel<MlaPrefillShape> {
 public:
  TabledMlaPrefill(const CostContext& context, Section& s) : gpu_(context.gpu) {
    const Choice choice(context, s);
    scale_ = choice.scale();
    table_ = find_attention(choice, "context_mla", Precision::bf16);
    used_ = choice.used();
  }
  std::string rests_on() const override { return used_; }
  Prediction predict(const MlaPrefillShape& s) const override {
    SIM_ASSERT(s.sequences > 0 && s.pairs >= s.tokens && s.heads > 0);
    const auto sequences = static_cast<double>(s.sequences);
    const double pairs_each = static_cast<double>(s.pairs) / sequences;
    // 192 and 128 wide heads, not absorbed, is the least arithmetic there is
    const Duration arithmetic =
        Flops(2.0 * static_cast<double>(s.pairs) * s.heads * 320) / gpu_.bf16;
    const Duration memory =
        Duration::from_seconds(static_cast<double>(s.tokens) * (s.kv_lora + s.rope) *
                               bytes_per_element(s.kv) / gpu_.memory_bandwidth.count());
    if (!table_) return roofline(arithmetic, memory);
    const double length = (std::sqrt(1 + 8 * pairs_each) - 1) / 2;
    return table_.predict({static_cast<double>(s.heads), sequences, std::max(1.0, length)}, scale_,
                          arithmetic, memory);
  }

 private:
  GpuSpec gpu_;
  std::string used_;
  double scale_ = 1;
  Tabled table_;
};

const Registered<CostModelFactory<GemmShape>> gemm("table", make_cost_model<TabledGemm, GemmShape>);
const Registered<CostModelFactory<BatchedGemmShape>> batched(
    "table", make_cost_model<TabledBatchedGemm, BatchedGemmShape>);
const Registered<CostModelFactory<MoeShape>> moe("table", make_cost_model<TabledMoe, MoeShape>);
const Registered<CostModelFactory<MlaDecodeShape>> decode(
    "table", make_cost_model<TabledMlaDecode, MlaDecodeShape>);
const Registered<CostModelFactory<MlaPrefillShape>> prefill(
    "table", make_cost_model<TabledMlaPrefill, MlaPrefillShape>);

}  // namespace
