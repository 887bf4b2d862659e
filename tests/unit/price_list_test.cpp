// The compiled price list against the step model it was made from, on random graphs of a few
// operators.

#include "sim/step/price_list.hpp"

#include <algorithm>
#include <cmath>

#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include "tests/support/fake_models.hpp"

namespace {

Duration ps(std::int64_t n) { return Duration::picoseconds(n); }

int draw(int low, int high) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(low, high + 1));
}
bool one_in(int n) { return draw(1, n) == 1; }

std::int64_t root(std::int64_t x) {
  return static_cast<std::int64_t>(std::sqrt(static_cast<double>(x)));
}

/// A step model whose attention bends with the KV lengths and never gets cheaper.
struct Box {
  Box(ModelGraph graph, LaunchCosts launch) : costs(fake::free_kernels()), pricer(fake::pricer(1)) {
    costs.gemm = fake::cost<GemmShape>(
        [](const GemmShape& g) { return fake::takes(ps(1000 * g.n + 37 * g.m), {}, ps(500)); });
    costs.elementwise = fake::cost<ElementwiseShape>(
        [](const ElementwiseShape& e) { return fake::takes(ps(100 + e.bytes)); });
    costs.mla_decode = fake::cost<MlaDecodeShape>([](const MlaDecodeShape& a) {
      return fake::takes(ps(a.heads * a.kv_tokens + 7001 * root(a.kv_tokens) + 11 * a.sequences));
    });
    costs.mla_prefill = fake::cost<MlaPrefillShape>([](const MlaPrefillShape& a) {
      return fake::takes(ps(3 * a.pairs + 13 * a.tokens + 17 * a.tokens_max));
    });
    costs.indexer = fake::cost<IndexerShape>([](const IndexerShape& i) {
      return fake::takes(ps(i.heads * i.pairs + 901 * root(i.kv_max) + (i.extend ? 5 : 0)));
    });
    model = std::make_unique<StepModel>(std::move(graph), costs, pricer, ExpertPopularity(1, 1, 0),
                                        launch);
  }
  CostModels costs;
  CollectivePricer pricer;
  std::unique_ptr<StepModel> model;
};

Operator attention(int heads, int top_k) {
  return {"attention", "attention", 1, MlaOp{heads, 1, 0, top_k}};
}
Operator indexer(int heads, int top_k) {
  return {"indexer", "indexer", 3, IndexerOp{heads, 1, top_k}};
}

