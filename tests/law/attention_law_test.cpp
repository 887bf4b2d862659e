#include <algorithm>
#include <cmath>
#include <map>
#include <queue>
#include <vector>

#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include "models/cost/attention_pass.hpp"

namespace {

using Lengths = std::vector<std::int64_t>;

const KvWalk pro_6000{188, 2975, 60}, rtx_4090{128, 1870, 40};

// Aggregates with a few numbers that the laws need.
GpuSpec gpu(const std::string& architecture) {
  GpuSpec g;
  g.architecture = architecture;
  const bool ada = architecture == "sm89";
  g.sm_count = ada ? 128 : 188;
  g.l2 = Bytes((ada ? 72 : 128) * std::int64_t{1024} * 1024);
  g.memory_bandwidth = BytesPerSecond(ada ? 1.008e12 : 1.792e12);
  return g;
}

const KvWalk& walk() { return **rc::gen::element(&pro_6000, &rtx_4090); }

Lengths lengths(int most) {
  const int n = *rc::gen::inRange(1, most + 1), span = *rc::gen::element(1, 100, 3000, 20000);
  return *rc::gen::container<Lengths>(static_cast<std::size_t>(n),
                                      rc::gen::inRange<std::int64_t>(1, 1 + span));
}

int kv_heads() { return *rc::gen::element(1, 2, 4, 8, 16); }

double ratio(const Lengths& each, int heads, const KvWalk& w) {
  return kv_tail_ratio(KvLengths::of(each), heads, w);
}

/// The same without the closed form: blocks in the order given, head by head, to whichever SM is
/// free first. Returns us.
double scheduled_us(const Lengths& each, int heads, const KvWalk& w) {
  std::priority_queue<double, std::vector<double>, std::greater<>> free;
  for (int i = 0; i < w.sms; ++i) free.push(0);
  std::map<double, int> change;
  for (int head = 0; head < heads; ++head)
    for (const auto length : each) {
      const double start = free.top();
      free.pop();
      free.push(start + static_cast<double>(length));
      ++change[start];
      --change[start + static_cast<double>(length)];
    }
  double us = 0, last = 0;
  int running = 0;
  for (const auto& [at, by] : change) {
    us += (at - last) * std::max(running / w.bandwidth_tokens_per_us, 1 / w.block_tokens_per_us);
    last = at;
    running += by;
  }
  return us;
}

/// Stand-ins for tables, in plain arithmetic.
struct PlainDecode final : CostModel<GqaDecodeShape> {
  Prediction predict(const GqaDecodeShape& s) const override {
    const double us = 8 + static_cast<double>(s.sequences) * s.kv_tokens_each * s.heads.kv * 3e-4;
    return {Duration::from_us(us), {}, {}, Provenance::measured, 0};
  }
};
struct PlainPrefill final : CostModel<GqaPrefillShape> {
  Prediction predict(const GqaPrefillShape& s) const override {
    const auto n = static_cast<double>(s.prompt.tokens);
    const double pairs = n * (static_cast<double>(s.prompt.past) + n / 2);
    return {Duration::from_us(8 + pairs * s.heads.query * 2e-6), {}, {}, Provenance::measured, 0};
  }
};
const PlainDecode decode;
const PlainPrefill prefill;

Prediction priced(const AttentionPass& pass, const std::string& architecture = "sm120") {
  const GpuSpec g = gpu(architecture);
  return attention_pass(pass, g, flash_attention(g), decode, prefill);
}

AttentionPass pass(const Lengths& each, std::vector<PromptPart> prompts) {
  return {KvLengths::of(each),
          static_cast<std::int64_t>(each.size()),
          std::move(prompts),
          {32, 8, 128, Precision::bf16}};
}

std::vector<PromptPart> prompts(std::size_t most) {
  std::vector<PromptPart> out;
  const std::size_t n = *rc::gen::inRange<std::size_t>(1, most + 1);
  for (std::size_t i = 0; i < n; ++i)
    out.push_back(
        {*rc::gen::inRange<std::int64_t>(1, 4097), *rc::gen::element<std::int64_t>(0, 100, 9000)});
  return out;
}

std::string fa2() { return *rc::gen::element<std::string>("sm120", "sm89", "sm80"); }

}  // namespace

