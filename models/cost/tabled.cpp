// Cost models that answer from the fitted tables of a GPU (model: table): an exact point, else
// interpolation of what the measured times differ from a law, else the law, and never less than the
// roofline. The table is that of the build's engine in the nearest version, or of the engine and
// version that the section names. Weights and KV count as cold. A shape of a precision that nobody
// measured is the bare roofline.
// Leaves out: unequal lengths inside a decode batch (the mean is priced), expert parallelism.

#include "models/cost/tabled.hpp"

#include <array>
#include <cmath>

#include "sim/base/assert.hpp"

namespace {

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
