#include <algorithm>
#include <map>

#include <catch2/catch.hpp>

#include "models/graph/mla_moe_graph.hpp"
#include "tests/support/hardware.hpp"

namespace {

constexpr double gib = 1024.0 * 1024 * 1024;

double gib_per_gpu(const ModelSpec& m, int tp, bool mtp = false) {
  return weight_bytes_per_gpu(m, tp, mtp).total.real() / gib;
}

ModelGraph graph(int tp, bool sparse = false) {
  GraphOptions options;
  options.tensor_parallel = tp;
  options.sparse_attention = sparse;
  return build_mla_moe_graph(load_model("glm-5-nvfp4"), options);
}

const LayerBlock& block(const ModelGraph& g, const std::string& name) {
  for (const auto& b : g.blocks)
    if (b.name == name) return b;
  FAIL("no block " << name);
  return g.blocks.front();
}

template <class Op>
Op op(const ModelGraph& g, const std::string& where, const std::string& name) {
  for (const auto& o : block(g, where).operators)
    if (o.name == name)
      if (const Op* found = std::get_if<Op>(&o.work)) return *found;
  FAIL("no operator " << name << " in " << where);
  return {};
}

int launches(const LayerBlock& b) {
  int n = 0;
  for (const auto& o : b.operators) n += o.launches;
  return n;
}

void check_gemm(const ModelGraph& g, const char* where, const char* name, std::int64_t n,
                std::int64_t k, Precision p) {
  INFO(where << ", " << name);
  const auto gemm = op<GemmOp>(g, where, name);
  CHECK(gemm.n == n);
  CHECK(gemm.k == k);
  CHECK(gemm.precision == p);
}

}  // namespace

TEST_CASE("GLM-5 has 743.91 billion parameters, of which a token uses 40.83 billion") {
  // Attention, a layer: q_a 6144 x 2048 + kv_a 6144 x 576 + q_b 2048 x 16384 + kv_b 512 x 28672
  //   + o 16384 x 6144 + indexer 2048 x 4096 + 6144 x 128 + 6144 x 32   = 174,391,296
  // Dense MLP, three layers: 3 x 6144 x 12288                           = 226,492,416 each
  // MoE, 75 layers: (256 + 1) x 3 x 6144 x 2048 + router 6144 x 256     = 9,703,194,624 each
  // Embedding and head: 2 x 154880 x 6144                               = 1,903,165,440
  const std::int64_t attention = 12'582'912 + 3'538'944 + 33'554'432 + 14'680'064 + 100'663'296 +
                                 8'388'608 + 786'432 + 196'608;
  CHECK(attention == 174'391'296);
  const std::int64_t expert = 3LL * 6144 * 2048, router = 6144LL * 256, table = 154'880LL * 6144;
  const std::int64_t dense = 3LL * 6144 * 12288;
  const auto count = count_parameters(load_model("glm-5-nvfp4"));
  CHECK(count.total == 78 * attention + 3 * dense + 75 * (257 * expert + router) + 2 * table);
  CHECK(static_cast<double>(count.total) == Approx(743.91e9).margin(0.005e9));
  // A token: eight experts and the shared one, the head, not the embedding table.
  CHECK(count.active == 78 * attention + 3 * dense + 75 * (9 * expert + router) + table);
  CHECK(static_cast<double>(count.active) == Approx(40.83e9).margin(0.005e9));
  // The MTP layer: a MoE layer and a projection of two hidden states to one.
  CHECK(count.mtp == attention + 257 * expert + router + 2LL * 6144 * 6144);
  CHECK(static_cast<double>(count.mtp) == Approx(9.95e9).margin(0.005e9));
}