TEST_CASE("unequal KV lengths cost between nothing and what equal lengths of the longest cost") {
  CHECK(rc::check("ratio", [] {
    const Lengths each = lengths(200);
    const KvLengths kv = KvLengths::of(each);
    const double r = ratio(each, kv_heads(), walk());
    RC_ASSERT(r >= 1);
    RC_ASSERT(r <= static_cast<double>(kv.max) / kv.mean());
  }));
}

TEST_CASE("equal KV lengths, and a batch of one, have no tail") {
  CHECK(rc::check("equal", [] {
    const auto n = *rc::gen::inRange<std::size_t>(1, 300);
    RC_ASSERT(ratio(Lengths(n, *rc::gen::inRange<std::int64_t>(1, 30000)), kv_heads(), walk()) ==
              1);
  }));
  CHECK(kv_tail_ratio({}, 8, pro_6000) == 1);
}

TEST_CASE("the order of a batch does not change its KV tail") {
  CHECK(rc::check("permutation", [] {
    Lengths each = lengths(64);
    const int heads = kv_heads();
    const KvWalk& w = walk();
    const double before = ratio(each, heads, w);
    std::rotate(each.begin(), each.begin() + *rc::gen::inRange<std::ptrdiff_t>(0, std::ssize(each)),
                each.end());
    std::reverse(each.begin() + std::ssize(each) / 2, each.end());
    RC_ASSERT(ratio(each, heads, w) == before);
  }));
}

TEST_CASE("the longer the longest at the same sum, the longer the KV tail") {
  CHECK(rc::check("lengths", [] {
    Lengths each = lengths(200);
    const int heads = kv_heads();
    const KvWalk& w = walk();
    const double before = ratio(each, heads, w);
    const auto longest = std::max_element(each.begin(), each.end());
    for (auto& length : each) {
      if (&length == &*longest) continue;
      const std::int64_t moved = *rc::gen::inRange<std::int64_t>(0, length);
      length -= moved;
      *longest += moved;
    }
    RC_ASSERT(ratio(each, heads, w) >= before * (1 - 1e-12));
  }));
  CHECK(rc::check("count, sum and max", [] {
    const std::int64_t count = *rc::gen::inRange(2, 300), mean = *rc::gen::inRange(100, 5000);
    const std::int64_t max = *rc::gen::inRange(mean, mean * count - 1);
    const int heads = kv_heads();
    const KvWalk& w = walk();
    RC_ASSERT(kv_tail_ratio({count, mean * count, max + 1}, heads, w) >=
              kv_tail_ratio({count, mean * count, max}, heads, w) * (1 - 1e-12));
  }));
}

TEST_CASE("no batch has a longer KV tail than its count, sum and longest stand for") {
  CHECK(rc::check([] {
    const Lengths each = lengths(200);
    KvLengths kv = KvLengths::of(each);
    const int heads = kv_heads();
    const KvWalk& w = walk();
    const double exact = kv_tail_ratio(kv, heads, w);
    kv.each = {};
    RC_ASSERT(kv_tail_ratio(kv, heads, w) >= exact * (1 - 1e-12));
  }));
}