// `top_k` 0: dense, and no indexer.
std::unique_ptr<Box> draw_box(int top_k) {
  ModelGraph graph;
  const int blocks = draw(1, 3);
  for (int b = 0; b < blocks; ++b) {
    LayerBlock block{"block", draw(1, 4), {}, one_in(2)};
    const int operators = draw(1, 5);
    for (int i = 0; i < operators; ++i) {
      switch (draw(0, 5)) {
        case 0:
          block.operators.push_back(attention(draw(1, 50), top_k));
          break;
        case 1:
          if (top_k > 0) block.operators.push_back(indexer(draw(1, 50), top_k));
          break;
        case 2:
          block.operators.push_back(
              {"head", "head", 1, GemmOp{draw(1, 9), 1, Precision::bf16, Rows::sequences}});
          break;
        case 3: {
          // A fork and its join stay together: the list may cut anywhere else.
          Operator side = fake::gemm("side", draw(1, 99), draw(1, 3)), join = fake::gemm("join");
          side.side = join.join = true;
          for (const Operator& op :
               {fake::gemm("before"), side, fake::gemm("main", draw(1, 99)), join})
            block.operators.push_back(op);
          break;
        }
        case 4:
          block.operators.push_back({"small", "small", draw(1, 4), ElementwiseOp{draw(1, 9)}});
          break;
        default:
          block.operators.push_back(fake::gemm("gemm", draw(1, 99), draw(1, 4)));
      }
    }
    graph.blocks.push_back(std::move(block));
  }
  LaunchCosts launch;
  launch.per_launch = ps(draw(0, 60'000));
  launch.graph = ps(draw(0, 90'000));
  launch.graph_per_node = ps(draw(0, 900));
  launch.side_streams = one_in(2);
  if (one_in(2)) launch.small_kernels.emplace().value = ps(draw(1, 50'000));
  return std::make_unique<Box>(std::move(graph), launch);
}

// 8 knots an octave.
std::int64_t draw_knot(std::int64_t least, std::int64_t most) {
  for (;;) {
    const int shift = draw(0, 16);
    const std::int64_t knot = std::int64_t{draw(8, 15)} << shift;
    if (knot >= least && knot <= most) return knot;
  }
}

// Any decode pass: sequences, some padding, sums and the longest that belong together.
struct Drawn {
  PassShape unpadded, pass;
  std::int64_t real = 0, below_cap = 0;
};
Drawn draw_decode(int top_k) {
  Drawn out;
  PassShape& p = out.pass;
  const int n = draw(1, 6);
  for (int i = 0; i < n; ++i) {
    const std::int64_t kv = draw(1, one_in(3) ? 60 : 6000);
    const PassShape one = PassShape::decode(1, kv, top_k);
    p.decode_sequences += 1, p.heads_rows += 1;
    p.decode_kv_tokens += kv;
    p.decode_kv_tokens_capped += one.decode_kv_tokens_capped;
    p.kv_max = std::max(p.kv_max, kv);
    out.below_cap += kv < top_k;
  }
  out.real = n;
  if (top_k == 0) out.below_cap = n;
  out.unpadded = p;
  p = p.padded_to(n + draw(0, 3));
  return out;
}

void check_equal(const Timeline& a, const Timeline& b) {
  RC_ASSERT(a.host == b.host);
  RC_ASSERT(a.device == b.device);
  RC_ASSERT(a.span == b.span);
}

}  // namespace

TEST_CASE("a pass without attention in it, or of prompts alone, costs what the step model says") {
  CHECK(rc::check([] {
    const int top_k = one_in(2) ? draw(2, 300) : 0;
    const auto box = draw_box(top_k);
    PriceList list(*box->model);
    for (int i = 0; i < 4; ++i) {
      PassShape p = PassShape::extend(draw(1, 3000), draw(0, 3000), top_k);
      if (one_in(2)) {
        const PassShape other = PassShape::extend(draw(1, 3000), 0, top_k);
        p.extend_sequences += 1, p.heads_rows += draw(0, 1);
        p.extend_tokens += other.extend_tokens;
        p.extend_tokens_max = std::max(p.extend_tokens_max, other.extend_tokens_max);
        p.extend_pairs += other.extend_pairs;
        p.extend_pairs_capped += other.extend_pairs_capped;
        p.kv_max = std::max(p.kv_max, other.kv_max);
      }
      for (const bool captured : {false, true, false})
        check_equal(list.cost(p, captured), box->model->cost(p, captured));
    }
    ModelGraph plain{{LayerBlock{"block", 3, {fake::gemm("a", 9), fake::gemm("b", 20, 3)}}}};
    LaunchCosts launch;
    launch.per_launch = ps(draw(0, 60'000));
    const Box without(std::move(plain), launch);
    PriceList other(*without.model);
    const PassShape any = draw_decode(0).pass;
    for (const bool captured : {false, true})
      check_equal(other.cost(any, captured), without.model->cost(any, captured));
  }));
}

TEST_CASE("at the knots a decode pass costs what the step model says") {
  CHECK(rc::check([] {
    const int top_k = one_in(2) ? 1 << draw(4, 10) : 0;
    const auto box = draw_box(top_k);
    PriceList list(*box->model);
    for (int i = 0; i < 4; ++i) {
      const int n = draw(1, 8);
      PassShape p;
      p.decode_sequences = p.heads_rows = n;
      p.decode_kv_tokens = draw_knot(n, 1 << 19);
      p.decode_kv_tokens_capped = top_k == 0 ? p.decode_kv_tokens : draw_knot(n, 1 << 19);
      // The longest is at least the mean and at most all of it.
      const std::int64_t mean = (p.decode_kv_tokens + n - 1) / n;
      p.kv_max = n == 1 ? p.decode_kv_tokens : draw_knot(mean, p.decode_kv_tokens);
      if (one_in(3)) {
        // With a prompt beside it that is no longer than the longest.
        const PassShape prompt =
            PassShape::extend(draw(1, static_cast<int>(std::min<std::int64_t>(p.kv_max, 5000))));
        p.extend_sequences = 1, p.heads_rows += 1;
        p.extend_tokens = p.extend_tokens_max = prompt.extend_tokens;
        p.extend_pairs = p.extend_pairs_capped = prompt.extend_pairs;
      }
      for (const bool captured : {false, true})
        check_equal(list.cost(p, captured), box->model->cost(p, captured));
    }
  }));
}

TEST_CASE("between two knots a decode pass is linear, and within the step model's two ends") {
  // A layer of dense attention, twice: the knots around 2,500 are 2,304 and 2,560.
  const Box box({{LayerBlock{"block", 2, {attention(3, 0)}}}}, {});
  PriceList list(*box.model);
  const auto pass = [](std::int64_t kv) {
    PassShape p = PassShape::decode(1, 1);
    p.decode_kv_tokens = p.decode_kv_tokens_capped = p.kv_max = kv;
    return p;
  };
  const Duration from = list.cost(pass(2304), true).device;
  const Duration slope = list.cost(pass(2305), true).device - from;
  for (std::int64_t kv = 2304; kv < 2560; ++kv) {
    const Duration device = list.cost(pass(kv), true).device;
    CHECK(device == from + (kv - 2304) * slope);
    CHECK(device <= box.model->cost(pass(2560), true).device);
  }
  const Duration to = list.cost(pass(2560), true).device;
  CHECK(from == box.model->cost(pass(2304), true).device);
  CHECK(to == box.model->cost(pass(2560), true).device);
  // The slope is a whole number of picoseconds for each of the two: short by less than one each.
  CHECK(from + 256 * slope <= to);
  CHECK(from + 256 * (slope + ps(2)) > to);
}

TEST_CASE("more KV never costs less") {
  CHECK(rc::check([] {
    const int top_k = one_in(2) ? draw(2, 300) : 0;
    const auto box = draw_box(top_k);
    PriceList list(*box->model);
    Drawn d = draw_decode(top_k);
    const bool captured = one_in(2);
    Timeline before = list.cost(d.pass, captured);
    for (int i = 0; i < 60; ++i) {
      // One sequence, the longest, gets some tokens.
      const int more = draw(1, 200);
      d.pass.decode_kv_tokens += more;
      if (top_k == 0) d.pass.decode_kv_tokens_capped += more;
      d.pass.kv_max += more;
      const Timeline now = list.cost(d.pass, captured);
      RC_ASSERT(now.device >= before.device);
      RC_ASSERT(now.span >= before.span);
      RC_ASSERT(now.host == before.host);
      before = now;
    }
  }));
}

TEST_CASE("a ramp is the price of every later pass for as long as it says") {
  std::int64_t longest = 0;
  CHECK(rc::check([&] {
    const int top_k = one_in(2) ? draw(2, 300) : 0;
    const auto box = draw_box(top_k);
    PriceList list(*box->model);
    const Drawn d = draw_decode(top_k);
    const bool captured = one_in(2);
    const DecodeRamp ramp =
        list.ramp(d.unpadded, d.pass.decode_sequences, captured, d.real, d.below_cap);
    check_equal(ramp.first, list.cost(d.pass, captured));
    RC_ASSERT(ramp.good_for >= 1);
    RC_ASSERT(ramp.rising);  // these attention kernels never get shorter
    // Nobody crosses the sparse top-k within a ramp: whoever asks sees to that.
    std::int64_t ask = std::min<std::int64_t>(ramp.good_for, 400);
    PassShape p = d.pass;
    for (std::int64_t k = 0; k < ask; ++k) {
      const Timeline here = list.ramp_at(k);
      check_equal(here, list.cost(p, captured));
      RC_ASSERT(here.device == ramp.first.device + k * ramp.device_step);
      p.decode_kv_tokens += d.real;
      p.decode_kv_tokens_capped += d.below_cap;
      p.kv_max += 1;
    }
    longest = std::max(longest, ask);
  }));
  CHECK(longest > 50);
}

TEST_CASE("a ramp that does not change goes on for a million passes") {
  // All sequences are beyond the sparse top-k and nothing looks at the longest.
  const Box box({{LayerBlock{"block", 1, {attention(3, 16)}}}}, {});
  PriceList list(*box.model);
  const DecodeRamp ramp = list.ramp(PassShape::decode(4, 100, 16), 4, true, 4, 0);
  CHECK(ramp.good_for == std::int64_t{1} << 20);
  CHECK(ramp.device_step == Duration());
}

TEST_CASE("padding costs what sequences of one KV token do") {
  CHECK(rc::check([] {
    const int top_k = one_in(2) ? 1 << draw(4, 10) : 0;
    const auto box = draw_box(top_k);
    PriceList list(*box->model), other(*box->model);
    for (int i = 0; i < 4; ++i) {
      const PassShape p = draw_decode(top_k).pass;
      const std::int64_t padded = p.decode_sequences + draw(0, 8);
      for (const bool captured : {false, true})
        check_equal(list.cost(p, padded, captured), other.cost(p.padded_to(padded), captured));
    }
  }));
}

TEST_CASE("prompts are priced the same while the table of them grows") {
  CHECK(rc::check([] {
    const auto box = draw_box(0);
    PriceList list(*box->model);
    const int past = draw(0, 3000);
    for (int round = 0; round < 2; ++round)
      for (int n = 1; n <= 200; ++n) {
        const PassShape p = PassShape::extend(n, past, 0);
        check_equal(list.cost(p, false), box->model->cost(p, false));
      }
  }));
}