TEST_CASE("the weights of GLM-5-NVFP4 take 54.76 GiB on each of eight GPUs") {
  // 440.9 GB on one GPU; attention inputs, indexer and router are on every GPU whole.
  const ModelSpec m = load_model("glm-5-nvfp4");
  CHECK(gib_per_gpu(m, 1) == Approx(410.63).margin(0.005));
  CHECK(gib_per_gpu(m, 2) == Approx(207.28).margin(0.005));
  CHECK(gib_per_gpu(m, 4) == Approx(105.60).margin(0.005));
  CHECK(gib_per_gpu(m, 8) == Approx(54.76).margin(0.005));
  CHECK(weight_bytes_per_gpu(m, 1, false).total.real() == Approx(440.9e9).margin(0.05e9));
  // The BF16 MTP layer, GiB: experts 257 x 37,748,736 x 2 / 8 = 2.2588; q_b, kv_b and o_proj
  // 148,897,792 x 2 / 8 = 0.0347; whole on every GPU the other attention inputs 25,493,504, the
  // router 1,572,864 and the projection of two hidden states 75,497,472, x 2 = 0.1910.
  CHECK(gib_per_gpu(m, 8, true) - gib_per_gpu(m, 8) == Approx(2.4845).margin(0.0005));
  CHECK(gib_per_gpu(m, 8, true) == Approx(57.06).epsilon(0.005));  // as a server reports it
  // One expert on one of eight GPUs: 3 x 6144 x 256 x 0.5625 B = 2.654 MB.
  CHECK(3.0 * m.hidden * m.moe->inter / 8 * bytes_per_element(m.precision.experts) ==
        Approx(2.654e6).margin(500));
}

TEST_CASE("weight groups add up to their total, and so do the parts of all GPUs") {
  const ModelSpec m = load_model("glm-5-nvfp4");
  for (const int tp : {1, 2, 4, 8, 16})
    for (const bool mtp : {false, true}) {
      const auto w = weight_bytes_per_gpu(m, tp, mtp);
      Bytes sum;
      for (const auto& [group, bytes] : w.groups) sum += bytes;
      CHECK(sum == w.total);
      CHECK(tp * w.total.real() >= weight_bytes_per_gpu(m, 1, mtp).total.real() - 1000);
      // What is split, split n ways, plus what is not, whole.
      double split = 0, whole = 0;
      for (const auto& matrix : weight_matrices(m))
        if (mtp || !matrix.mtp)
          (matrix.sharded ? split : whole) +=
              static_cast<double>(matrix.parameters) * bytes_per_element(matrix.precision);
      CHECK(w.total.real() == Approx(split / tp + whole).margin(100));
    }
}

