// How a step model prices grouped queries: from sums or from single lengths, with the card's
// attention kernel; and what passes take beside their kernels.

#include <memory>

#include <catch2/catch.hpp>

#include "sim/step/build.hpp"
#include "tests/support/fake_models.hpp"
#include "tests/support/hardware.hpp"

namespace {

Duration us(double n) { return Duration::from_us(n); }

// One layer of attention with 8 KV heads, repeated: a decode takes 1 us per 1,000 tokens of KV, a
// prompt 1 us per 1,000 pairs.
struct Attention {
  explicit Attention(int layers = 1, Only only = Only::everything)
      : costs(fake::free_kernels()), collectives(fake::pricer(1)) {
    costs.attention_decode = fake::cost<GqaDecodeShape>([this](const GqaDecodeShape& s) {
      decoded.push_back(s);
      return fake::takes(us(static_cast<double>(s.sequences) * s.kv_tokens_each / 1000));
    });
    costs.attention_prefill = fake::cost<GqaPrefillShape>([this](const GqaPrefillShape& s) {
      prompts.push_back(s.prompt);
      const auto n = static_cast<double>(s.prompt.tokens);
      return fake::takes(us((n * static_cast<double>(s.prompt.past) + n * (n + 1) / 2) / 1000));
    });
    Operator op{"attention", "attention", 2, GqaOp{32, 8, 128, Precision::bf16}};
    step = std::make_unique<StepModel>(ModelGraph{{LayerBlock{"layer", layers, {op}, true}}}, costs,
                                       collectives, ExpertPopularity(1, 1, 0), LaunchCosts{}, only);
  }
  Attention(const Attention&) = delete;
  Attention& operator=(const Attention&) = delete;
  void on(const std::string& gpu) {
    const GpuSpec card = load_gpu(gpu);
    step->set_attention(card, flash_attention(card));
  }
  Duration time(const PassShape& pass) const { return step->cost(pass, true).device; }

  CostModels costs;
  CollectivePricer collectives;
  std::vector<GqaDecodeShape> decoded;
  std::vector<PromptPart> prompts;
  std::unique_ptr<StepModel> step;
};

PassShape mixed(std::int64_t decodes, std::int64_t kv, std::int64_t prompt) {
  PassShape pass = PassShape::decode(decodes, kv);
  const PassShape extend = PassShape::extend(prompt);
  pass.extend_sequences = 1;
  pass.extend_tokens = pass.extend_tokens_max = prompt;
  pass.extend_pairs = pass.extend_pairs_capped = extend.extend_pairs;
  pass.heads_rows += 1;
  return pass;
}

PassResiduals residuals() {
  PassResiduals r;
  r.per_prefill_layer.value = us(62);
  PassResiduals::Band band;
  band.batch_min = 33, band.batch_max = 64;
  band.time.value = us(1700);
  r.bands = {band};
  return r;
}

}  // namespace

TEST_CASE("grouped queries: parts of a pass are added unless the card's kernel mixes them") {
  Attention a;
  // 4 x 2,000 tokens: 8 us; a prompt of 1,000: 500.5 us
  CHECK(a.time(mixed(4, 2000, 1000)) == us(508.5));
  CHECK_FALSE(a.step->wants_lengths());
  a.on("h100");
  CHECK(a.time(mixed(4, 2000, 1000)) == us(508.5));
  CHECK_FALSE(a.step->wants_lengths());
  a.on("rtx-pro-6000-server");
  CHECK(a.step->wants_lengths());
  // FlashAttention-2 walks each decode once per query head: far more than 8 us
  CHECK(a.time(mixed(64, 4000, 1000)) > us(500.5 + 256));
}

TEST_CASE("without lengths all decodes are equal and prompts alike; with them each counts") {
  Attention a;
  a.time(PassShape::decode(3, 1000));
  REQUIRE(a.decoded.size() == 1);
  CHECK(a.decoded[0].sequences == 3);
  CHECK(a.decoded[0].kv_tokens_each == 1000);

  // two prompts of 100 behind 50 each: pairs 2 x (100 x 50 + 5,050)
  PassShape two;
  two.extend_sequences = two.heads_rows = 2;
  two.extend_tokens = 200;
  two.extend_tokens_max = 100;
  two.extend_pairs = two.extend_pairs_capped = 20'100;
  CHECK(a.time(two) == us(20.1));
  REQUIRE(a.prompts.size() == 2);
  CHECK((a.prompts[0].tokens == 100 && a.prompts[0].past == 50));
  const PromptPart parts[] = {{50, 0}, {150, 10}};
  a.prompts.clear();
  two.prompts = parts;
  // 50 x 51 / 2 + 150 x 10 + 150 x 151 / 2
  CHECK(a.time(two) == us(1.275 + 1.5 + 11.325));
  CHECK(a.prompts.size() == 2);
}

