#include "sim/step/step_model.hpp"

#include <cmath>
#include <memory>

#include <catch2/catch.hpp>

#include "sim/scenario/experiment.hpp"
#include "tests/support/fake_models.hpp"
#include "tests/support/process.hpp"

namespace {

Duration us(double n) { return Duration::from_us(n); }

LaunchCosts launches(double eager_us, double graph_us = 0, double node_us = 0, bool side = false) {
  return {us(eager_us), us(graph_us), us(node_us), side};
}

/// A graph of GEMMs named by their times: the width n of a GEMM is its time in us, whatever the
/// rows; nine tenths of it are memory traffic, a fifth arithmetic.
struct Toy {
  explicit Toy(ModelGraph graph, LaunchCosts launch, Only only = Only::everything, int ranks = 1)
      : costs(fake::free_kernels()), collectives(fake::pricer(ranks)) {
    costs.gemm = fake::cost<GemmShape>([](const GemmShape& s) {
      const auto n = static_cast<double>(s.n);
      return fake::takes(us(n), us(n / 5), us(n * 9 / 10));
    });
    model = std::make_unique<StepModel>(std::move(graph), costs, collectives,
                                        ExpertPopularity(1, 1, 0), launch, only);
  }
  CostModels costs;
  CollectivePricer collectives;
  std::unique_ptr<StepModel> model;
};

Operator beside(const char* name, std::int64_t time_us) {
  Operator op = fake::gemm(name, time_us);
  op.side = true;
  return op;
}
Operator joining(const char* name, std::int64_t time_us) {
  Operator op = fake::gemm(name, time_us);
  op.join = true;
  return op;
}

// fork, then main(40) beside side(25), then join
ModelGraph forked(std::int64_t side_us, std::int64_t main_us) {
  return {{LayerBlock{"layer",
                      2,
                      {fake::gemm("before", 10), beside("side", side_us),
                       fake::gemm("main", main_us), joining("after", 5)}}}};
}

Duration sum(const Breakdown& b) {
  Duration out;
  for (const auto& item : b.items) out += item.time;
  return out;
}

std::unique_ptr<Experiment> home(const std::vector<Override>& changes = {}) {
  const auto file = process::source_root() / "scenarios/seed/32-at-8.yaml";
  const auto scenarios = load_scenarios(file.string(), changes);
  if (!scenarios) FAIL(scenarios.error().render());
  const auto inputs = resolve(scenarios->front());
  if (!inputs) FAIL(inputs.error().render());
  auto made = Experiment::make(*inputs);
  if (!made) FAIL(made.error().render());
  return std::move(*made);
}

}  // namespace

TEST_CASE("an eager pass pays one launch per kernel on the host") {
  // Two layers of 10 + 20 us in 1 + 3 launches at 4 us each: 2 x 4 x 4 = 32 us of host.
  const Toy toy({{LayerBlock{"layer", 2, {fake::gemm("a", 10), fake::gemm("b", 20, 3)}}}},
                launches(4));
  const Timeline t = toy.model->cost(PassShape::decode(1, 1), false);
  CHECK(t.host == us(32));
  CHECK(t.device == us(60));
  // The GPU is behind the host from the first kernel on: 4 us, then 60 us.
  CHECK(t.span == us(64));
}

TEST_CASE("a host that launches slower than the GPU computes sets the time of an eager pass") {
  // Four kernels of 10 us launched every 50 us: the last starts at 200 us.
  const Toy toy({{LayerBlock{"layer", 2, {fake::gemm("a", 10), fake::gemm("b", 10)}}}},
                launches(50));
  CHECK(toy.model->cost(PassShape::decode(1, 1), false).span == us(210));
}

TEST_CASE("a captured pass pays one graph launch, and nothing per kernel but its node") {
  // 8 launches in the graph: 7 us + 8 x 0.5 us = 11 us, then 60 us of kernels.
  const Toy toy({{LayerBlock{"layer", 2, {fake::gemm("a", 10), fake::gemm("b", 20, 3)}}}},
                launches(50, 7, 0.5));
  const Timeline t = toy.model->cost(PassShape::decode(1, 1), true);
  CHECK(t.host == us(11));
  CHECK(t.device == us(60));
  CHECK(t.span == us(71));
}

TEST_CASE("side operators run beside the main stream only in captured passes that allow it") {
  const auto pass = PassShape::decode(1, 1);
  const Toy with(forked(25, 40), launches(0, 0, 0, true));
  const Toy without(forked(25, 40), launches(0, 0, 0, false));
  // One after the other: 10 + 25 + 40 + 5 = 80 us a layer.
  CHECK(with.model->cost(pass, false).device == us(160));
  CHECK(without.model->cost(pass, true).device == us(160));
  // Beside each other: the streams take 40 us, but the memory traffic of both takes
  // 0.9 x (25 + 40) = 58.5 us. 10 + 58.5 + 5 = 73.5 us a layer.
  CHECK(with.model->cost(pass, true).device == us(147));
}

