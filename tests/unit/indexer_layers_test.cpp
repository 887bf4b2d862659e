#include <catch2/catch.hpp>

#include "models/graph/mla_moe_graph.hpp"
#include "tests/support/fake_models.hpp"
#include "tests/support/hardware.hpp"

namespace {

ModelGraph graph(const ModelSpec& model, std::optional<int> indexer_layers) {
  GraphOptions o;
  o.tensor_parallel = 8;
  o.sparse_attention = true;
  o.indexer_layers = indexer_layers;
  return build_mla_moe_graph(model, o);
}

int count(const ModelGraph& g, const std::string& name) {
  int n = 0;
  for (const auto& block : g.blocks)
    for (const auto& op : block.operators)
      if (op.name == name) n += block.repeat;
  return n;
}

}  // namespace

TEST_CASE("every layer attends, and as many as the build says own an indexer") {
  const ModelSpec model = load_model("glm-5.2-nvfp4");
  for (const int n : {0, 2, 3, 21, 40, 78}) {
    const ModelGraph g = graph(model, n);
    CHECK(count(g, "attention") == 78);
    CHECK(count(g, "indexer_top_k") == n);
    CHECK(g.count(Collective::all_reduce) == 157);
  }
  CHECK(count(graph(model, std::nullopt), "indexer_top_k") == 78);
  CHECK(graph(model, 78).launches() == graph(model, std::nullopt).launches());
}

TEST_CASE("a build's small kernels take their time a layer beside their bytes, indexers on top") {
  const ModelSpec model = load_model("glm-5-nvfp4");
  CostModels costs = fake::free_kernels();
  costs.elementwise = fake::cost<ElementwiseShape>(
      [](const ElementwiseShape&) { return fake::takes(Duration::from_us(3)); });
  const CollectivePricer collectives = fake::pricer(8);
  const auto step_us = [&](bool sparse, std::optional<double> small_us) {
    GraphOptions o;
    o.tensor_parallel = 8;
    o.sparse_attention = sparse;
    LaunchCosts launch;
    if (small_us) {
      launch.small_kernels.emplace();
      launch.small_kernels->value = Duration::from_us(*small_us);
    }
    const StepModel step(build_mla_moe_graph(model, o), costs, collectives,
                         ExpertPopularity(256, 8, 0), launch);
    return step.cost(PassShape::decode(1, 1), true).device.us();
  };
  // 75 MoE layers have ten kernels of 3 us, three dense ones nine.
  const double dense = step_us(false, std::nullopt);
  CHECK(step_us(false, 0) == Approx(dense - 75 * 30 - 3 * 27));
  CHECK(step_us(false, 50) == Approx(step_us(false, 0) + 78 * 50));
  // Nine kernels of an indexer: as much each as the layer's own.
  CHECK(step_us(true, 30) - step_us(true, 0) ==
        Approx(75 * (30 + 9 * 3.0) + 3 * (30 + 9 * 30.0 / 9)).epsilon(1e-6));
}