TEST_CASE("the padded batch decides whether KV is split; unequal lengths then cost more") {
  Attention a;
  a.on("rtx-pro-6000-server");
  // 32 sequences of 8 heads are split on 188 SMs, 40 are not
  const auto one_long = [&](std::int64_t sequences, std::int64_t padded) {
    std::vector<std::int64_t> each(static_cast<std::size_t>(sequences), 1000);
    each[0] = 30'000;
    PassShape pass = PassShape::decode(sequences, 1000);
    pass.decode_kv_tokens += 29'000;
    pass = pass.padded_to(padded);
    const Duration equal = a.time(pass);
    pass.decode_kv_each = each;
    return a.time(pass) / equal;
  };
  CHECK(one_long(32, 32) == Approx(1));
  CHECK(one_long(33, 40) > 1.5);
  CHECK(one_long(33, 40) == Approx(one_long(40, 40)).epsilon(0.3));
}

TEST_CASE("a pass takes its residual once, by padded batch, and per layer with prompts") {
  Attention a(10);
  const PassShape decode = PassShape::decode(40, 100), few = PassShape::decode(32, 100),
                  prompt = PassShape::extend(100), both = mixed(40, 100, 100);
  const Duration before[] = {a.time(decode), a.time(few), a.time(prompt), a.time(both)};
  a.step->set_residuals(residuals());
  CHECK(a.time(decode) - before[0] == us(1700));
  CHECK(a.time(few) == before[1]);
  CHECK(a.time(few.padded_to(40)) - a.time(few) >= us(1700));
  CHECK(a.time(prompt) - before[2] == us(620));
  CHECK(a.time(both) - before[3] == us(620));
  for (const PassShape& pass : {decode, few, prompt, both}) {
    const Breakdown b = a.step->breakdown(pass, true);
    Duration sum;
    for (const auto& item : b.items) sum += item.time;
    CHECK(sum == b.device);
    CHECK(b.device == a.time(pass));
  }
  // 1.7 ms and 10 us for each of 40, or of 32 padded to 40
  PassResiduals each = residuals();
  each.bands[0].per_sequence.emplace();
  each.bands[0].per_sequence->value = us(10);
  const Duration padded = a.time(few.padded_to(40));
  a.step->set_residuals(each);
  CHECK(a.time(decode) - before[0] == us(2100));
  CHECK(a.time(few.padded_to(40)) - padded == us(400));
  const Breakdown b = a.step->breakdown(decode, true);
  Duration sum;
  for (const auto& item : b.items) sum += item.time;
  CHECK(sum == b.device);
  // a ceiling of one resource has none of it
  Attention memory(10, Only::memory);
  memory.step->set_residuals(residuals());
  CHECK(memory.time(decode) == us(0));
}

TEST_CASE("a kernel scale multiplies every kernel and stops at the roofline") {
  Attention a;
  PassResiduals r;
  r.kernel_scale.emplace();
  r.kernel_scale->value = 0.5;
  a.step->set_residuals(r);
  CHECK(a.time(PassShape::decode(1, 1000)) == us(0.5));
  a.costs.attention_decode = fake::cost<GqaDecodeShape>(
      [](const GqaDecodeShape&) { return fake::takes(us(1), us(0.2), us(0.9)); });
  CHECK(a.time(PassShape::decode(1, 1000)) == us(0.9));
}

TEST_CASE("a build states what its passes take beside their kernels") {
  const std::string head =
      "schema: 1\nname: x\nsource: x\nengine: vllm\nversion: 1\narchitecture: sm120\ntables: x\n"
      "back_ends: {gemm: a, elementwise: b, attention_decode: c, attention_prefill: d}\n"
      "sparse_attention: false\ngraphs: {decode: true, side_streams: false}\n";
  Reading reading;
  const Settings good =
      yaml(head +
           "host: {dispatch: 1 us, per_step: 1 us, per_sequence: 0 us, per_prefill_layer: 62 us,\n"
           "  cold_start: 450 ms}\n"
           "kernel_scale: {value: 0.965, basis: fitted, source: x}\n"
           "residuals:\n  - {batch_min: 33, batch_max: 64, time: 1.7 ms}\n"
           "  - {batch_min: 65, batch_max: 99, time: 1 ms, per_sequence: 9 us}\n");
  const Build b = read_build("x", good, reading);
  CHECK(reading.errors.render() == "");
  CHECK(b.residuals.per_prefill_layer.value == us(62));
  CHECK(b.cold_start.value == us(450'000));
  CHECK(b.residuals.kernel_scale->value == 0.965);
  REQUIRE(b.residuals.bands.size() == 2);
  CHECK(b.residuals.bands[0].time.value == us(1700));
  CHECK_FALSE(b.residuals.bands[0].per_sequence);
  CHECK(b.residuals.bands[1].per_sequence->value == us(9));
  CHECK(b.tables_version == "1");
  CHECK(b.back_ends.moe.empty());
  CHECK(b.back_ends.attention_prefill == "d");

  Reading wrong;
  const Settings overlap = yaml(head +
                                "host: {dispatch: 1 us, per_step: 1 us, per_sequence: 0 us}\n"
                                "residuals:\n  - {batch_min: 33, batch_max: 64, time: 1 ms}\n"
                                "  - {batch_min: 64, batch_max: 63, time: 1 ms}\n");
  read_build("x", overlap, wrong);
  CHECK(wrong.errors.render().find("batch_max is below batch_min") != std::string::npos);
}