TEST_CASE("a fork lasts as long as the longer stream when memory allows") {
  const auto pass = PassShape::decode(1, 1);
  Toy toy(forked(25, 40), launches(0, 0, 0, true));
  toy.costs.gemm = fake::cost<GemmShape>(
      [](const GemmShape& s) { return fake::takes(us(static_cast<double>(s.n))); });
  CHECK(toy.model->cost(pass, true).device == us(2 * (10 + 40 + 5)));
  Toy long_side(forked(70, 40), launches(0, 0, 0, true));
  long_side.costs.gemm = fake::cost<GemmShape>(
      [](const GemmShape& s) { return fake::takes(us(static_cast<double>(s.n))); });
  CHECK(long_side.model->cost(pass, true).device == us(2 * (10 + 70 + 5)));
}

TEST_CASE("running beside each other is never slower than in turn, nor faster than the longer") {
  for (const std::int64_t side : {0, 1, 20, 40, 100})
    for (const std::int64_t main : {0, 1, 20, 40, 100}) {
      const Toy toy(forked(side, main), launches(0, 0, 0, true));
      const auto apart = toy.model->cost(PassShape::decode(1, 1), false).device;
      const auto together = toy.model->cost(PassShape::decode(1, 1), true).device;
      CHECK(together <= apart);
      CHECK(together >= us(2.0 * (15 + static_cast<double>(std::max(side, main)))));
    }
}

TEST_CASE("the items of a breakdown add up to the device time, eager and captured") {
  const Toy toy(forked(25, 40), launches(3, 1, 1, true));
  for (const bool captured : {false, true}) {
    const auto b = toy.model->breakdown(PassShape::decode(3, 7), captured);
    CHECK(sum(b) == b.device);
    CHECK(b.device == toy.model->cost(PassShape::decode(3, 7), captured).device);
    CHECK(b.host == toy.model->cost(PassShape::decode(3, 7), captured).host);
  }
  const auto e = home();
  for (const bool captured : {false, true})
    for (const std::int64_t n : {1, 7, 64}) {
      const auto b = e->breakdown(PassShape::decode(n, 300), captured);
      CHECK(sum(b) == b.device);
      CHECK(b.device == e->cost(PassShape::decode(n, 300), captured).device);
    }
}

TEST_CASE("extend and decode in one pass are one pass at the combined token count") {
  std::vector<std::int64_t> rows;
  Toy toy({{LayerBlock{"layer",
                       1,
                       {fake::gemm("linear"),
                        {"attention", "attention", 1, MlaOp{1, 1, 1, 0, Precision::bf16}}}}}},
          launches(0));
  toy.costs.gemm = fake::cost<GemmShape>([&](const GemmShape& s) {
    rows.push_back(s.m);
    return fake::takes(us(100 + static_cast<double>(s.m)));
  });
  toy.costs.mla_decode = fake::cost<MlaDecodeShape>(
      [](const MlaDecodeShape& s) { return fake::takes(us(static_cast<double>(s.kv_tokens))); });
  toy.costs.mla_prefill = fake::cost<MlaPrefillShape>(
      [](const MlaPrefillShape& s) { return fake::takes(us(static_cast<double>(s.pairs))); });

  PassShape mixed = PassShape::decode(3, 20);     // 60 KV tokens
  const PassShape extend = PassShape::extend(5);  // 15 pairs
  mixed.extend_sequences = extend.extend_sequences;
  mixed.extend_tokens = mixed.extend_tokens_max = extend.extend_tokens;
  mixed.extend_pairs = extend.extend_pairs;
  // One GEMM of 3 + 5 rows: 108 us. Attention: 60 us of decode and 15 us of prefill, added.
  CHECK(toy.model->cost(mixed, false).device == us(108 + 60 + 15));
  CHECK(rows == std::vector<std::int64_t>{8});
}

TEST_CASE("sparse attention reads the capped keys, dense attention all of them") {
  for (const int top_k : {0, 16}) {
    Toy toy({{LayerBlock{"layer", 1, {{"attention", "attention", 1, MlaOp{1, 1, 1, top_k, {}}}}}}},
            launches(0));
    toy.costs.mla_decode = fake::cost<MlaDecodeShape>(
        [](const MlaDecodeShape& s) { return fake::takes(us(static_cast<double>(s.kv_tokens))); });
    PassShape pass = PassShape::decode(2, 20);
    pass.decode_kv_tokens_capped = 2 * 16;
    CHECK(toy.model->cost(pass, false).device == us(top_k ? 32 : 40));
  }
}