TEST_CASE("the closed form of the KV tail follows a list schedule of the blocks") {
  // Fewer blocks than SMs, where all start at once: exactly.
  const Lengths few{500, 500, 500, 8000, 900, 500, 500, 500};
  const Lengths few_equal(8, 1487);  // of 1,487.5
  CHECK(
      ratio(few, 8, pro_6000) ==
      Approx(scheduled_us(few, 8, pro_6000) / scheduled_us(few_equal, 8, pro_6000)).epsilon(1e-3));
  // More: in the mean over random orders; batches that just miss a whole wave are left out.
  const auto closeness = [](const KvWalk& w, int n, int heads) {
    std::uint64_t state = 88172645463325252ULL;
    const auto random = [&](std::int64_t below) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      return static_cast<std::int64_t>(state % static_cast<std::uint64_t>(below));
    };
    double sum = 0;
    for (int trial = 0; trial < 20; ++trial) {
      Lengths each;
      for (int i = 0; i < n; ++i)
        each.push_back(trial % 2 ? 200 + random(2800) : (random(8) ? 600 : 6000));
      const auto total = KvLengths::of(each).sum;
      each[0] += (n - total % n) % n;  // a whole mean
      const Lengths equal(each.size(), KvLengths::of(each).sum / n);
      sum += ratio(each, heads, w) / (scheduled_us(each, heads, w) / scheduled_us(equal, heads, w));
    }
    return sum / 20;
  };
  for (const int n : {40, 64, 100, 128, 200}) {
    INFO(n << " sequences");
    CHECK(closeness(pro_6000, n, 8) == Approx(1).margin(0.03));
    CHECK(closeness(rtx_4090, n, 8) == Approx(1).margin(0.03));
  }
}

TEST_CASE("FlashAttention-2 splits KV up to 37 sequences of 8 KV heads on 188 SMs, 25 on 128") {
  CHECK(splits_kv(37, 8, 188));
  CHECK_FALSE(splits_kv(38, 8, 188));
  CHECK(splits_kv(25, 8, 128));
  CHECK_FALSE(splits_kv(26, 8, 128));
  CHECK(splits_kv(75, 4, 188));
}

TEST_CASE("a kernel that splits KV sees the mean, and the padded batch decides whether it does") {
  Lengths each(33, 500);
  each[7] = 9000;
  AttentionPass p = pass(each, {});
  const auto mean = decode.predict({33, p.decodes.mean(), p.heads}).time;
  CHECK(priced(p).time == mean);
  p.padded_batch = 40;
  CHECK(priced(p).time > mean);
  CHECK(priced(p, "sm90").time == mean);
}

TEST_CASE("a pass without prompts is its decodes, one without decodes its prompts") {
  CHECK(rc::check([] {
    const std::string architecture = fa2();
    const Lengths each(*rc::gen::inRange<std::size_t>(1, 100), 700);
    const auto p = prompts(1);
    const AttentionHeads heads = pass({}, {}).heads;
    RC_ASSERT(priced(pass(each, {}), architecture).time ==
              decode.predict({std::ssize(each), 700, heads}).time);
    RC_ASSERT(priced(pass({}, p), architecture).time == prefill.predict({p[0], heads}).time);
  }));
  CHECK(priced(pass({}, {})).time == Duration());
}

TEST_CASE("a mixed pass is never faster than its decodes or its prompts alone") {
  CHECK(rc::check([] {
    const std::string architecture = fa2();
    const Lengths each = lengths(128);
    const auto p = prompts(4);
    const auto together = priced(pass(each, p), architecture).time;
    RC_ASSERT(together >= priced(pass(each, {}), architecture).time);
    RC_ASSERT(together >= priced(pass({}, p), architecture).time);
  }));
}

TEST_CASE("more in a mixed pass never takes less time") {
  CHECK(rc::check([] {
    const std::string architecture = fa2();
    Lengths each = lengths(128);
    auto p = prompts(3);
    const auto before = priced(pass(each, p), architecture).time;
    auto more = p;
    more.push_back({*rc::gen::inRange<std::int64_t>(1, 2049), 0});
    if (priced(pass({}, {more.back()})).time <= priced(pass({}, {p[0]})).time)
      RC_ASSERT(priced(pass(each, more), architecture).time >= before);
    // the decode model is told the mean: a longest one more, the others the same
    *std::max_element(each.begin(), each.end()) += *rc::gen::inRange<std::int64_t>(1, 3000);
    RC_ASSERT(priced(pass(each, p), architecture).time >= before);
  }));
}

