// The price list against the step model where attention has grouped queries: equal at the knots
// for decodes and for prompts behind a prefix, equal always where a pass is one launch or lengths
// are known; residuals in both.

#include <cmath>

#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include "sim/step/price_list.hpp"
#include "tests/support/experiment.hpp"
#include "tests/support/fake_models.hpp"
#include "tests/support/hardware.hpp"

namespace {

Duration us(double n) { return Duration::from_us(n); }
Duration ps(std::int64_t n) { return Duration::picoseconds(n); }

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

namespace {

// `count` prompts of `tokens` tokens, each behind `past`.
PassShape prompts(std::int64_t count, std::int64_t tokens, std::int64_t past) {
  PassShape pass = PassShape::extend(tokens, past, 0);
  pass.extend_sequences = pass.heads_rows = count;
  pass.extend_tokens *= count;
  pass.extend_pairs *= count;
  pass.extend_pairs_capped *= count;
  return pass;
}

}  // namespace

TEST_CASE("prompts behind a prefix cost what the step model says at knots of it") {
  Dense dense("h100");  // adds its parts
  dense.costs.attention_prefill = fake::cost<GqaPrefillShape>([](const GqaPrefillShape& s) {
    const auto n = static_cast<double>(s.prompt.tokens), past = static_cast<double>(s.prompt.past);
    return fake::takes(us(3 + n / 7 + std::sqrt(n * past)));
  });
  PriceList prices(*dense.step);
  CHECK(rc::check([&] {
    const auto tokens = *rc::gen::inRange<std::int64_t>(1, 3000);
    const auto count = *rc::gen::inRange<std::int64_t>(1, 5);
    const int shift = *rc::gen::inRange(0, 14);
    const std::int64_t knot = *rc::gen::inRange<std::int64_t>(8, 16) << shift;
    const std::int64_t span = std::int64_t{1} << shift;
    const auto listed = [&](std::int64_t past) {
      return prices.cost(prompts(count, tokens, past), false).device;
    };
    for (const std::int64_t past : {std::int64_t{0}, std::int64_t{shift % 8}, knot, knot + span})
      RC_ASSERT(listed(past) == dense.step->cost(prompts(count, tokens, past), false).device);
    // Between them on the line, up to the picosecond of a slope for each of 3 layers.
    const auto k = *rc::gen::inRange<std::int64_t>(0, span);
    const Duration line = listed(knot) + (listed(knot + span) - listed(knot)) * k / span;
    const Duration off = line - listed(knot + k);
    RC_ASSERT(off >= ps(-1) && off <= ps(3 * count * (k + 1)));
  }));
}

TEST_CASE("where prompts are priced as one of their sizes summed, so are they in the list") {
  Dense dense("h100");
  AttentionKernel kernel = flash_attention(load_gpu("h100"));
  kernel.sums_prompts = true;
  dense.step->set_attention(load_gpu("h100"), kernel);
  PriceList prices(*dense.step);
  for (const std::int64_t count : {2, 3})
    for (const std::int64_t past : {0, 5, 100, 1001}) {
      const PassShape pass = prompts(count, 70, past);
      CHECK(prices.cost(pass, false).device == dense.step->cost(pass, false).device);
    }
}

TEST_CASE("between knots of the prefix a served prompt is priced as by the step model") {
  // On the fitted table of an H100 that the clock is timed with.
  const auto experiment = make_experiment(
      "{schema: 1, machine: 1x-h100, model: llama-3.1-8b, engine: {kind: vllm}, workload: {kind: "
      "vllm_bench, num_prompts: 1}}");
  PriceList prices(experiment->step());
  double worst = 0, sum = 0;
  int n = 0;
  for (const std::int64_t tokens : {1, 16, 64, 100, 300, 1000, 4000, 8192})
    for (std::int64_t past = 1; past < 60'000; past += 1 + past / 23, ++n) {
      const PassShape pass = PassShape::extend(tokens, past, 0);
      const double off =
          prices.cost(pass, false).device / experiment->step().cost(pass, false).device - 1;
      worst = std::max(worst, std::abs(off));
      sum += std::abs(off);
    }
  CHECK(worst < 0.0015);
  CHECK(sum / n < 0.00002);
}
