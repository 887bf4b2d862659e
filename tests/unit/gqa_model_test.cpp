// Models with grouped-query attention: parameters, KV cache, tensor parallelism and the operators
// of a pass.

#include <catch2/catch.hpp>

#include "models/graph/graph.hpp"
#include "tests/support/hardware.hpp"

namespace {

template <class Op>
Op op(const ModelGraph& graph, const std::string& block, const std::string& name) {
  for (const auto& b : graph.blocks)
    if (b.name == block)
      for (const auto& o : b.operators)
        if (o.name == name) return std::get<Op>(o.work);
  FAIL("no operator " << name << " in " << block);
  return {};
}

std::string errors_of(const std::string& text) {
  Reading reading;
  const Settings file = yaml(text);
  read_model("test", file, reading);
  return reading.errors.render();
}

const std::string small_model =
    "schema: 1\nname: x\nsource: x\nlayers: 2\nhidden: 64\nvocab: 128\ncontext_length: 128\n"
    "precision: {}\n";

}  // namespace

TEST_CASE("parameters of dense models are those that their makers publish") {
  // a layer: hidden x (2 x heads + 2 x KV heads) x 128 and three MLP matrices; embedding and head
  // Llama-3.1-8B: 32 x (4096 x 10,240 + 3 x 4096 x 14,336) + 2 x 128,256 x 4096
  CHECK(count_parameters(load_model("llama-3.1-8b")).total == 8'029'995'008);
  // Qwen3-14B: 40 x (5120 x 12,288 + 3 x 5120 x 17,408) + 2 x 151,936 x 5120
  CHECK(count_parameters(load_model("qwen3-14b")).total == 14'767'882'240);
  // Qwen3-32B: 64 x (5120 x 18,432 + 3 x 5120 x 25,600) + 2 x 151,936 x 5120
  CHECK(count_parameters(load_model("qwen3-32b")).total == 32'761'446'400);
  // Qwen3-30B-A3B: 48 x (2048 x 9216 + 128 x 3 x 2048 x 768 + 2048 x 128) + 2 x 151,936 x 2048
  // Llama-2-7B: 32 x (4096 x 16,384 + 3 x 4096 x 11,008) + 2 x 32,000 x 4096
  CHECK(count_parameters(load_model("llama-2-7b")).total == 6'738'149'376);
  // Llama-2-70B: 80 x (8192 x 18,432 + 3 x 8192 x 28,672) + 2 x 32,000 x 8192
  CHECK(count_parameters(load_model("llama-2-70b")).total == 68'975'329'280);
  // CodeLlama-34B: 48 x (8192 x 18,432 + 3 x 8192 x 22,016) + 2 x 32,000 x 8192
  CHECK(count_parameters(load_model("codellama-34b")).total == 33'743'175'680);
  // Mixtral-8x7B: 32 x (4096 x 10,240 + 8 x 3 x 4096 x 14,336 + 8 x 4096) + 2 x 32,000 x 4096
  CHECK(count_parameters(load_model("mixtral-8x7b")).total == 46'702'526'464);
  const auto moe = count_parameters(load_model("qwen3-30b-a3b"));
  CHECK(moe.total == 30'531'911'680);
  // 8 of 128 experts, no embedding table
  CHECK(moe.active == 30'531'911'680 - 151'936LL * 2048 - 48LL * 120 * 3 * 2048 * 768);
  // of a dense model all but the embedding table
  const auto llama = count_parameters(load_model("llama-3.1-8b"));
  CHECK(llama.active == llama.total - 128'256LL * 4096);
  CHECK(llama.mtp == 0);
}

TEST_CASE("a head that shares the embedding table is stored once and used by every token") {
  ModelSpec m = load_model("llama-3.1-8b");
  const auto apart = count_parameters(m);
  m.tie_embeddings = true;
  const auto tied = count_parameters(m);
  CHECK(tied.total == apart.total - 128'256LL * 4096);
  CHECK(tied.active == apart.active);
}

TEST_CASE("KV heads are split over GPUs until each holds one") {
  const ModelSpec m = load_model("llama-3.1-8b");
  // 32 layers x 8 heads x K and V x 128 x 2 B
  CHECK(kv_bytes_per_token(m, Precision::bf16, 1).count() == 131'072);
  for (const int tp : {1, 2, 4, 8})
    CHECK(kv_bytes_per_token(m, Precision::bf16, tp).count() * tp == 131'072);
  CHECK(kv_bytes_per_token(m, Precision::bf16, 16).count() == 131'072 / 8);
  CHECK(kv_bytes_per_token(m, Precision::fp8, 1).count() == 65'536);

  const auto total = [&](int tp) { return weight_bytes_per_gpu(m, tp, false).total.count(); };
  CHECK(total(1) == 2 * 8'029'995'008);
  CHECK(total(8) * 8 == total(1));
  // 16 GPUs hold each KV projection (32 x 4096 x 2048 parameters) twice
  CHECK(total(16) * 16 == total(1) + 2 * 32LL * 4096 * 2048);
  for (const int tp : {1, 2, 4, 8, 16, 32}) CHECK(tensor_parallel_obstacle(m, tp) == "");
  CHECK(tensor_parallel_obstacle(m, 3) == "3 does not divide the 32 attention heads");

  ModelSpec twelve = m;
  twelve.attention = GqaSpec{48, 12, 128, false};
  CHECK(tensor_parallel_obstacle(twelve, 8) ==
        "8 neither divides the 12 KV heads nor is a multiple of them");
}

TEST_CASE("a dense layer has the GEMMs of its configuration, divided over GPUs") {
  const ModelSpec m = load_model("qwen3-14b");
  for (const int tp : {1, 2, 4, 8}) {
    GraphOptions options;
    options.tensor_parallel = tp;
    const ModelGraph g = build_graph(m, options);
    const std::string layer = "dense layer";
    CHECK(op<GemmOp>(g, layer, "qkv").n * tp == (40 + 16) * 128);
    CHECK(op<GemmOp>(g, layer, "o_proj").k * tp == 40 * 128);
    CHECK(op<GemmOp>(g, layer, "gate_up").n * tp == 2 * 17'408);
    CHECK(op<GemmOp>(g, layer, "down").k * tp == 17'408);
    const auto core = op<GqaOp>(g, layer, "attention");
    CHECK(core.heads * tp == 40);
    CHECK(core.kv_heads * tp == 8);
    CHECK(core.head_dim == 128);
    CHECK(op<GemmOp>(g, "head", "lm_head").rows == Rows::sequences);
    // one behind the embedding and two a layer, none alone
    CHECK(g.count(Collective::all_reduce) == (tp > 1 ? 81 : 0));
    CHECK(g.count(Collective::all_gather) == (tp > 1 ? 1 : 0));
  }
}

TEST_CASE("the weights that the GEMMs of a pass read are those of the checkpoint") {
  for (const char* id : {"llama-3.1-8b", "qwen3-14b", "qwen3-32b"}) {
    const ModelSpec m = load_model(id);
    const ModelGraph g = build_graph(m, {});
    std::int64_t read = 0;
    for (const auto& block : g.blocks)
      for (const auto& o : block.operators)
        if (const auto* gemm = std::get_if<GemmOp>(&o.work))
          read += block.repeat * gemm->n * gemm->k;
    CHECK(read == count_parameters(m).active);
  }
}

TEST_CASE("norms of queries and keys are two launches a layer") {
  ModelSpec m = load_model("qwen3-14b");
  const int with = build_graph(m, {}).launches();
  std::get<GqaSpec>(m.attention).qk_norm = false;
  CHECK(with - build_graph(m, {}).launches() == 2 * 40);
}

TEST_CASE("a model file without latent attention or experts says what is wrong with it") {
  const std::string gqa = "attention: {kind: gqa, heads: 4, kv_heads: 3, head_dim: 16}\n";
  CHECK(errors_of(small_model + gqa + "dense_inter: 128\n").find("as many query heads") !=
        std::string::npos);
  const std::string good = "attention: {kind: gqa, heads: 4, kv_heads: 2, head_dim: 16}\n";
  CHECK(errors_of(small_model + good + "dense_inter: 128\n") == "");
  CHECK(errors_of(small_model + good).find("dense layers need 'dense_inter'") != std::string::npos);
  CHECK(errors_of(small_model + good + "dense_inter: 128\ndense_layers: 1\n")
            .find("dense in every layer") != std::string::npos);
  CHECK(
      errors_of(small_model + good + "dense_inter: 128\nindexer: {heads: 1, dim: 128, top_k: 16}\n")
          .find("only latent attention") != std::string::npos);
}
