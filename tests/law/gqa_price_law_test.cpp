// The price list against the step model where attention has grouped queries: equal at the knots
// for decodes, equal always where a pass is one launch or lengths are known; residuals in both.

#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include "sim/step/price_list.hpp"
#include "tests/support/fake_models.hpp"
#include "tests/support/hardware.hpp"

namespace {

Duration us(double n) { return Duration::from_us(n); }

struct Dense {
  explicit Dense(const std::string& gpu)
      : costs(fake::free_kernels()), collectives(fake::pricer(1)) {
    costs.gemm = fake::cost<GemmShape>(
        [](const GemmShape& s) { return fake::takes(us(10 + 0.1 * static_cast<double>(s.m))); });
    costs.attention_decode = fake::cost<GqaDecodeShape>([](const GqaDecodeShape& s) {
      return fake::takes(us(5 + static_cast<double>(s.sequences) * s.kv_tokens_each / 500));
    });
    costs.attention_prefill = fake::cost<GqaPrefillShape>([](const GqaPrefillShape& s) {
      const auto n = static_cast<double>(s.prompt.tokens);
      return fake::takes(us(n * (static_cast<double>(s.prompt.past) + n / 2) / 1000));
    });
    const Operator attention{"attention", "attention", 2, GqaOp{32, 8, 128, Precision::bf16}};
    step = std::make_unique<StepModel>(
        ModelGraph{{LayerBlock{"layer", 3, {fake::gemm("qkv"), attention, fake::gemm("o")}, true},
                    LayerBlock{"head", 1, {fake::gemm("head")}}}},
        costs, collectives, ExpertPopularity(1, 1, 0), LaunchCosts{});
    const GpuSpec card = load_gpu(gpu);
    step->set_attention(card, flash_attention(card));
    PassResiduals r;
    r.per_prefill_layer.value = us(62);
    PassResiduals::Band band;
    band.batch_min = 33, band.batch_max = 64, band.time.value = us(1100);
    r.bands = {band};
    step->set_residuals(r);
  }
  Dense(const Dense&) = delete;
  Dense& operator=(const Dense&) = delete;

  CostModels costs;
  CollectivePricer collectives;
  std::unique_ptr<StepModel> step;
};

PassShape with_prompt(PassShape pass, std::int64_t tokens) {
  const PassShape extend = PassShape::extend(tokens);
  pass.extend_sequences = 1;
  pass.extend_tokens = pass.extend_tokens_max = tokens;
  pass.extend_pairs = pass.extend_pairs_capped = extend.extend_pairs;
  pass.heads_rows += 1;
  return pass;
}

}  // namespace

TEST_CASE("the price list is the step model for grouped queries, residuals included") {
  for (const char* gpu : {"h100", "rtx-pro-6000-server"}) {
    const Dense dense(gpu);
    PriceList prices(*dense.step);
    CHECK(rc::check(gpu, [&] {
      const auto n = *rc::gen::inRange<std::int64_t>(1, 100);
      const auto tokens = *rc::gen::inRange<std::int64_t>(1, 3000);
      // a knot of the KV sum: 8 to 15 times a power of two, at least a token each
      const std::int64_t kv = n * *rc::gen::inRange<std::int64_t>(1, 4000);
      PassShape decode = PassShape::decode(n, 1);
      std::int64_t knot = 8;
      while (knot * 2 <= kv) knot *= 2;
      decode.decode_kv_tokens = decode.decode_kv_tokens_capped = std::max(knot, n);
      decode.kv_max = decode.decode_kv_tokens;
      const auto equal = [&](const PassShape& pass) {
        RC_ASSERT(prices.cost(pass, true).device == dense.step->cost(pass, true).device);
      };
      if (knot >= n) equal(decode);
      equal(with_prompt(PassShape(), tokens));
      if (knot >= n) equal(with_prompt(decode, tokens));
      // single lengths, where they matter
      if (!dense.step->wants_lengths()) return;
      std::vector<std::int64_t> each(static_cast<std::size_t>(n), 100);
      each[0] = 20'000;
      PassShape unequal = PassShape::decode(n, 100);
      unequal.decode_kv_tokens = unequal.decode_kv_tokens_capped = 100 * (n - 1) + 20'000;
      unequal.kv_max = 20'000;
      unequal.decode_kv_each = each;
      equal(unequal);
      equal(with_prompt(unequal, tokens));
    }));
  }
}