TEST_CASE("FlashAttention-3 adds what decodes and prompts cost alone") {
  CHECK(rc::check([] {
    const Lengths each = lengths(128);
    const auto p = prompts(4);
    RC_ASSERT(priced(pass(each, p), "sm90").time ==
              priced(pass(each, {}), "sm90").time + priced(pass({}, p), "sm90").time);
  }));
}

TEST_CASE(
    "several prompts: the one that runs longest is inside the mixed kernel, others are added") {
  const Lengths each(64, 2000);
  const PromptPart large{2048, 0}, small{100, 0};
  const auto one = priced(pass(each, {large})).time;
  CHECK(priced(pass(each, {small, large})).time ==
        one + prefill.predict({small, pass({}, {}).heads}).time);
}

TEST_CASE("without the KV tail unequal lengths cost what equal ones do, half of it half as much") {
  const GpuSpec g = gpu("sm120");
  AttentionKernel kernel = flash_attention(g);
  const auto time = [&](double share, const Lengths& each, std::vector<PromptPart> with) {
    kernel.kv_tail = share;
    return attention_pass(pass(each, std::move(with)), g, kernel, decode, prefill).time;
  };
  Lengths unequal(64, 1000);
  unequal[9] += 6400;
  const Lengths equal(64, 1100);
  for (const auto& with : {std::vector<PromptPart>{}, {{512, 0}}}) {
    const auto none = time(0, unequal, with), half = time(0.5, unequal, with);
    const auto all = time(1, unequal, with);
    CHECK(none == time(1, equal, with));
    CHECK(none < all);
    CHECK(std::abs((half - none).us() - (all - half).us()) < 1e-5);
  }
}

TEST_CASE("prompts that are summed cost what one of their summed sizes does") {
  const GpuSpec g = gpu("sm120");
  AttentionKernel kernel = flash_attention(g);
  const auto time = [&](const Lengths& each, std::vector<PromptPart> with) {
    return attention_pass(pass(each, std::move(with)), g, kernel, decode, prefill).time;
  };
  const Lengths each(64, 2000);
  const auto apart = time(each, {{300, 50}, {700, 0}, {24, 1000}});
  kernel.sums_prompts = true;
  CHECK(time(each, {{300, 50}, {700, 0}, {24, 1000}}) == time(each, {{1024, 1050}}));
  CHECK(time(each, {{300, 50}, {700, 0}, {24, 1000}}) != apart);
}

TEST_CASE("a mixed pass on borrowed numbers says so") {
  const auto p = pass({500, 600}, {{512, 0}});
  CHECK(priced(p, "sm120").provenance == Provenance::fitted);
  CHECK(priced(p, "sm80").provenance == Provenance::assumed);
  CHECK(priced(p, "sm90").provenance == Provenance::measured);
}

TEST_CASE("one decode beside a short prompt costs 22 ns a token that it walks") {
  const GpuSpec g = gpu("sm120");
  const AttentionKernel k = flash_attention(g);
  const AttentionHeads heads{32, 8, 128, Precision::bf16};
  // 32 + 32 blocks on 188 SMs: the longest decides, 4 us + 4,096 x 0.0219 us = 93.7 us (94.8
  // measured, of which start-up is 4 to 8); eight are 256 blocks, two waves, 187.4 us (189
  // measured)
  CHECK(mixed_us({16, 0}, {1, 4096, 4096}, heads, g, k) == Approx(93.70).epsilon(1e-3));
  CHECK(mixed_us({16, 0}, {8, 8 * 4096, 4096}, heads, g, k) == Approx(187.4).epsilon(1e-3));
}