TEST_CASE("an extend within the top-k writes its index keys and skips the logits") {
  Toy toy({{LayerBlock{"layer", 1, {{"top_k", "indexer", 1, IndexerOp{1, 1, 16}}}}}}, launches(0));
  toy.costs.indexer = fake::cost<IndexerShape>(
      [](const IndexerShape& s) { return fake::takes(us(static_cast<double>(s.pairs))); });
  CHECK(toy.model->cost(PassShape::extend(16), false).device == us(0));
  CHECK(toy.model->cost(PassShape::extend(17), false).device == us(17.0 * 18 / 2));
  CHECK(toy.model->cost(PassShape::decode(2, 10), false).device ==
        us(20));  // decode always computes them
}

TEST_CASE("logits are computed for sequences, not for tokens") {
  Operator head = fake::gemm("head");
  std::get<GemmOp>(head.work).rows = Rows::sequences;
  Toy toy({{LayerBlock{"head", 1, {head}}}}, launches(0));
  std::int64_t rows = 0;
  toy.costs.gemm = fake::cost<GemmShape>([&](const GemmShape& s) {
    rows = s.m;
    return fake::takes(us(1));
  });
  toy.model->cost(PassShape::extend(50), false);
  CHECK(rows == 1);
  toy.model->cost(PassShape::decode(5, 9), false);
  CHECK(rows == 5);
}

TEST_CASE("one resource alone is never slower than everything together") {
  const auto graph = [] {
    ModelGraph g = forked(25, 40);
    g.blocks[0].operators.push_back(
        {"reduce", "reduce", 1, CollectiveOp{Collective::all_reduce, 4096, Rows::tokens}});
    return g;
  };
  for (const bool captured : {false, true}) {
    const auto pass = PassShape::decode(8, 100);
    const Timeline all =
        Toy(graph(), launches(3, 1, 1, true), Only::everything, 4).model->cost(pass, captured);
    for (const Only only :
         {Only::arithmetic, Only::memory, Only::interconnect, Only::launch, Only::nothing}) {
      const Timeline t = Toy(graph(), launches(3, 1, 1, true), only, 4).model->cost(pass, captured);
      CHECK(t.device <= all.device);
      CHECK(t.host <= all.host);
      CHECK(t.span <= all.span);
    }
    CHECK(Toy(graph(), launches(3), Only::nothing, 4).model->cost(pass, captured).span ==
          Duration());
    CHECK(Toy(graph(), launches(3), Only::launch, 4).model->cost(pass, false).device == Duration());
    // Two all-reduces of 8 x 4096 B and nothing else.
    CHECK(Toy(graph(), launches(3), Only::interconnect, 4).model->cost(pass, captured).device ==
          2 * fake::pricer(4).price(Collective::all_reduce, Bytes(8 * 4096)).time);
  }
}

TEST_CASE("the home box holds the same law for every kind of pass") {
  const auto e = home();
  const auto inputs_of = [&](Only only) {
    return StepModel(e->step().graph(), e->costs(), e->collectives(), e->step().popularity(),
                     launches(24, 10, 1, true), only);
  };
  const StepModel all = inputs_of(Only::everything);
  for (const auto& [pass, captured] :
       {std::pair{PassShape::decode(1, 100), false}, std::pair{PassShape::decode(64, 300), false},
        std::pair{PassShape::decode(64, 300), true}, std::pair{PassShape::extend(256), false}}) {
    for (const Only only : {Only::arithmetic, Only::memory, Only::interconnect, Only::launch}) {
      const Timeline whole = all.cost(pass, captured), part = inputs_of(only).cost(pass, captured);
      CHECK(part.device <= whole.device);
      CHECK(part.span <= whole.span);
      CHECK(part.span > Duration());
    }
  }
}

TEST_CASE("a pass with more sequences or longer ones takes no less time") {
  const auto e = home();
  for (const bool captured : {false, true}) {
    Duration before;
    for (const std::int64_t kv : {1, 100, 1000, 10000}) {
      const auto now = e->cost(PassShape::decode(8, kv), captured).device;
      CHECK(now >= before);
      before = now;
    }
    before = Duration();
    for (const std::int64_t n : {1, 2, 4, 8, 16, 32, 64, 128}) {
      const auto now = e->cost(PassShape::decode(n, 300), captured).device;
      CHECK(now >= before);
      before = now;
    }
  }
}

TEST_CASE("the breakdown names what bounds each group") {
  Toy toy({{LayerBlock{"layer",
                       1,
                       {fake::gemm("gemm", 10),
                        {"reduce", "reduce", 1, CollectiveOp{Collective::all_reduce, 64, {}}},
                        {"norm", "norm", 1, ElementwiseOp{8, Rows::tokens}}}}}},
          launches(1), Only::everything, 2);
  toy.costs.elementwise = fake::cost<ElementwiseShape>(
      [](const ElementwiseShape&) { return fake::takes(us(3), us(0), us(1)); });
  const auto b = toy.model->breakdown(PassShape::decode(2, 2), false);
  REQUIRE(b.items.size() == 3);
  CHECK(b.items[0].resource == "memory");  // 9 of 10 us are traffic
  CHECK(b.items[1].resource == "interconnect");
  CHECK(b.items[2].resource == "kernel latency");  // less than half of it is explained
}