TEST_CASE("the KV cache of GLM-5 takes 78 x (1152 + 132) bytes a token in bf16") {
  // Latent 512 + rope 64 elements, then 128 bytes of index keys and a scale of 4.
  const ModelSpec m = load_model("glm-5-nvfp4");
  CHECK(kv_bytes_per_token(m, Precision::bf16, 8).count() == 100'152);
  CHECK(kv_bytes_per_token(m, Precision::fp8, 8).count() == 55'224);
  CHECK((Tokens(314'304) * kv_bytes_per_token(m, Precision::bf16, 8)).real() / gib ==
        Approx(29.32).margin(0.01));  // a server reports 29.32 GiB
}

TEST_CASE(
    "a pass of GLM-5 is 157 all-reduces of 12,288 bytes a token and one all-gather of the logits") {
  // One after the embedding and two in each of 78 layers.
  for (const bool sparse : {false, true})
    for (const int tp : {2, 4, 8}) {
      const ModelGraph g = graph(tp, sparse);
      CHECK(g.count(Collective::all_reduce) == 1 + 2 * 78);
      CHECK(g.count(Collective::all_gather) == 1);
      CHECK(g.count(Collective::reduce_scatter) == 0);
      for (const auto& b : g.blocks)
        for (const auto& o : b.operators)
          if (const auto* c = std::get_if<CollectiveOp>(&o.work)) {
            CHECK(c->bytes_per_row == (c->op == Collective::all_reduce ? 12'288 : 309'760));
            CHECK(c->rows == (c->op == Collective::all_reduce ? Rows::tokens : Rows::sequences));
          }
    }
  CHECK(graph(1).count(Collective::all_reduce) == 0);
  CHECK(graph(1).count(Collective::all_gather) == 0);
}

TEST_CASE("the GEMMs of GLM-5 at TP8 have the shapes of its layer table") {
  const ModelGraph g = graph(8, true);
  const auto bf16 = Precision::bf16, nvfp4 = Precision::nvfp4;
  for (const char* layer : {"dense layer", "MoE layer"}) {
    check_gemm(g, layer, "q_a_kv_a", 2624, 6144, bf16);  // 2048 + 512 + 64, on every GPU
    check_gemm(g, layer, "q_b", 2048, 2048, bf16);       // 8 heads x (192 + 64)
    check_gemm(g, layer, "o_proj", 6144, 2048, bf16);    // 8 heads x 256 in
    check_gemm(g, layer, "indexer_q", 4096, 2048, bf16);
    check_gemm(g, layer, "indexer_k_weights", 128 + 32, 6144, bf16);
    const auto q = op<BatchedGemmOp>(g, layer, "absorbed_q"),
               v = op<BatchedGemmOp>(g, layer, "absorbed_v");
    CHECK(q.batch == 8);
    CHECK(q.n == 512);
    CHECK(q.k == 192);
    CHECK(v.batch == 8);
    CHECK(v.n == 256);
    CHECK(v.k == 512);
    const auto core = op<MlaOp>(g, layer, "attention");
    CHECK(core.heads == 8);
    CHECK(core.kv_lora + core.rope == 576);
    CHECK(core.top_k == 2048);
    const auto index = op<IndexerOp>(g, layer, "indexer_top_k");
    CHECK(index.heads == 32);
    CHECK(index.dim == 128);
    CHECK(index.top_k == 2048);
  }
  check_gemm(g, "dense layer", "gate_up", 3072, 6144, nvfp4);
  check_gemm(g, "dense layer", "down", 6144, 1536, nvfp4);
  check_gemm(g, "MoE layer", "gate_up", 512, 6144, nvfp4);
  check_gemm(g, "MoE layer", "down", 6144, 256, nvfp4);
  check_gemm(g, "MoE layer", "router", 256, 6144, bf16);
  check_gemm(g, "head", "lm_head", 19'360, 6144, bf16);
  CHECK(op<GemmOp>(g, "head", "lm_head").rows == Rows::sequences);
  const auto moe = op<MoeOp>(g, "MoE layer", "routed_experts");
  CHECK(moe.hidden == 6144);
  CHECK(moe.inter == 256);
  CHECK(moe.experts_per_token == 8);
  CHECK(moe.precision == nvfp4);
}

TEST_CASE("GLM-5 has three dense layers and 75 with experts") {
  const ModelGraph g = graph(8);
  CHECK(block(g, "embedding").repeat == 1);
  CHECK(block(g, "dense layer").repeat == 3);
  CHECK(block(g, "MoE layer").repeat == 75);
  CHECK(block(g, "head").repeat == 1);
  CHECK(op<MlaOp>(g, "MoE layer", "attention").top_k == 0);  // dense attention unless asked
}

TEST_CASE("tensor parallelism splits the sharded operators evenly and leaves the others whole") {
  for (const int tp : {2, 4, 8, 16, 32}) {
    const ModelGraph one = graph(1, true), n = graph(tp, true);
    INFO("tp " << tp);
    for (const char* layer : {"dense layer", "MoE layer"}) {
      CHECK(op<GemmOp>(n, layer, "q_b").n * tp == op<GemmOp>(one, layer, "q_b").n);
      CHECK(op<GemmOp>(n, layer, "o_proj").k * tp == op<GemmOp>(one, layer, "o_proj").k);
      CHECK(op<GemmOp>(n, layer, "gate_up").n * tp == op<GemmOp>(one, layer, "gate_up").n);
      CHECK(op<GemmOp>(n, layer, "down").k * tp == op<GemmOp>(one, layer, "down").k);
      CHECK(op<MlaOp>(n, layer, "attention").heads * tp ==
            op<MlaOp>(one, layer, "attention").heads);
      for (const char* name : {"absorbed_q", "absorbed_v"})
        CHECK(op<BatchedGemmOp>(n, layer, name).batch * tp ==
              op<BatchedGemmOp>(one, layer, name).batch);
      for (const char* name : {"q_a_kv_a", "indexer_q", "indexer_k_weights"}) {
        CHECK(op<GemmOp>(n, layer, name).n == op<GemmOp>(one, layer, name).n);
        CHECK(op<GemmOp>(n, layer, name).k == op<GemmOp>(one, layer, name).k);
      }
    }
    CHECK(op<MoeOp>(n, "MoE layer", "routed_experts").inter * tp ==
          op<MoeOp>(one, "MoE layer", "routed_experts").inter);
    CHECK(op<GemmOp>(n, "head", "lm_head").n * tp == op<GemmOp>(one, "head", "lm_head").n);
    CHECK(op<GemmOp>(n, "MoE layer", "router").n == op<GemmOp>(one, "MoE layer", "router").n);
  }
}

TEST_CASE("the weights that the GEMMs of a pass read are the weights of the model") {
  // Independent sums: the operator graph against the list of matrices. kv_b is not multiplied as
  // such but absorbed: q by 192 x 512 a head and v by 512 x 256 a head, which is its size.
  const ModelSpec m = load_model("glm-5-nvfp4");
  for (const int tp : {1, 2, 4, 8}) {
    const ModelGraph g = graph(tp, true);
    double read = 0;
    for (const auto& b : g.blocks)
      for (const auto& o : b.operators) {
        double bytes = 0;
        if (const auto* x = std::get_if<GemmOp>(&o.work))
          bytes = static_cast<double>(x->n * x->k) * bytes_per_element(x->precision);
        if (const auto* x = std::get_if<BatchedGemmOp>(&o.work))
          bytes = static_cast<double>(x->batch * x->n * x->k) * 2;
        if (const auto* x = std::get_if<MoeOp>(&o.work))
          bytes = 3.0 * x->hidden * x->inter * bytes_per_element(x->precision) * m.moe->experts;
        read += b.repeat * bytes;
      }
    double stored = weight_bytes_per_gpu(m, tp, false).total.real();
    stored -= 154'880.0 * 6144 * 2 / tp;  // the embedding is looked up
    CHECK(read == Approx(stored).epsilon(1e-9));
  }
}

TEST_CASE("eager passes launch as many kernels as traces of such models show") {
  // Indexer on: 45 to 55 launches a MoE layer, 3,500 to 4,300 a pass. Dense MLA (DeepSeek-V3
  // class): 30 to 38 a layer.
  const ModelGraph sparse = graph(8, true), dense = graph(8, false);
  CHECK(launches(block(sparse, "MoE layer")) >= 45);
  CHECK(launches(block(sparse, "MoE layer")) <= 55);
  CHECK(sparse.launches() >= 3500);
  CHECK(sparse.launches() <= 4300);
  CHECK(launches(block(dense, "MoE layer")) >= 30);
  CHECK(launches(block(dense, "MoE layer")) <= 38);
  // As SGLang issues them: norms 2, q_a 1, their norms 2, q_b 1, absorbed q and v 2, rope 1, KV
  // write and concat 3, attention 2, o_proj 1, all-reduces 2, shared expert 2 + 1 + 2, router 1,
  // routed experts 10, sum 1 = 34; the indexer 1 + 2 + 9 + 2 more.
  CHECK(launches(block(dense, "MoE layer")) == 34);
  CHECK(launches(block(sparse, "MoE layer")) == 48);
  int sum = 0;
  for (const auto& b : dense.blocks) sum += b.repeat * launches(b);
  CHECK(dense.launches() == sum);
  // Dense layers 34 - 17 + 5 = 22; embedding 2 + 1, head 1 + 2 + 1 + 10.
  CHECK(dense.launches() == 75 * 34 + 3 * 22 + 3 + 14);
  CHECK(sparse.launches() == dense.launches() + 78 * 14);
}

TEST_CASE("the shared expert runs beside the routed ones and is joined before they are added") {
  const ModelGraph g = graph(8);
  const auto& ops = block(g, "MoE layer").operators;
  std::map<std::string, std::size_t> at;
  for (std::size_t i = 0; i < ops.size(); ++i) at[ops[i].name] = i;
  for (const char* name : {"gate_up", "activation", "down"}) CHECK(ops[at[name]].side);
  CHECK_FALSE(ops[at["routed_experts"]].side);
  CHECK(ops[at["add_shared"]].join);
  CHECK(at["down"] < at["add_shared"]);
  CHECK(at["routed_experts"] < at["add_shared"]);
  CHECK(std::none_of(ops.begin() + static_cast<std::ptrdiff_t>(at["add_shared"]), ops.end(),
                     [](const Operator& o) { return o.side; }));
  const auto& dense = block(g, "dense layer").operators;
  CHECK(std::none_of(dense.begin(), dense.end(), [](const Operator& o) { return o.side; }));
}

TEST_CASE("a split that does not divide the model says what stands in its way") {
  const ModelSpec m = load_model("glm-5-nvfp4");
  for (const int tp : {1, 2, 4, 8, 16, 32}) CHECK(tensor_parallel_obstacle(m, tp) == "");
  CHECK(tensor_parallel_obstacle(m, 3) == "3 does not divide the 64 attention heads");
  CHECK(tensor_parallel_obstacle(m, 64) == "");  // one head each; 154,880 / 64 = 2,420
  CHECK(tensor_parallel_obstacle(m, 128) == "128 does not divide the 64 attention heads");
}

TEST_CASE("a model file is checked as a whole") {
  Reading reading;
  const Settings file = yaml(
      "schema: 2\nname: x\nlayers: 2\ndense_layers: 3\nhidden: 0\nvocab: 10\ncontext_length: 5\n"
      "attention: {kind: mqa, heads: 1, q_lora: 1, kv_lora: 1, nope: 1, rope: 0, v: 1}\n"
      "moe: {experts: 4, experts_per_token: 8, inter: 1}\n"
      "precision: {experts: int4, attnetion: bf16}\n");
  read_model("x", file, reading);
  const auto text = reading.errors.render();
  INFO(text);
  CHECK(text.find("schema: '2' must lie between 1 and 1") != std::string::npos);
  CHECK(text.find("model needs 'source'") != std::string::npos);
  CHECK(text.find("hidden: '0' must ") != std::string::npos);
  CHECK(text.find("there are fewer layers than dense ones") != std::string::npos);
  CHECK(text.find("dense layers need 'dense_inter'") != std::string::npos);
  CHECK(text.find("'mqa' is not a valid kind") != std::string::npos);
  CHECK(text.find("a token cannot use more experts than there are") != std::string::npos);
  CHECK(text.find("'int4' is not a valid experts") != std::string::npos);
  CHECK(text.find("did you mean 'attention'?") != std::string::npos);
}

TEST_CASE("stored sizes: bf16 two bytes, fp8 one, nvfp4 four bits and a scale of one byte per 16") {
  CHECK(bytes_per_element(Precision::bf16) == 2);
  CHECK(bytes_per_element(Precision::fp8) == 1);
  CHECK(bytes_per_element(Precision::nvfp4) == 0.5 + 1.0 / 16);
}
