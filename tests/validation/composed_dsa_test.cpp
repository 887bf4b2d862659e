// The parts of composed DSA at home: each on the card whose rows it was fitted on. What they say of
// an SM120 card has no measurement; docs/models/dsa.md has what served steps say of it.

#include <map>
#include <tuple>

#include <catch2/catch.hpp>

#include "tests/support/composed_dsa.hpp"
#include "tests/support/csv.hpp"

namespace {

struct Home {
  const char* card;
  const char* folder;
  const char* top_k;  // file of the top-k rows
  Parts parts;
};
constexpr Home homes[] = {
    {"h200", "data/kernels/h200_sxm/", "glm5_topk_module__sglang_0.5.14.csv", Parts::h200},
    {"b200", "data/kernels/b200_sxm/", "glm5_topk_module__sglang_0.5.14.csv.gz", Parts::b200}};

std::optional<std::string> table(const Home& home, const std::string& name) {
  return shared_file(home.folder + name);
}

using Shape = std::tuple<std::int64_t, std::int64_t, std::int64_t>;  // sequences, new, past

std::map<Shape, double> read_pieces(const std::string& path, bool scored) {
  std::map<Shape, double> us;
  std::vector<std::string> columns{"batch_size", "isl", "step", "latency_ms"};
  if (scored) columns.emplace_back("score_mode");
  read_csv(path, columns, [&](const std::vector<std::string>& f) {
    if (scored && f[4] != "flat") return;
    const double ms = std::stod(f[3]);
    if (ms > 0) us[{std::stoll(f[0]), std::stoll(f[1]), std::stoll(f[2])}] = ms * 1e3;
  });
  return us;
}

/// Decode blocks of GLM-5 at 8 heads with BF16 projections: (sequences, past) -> us.
std::map<std::pair<std::int64_t, std::int64_t>, double> read_blocks(const std::string& path,
                                                                    const std::string& op_name,
                                                                    const std::string& kv,
                                                                    const std::string& kernel) {
  std::map<std::pair<std::int64_t, std::int64_t>, double> us;
  std::vector<std::string> columns{"model",      "kv_cache_dtype", "gemm_type", "num_heads",
                                   "batch_size", "step",           "latency_ms"};
  if (!op_name.empty()) columns.emplace_back("op_name");
  if (!kernel.empty()) columns.emplace_back("kernel_source");
  read_csv(path, columns, [&](const std::vector<std::string>& f) {
    if (f[0].find("GLM") == std::string::npos || f[1] != kv || f[2] != "bfloat16" || f[3] != "8")
      return;
    if (f.size() > 7 && f[7] != (op_name.empty() ? kernel : op_name)) return;
    us[{std::stoll(f[4]), std::stoll(f[5])}] = std::stod(f[6]) * 1e3;
  });
  return us;
}

void check(Errors& errors, std::size_t rows, double median, double p90) {
  INFO(errors.absolute.size() << " rows, median " << errors.median() << ", p90 "
                              << errors.quantile(0.9));
  CHECK(errors.absolute.size() >= rows);
  CHECK(errors.median() <= median);
  CHECK(errors.quantile(0.9) <= p90);
}

}  // namespace

TEST_CASE("composed DSA at home: logits and top-k of a prefill, median 5 %, p90 15 %") {
  for (const Home& home : homes) {
    const auto logits = table(home, "glm5_mqa_logits_module__sglang_0.5.14.csv");
    const auto top_k = table(home, home.top_k);
    if (!logits || !top_k) return;
    INFO(home.card);
    const auto costs = composed_dsa(load_gpu(home.card), home.parts);
    const auto scores = read_pieces(*logits, false), picks = read_pieces(*top_k, true);
    Errors errors;
    for (const auto& [shape, us] : picks) {
      const auto [n, tokens, past] = shape;
      const auto other = scores.find(shape);
      if (other == scores.end() || tokens < 512 || n * tokens > 16384 || past < 2048) continue;
      const auto p = costs.indexer->predict(
          {n, n * (tokens * past + tokens * (tokens + 1) / 2), past + tokens, 32, 128, 2048, true});
      errors.add(p.time.us(), us + other->second);
    }
    check(errors, 200, 0.05, 0.15);
  }
}

TEST_CASE("composed DSA at home: SGLang's top-k of a decode, median 6 %, p90 12 %") {
  for (const Home& home : homes) {
    const auto top_k = table(home, home.top_k);
    if (!top_k) return;
    INFO(home.card);
    const auto costs = composed_dsa(load_gpu(home.card), home.parts, "composed_sglang");
    Errors errors;
    for (const auto& [shape, us] : read_pieces(*top_k, true)) {
      const auto [n, tokens, past] = shape;
      if (tokens != 1 || past < 2048) continue;
      // a top-k that takes more keys than there are does not run
      const std::int64_t kv = past + 1;
      const auto with = costs.indexer->predict({n, n * kv, kv, 32, 128, 2048}).time,
                 without = costs.indexer->predict({n, n * kv, kv, 32, 128, 1 << 30}).time;
      errors.add((with - without).us(), us);
    }
    check(errors, 30, 0.06, 0.12);
  }
}

TEST_CASE("composed DSA at home: what KV beyond 2,048 adds to vLLM's decode block") {
  for (const Home& home : homes) {
    const auto file = table(home, "dsa_generation_module__vllm_0.24.0.csv.gz");
    if (!file) return;
    INFO(home.card);
    const auto costs = composed_dsa(load_gpu(home.card), home.parts);
    const auto index = [&](std::int64_t n, std::int64_t kv) {
      return costs.indexer->predict({n, n * kv, kv, 32, 128, 2048}).time.us();
    };
    Errors block, growth;
    for (const char* kv : {"fp8", "bfloat16"}) {
      const auto blocks =
          read_blocks(*file, "", kv, home.parts == Parts::b200 ? "FLASHINFER_MLA_SPARSE" : "");
      for (const auto& [at, us] : blocks) {
        const auto [n, past] = at;
        const auto base = blocks.find({n, 2048});
        if (n > 256 || past < 4096 || base == blocks.end()) continue;
        const double added = index(n, past + 1) - index(n, 2048);
        block.add(base->second + added, us);
        if (us - base->second > 40) growth.add(added, us - base->second);
      }
    }
    check(block, 90, 0.03, 0.09);
    check(growth, 25, 0.05, 0.18);
  }
}

TEST_CASE("composed DSA at home: decode attention within its block, median 8 %, p90 16 %") {
  for (const Home& home : homes) {
    const auto file = table(home, "dsa_generation_module__sglang_0.5.14.csv.gz");
    if (!file) return;
    const auto costs = composed_dsa(load_gpu(home.card), home.parts);
    for (const auto& [kv, precision] :
         {std::pair{"bfloat16", Precision::bf16}, std::pair{"fp8", Precision::fp8}}) {
      INFO(home.card << ", KV in " << kv);
      const auto blocks = read_blocks(*file, "dsa_generation_module_skip_indexer", kv, "");
      const auto attend = [&](std::int64_t n) {
        return costs.mla_decode->predict({n, n * 2048, 8, 512, 64, precision}).time.us();
      };
      // captured batches of sequences longer than the top-k; the rest of the block as with one
      Errors errors;
      const auto one = blocks.find({1, 2048});
      REQUIRE(one != blocks.end());
      for (const auto& [at, us] : blocks) {
        const auto [n, past] = at;
        if (n > 256 || past < 2048) continue;
        errors.add(one->second + attend(n) - attend(1), us);
      }
      check(errors, 35, 0.08, 0.16);
    }
  }
}

TEST_CASE("composed DSA at home: prefill attention from 64 queries up, median 6 %, p90 28 %") {
  for (const Home& home : homes) {
    const auto file = table(home, "glm5_dsa_attn_module__sglang_0.5.14.csv");
    if (!file) return;
    INFO(home.card);
    const auto costs = composed_dsa(load_gpu(home.card), home.parts);
    Errors errors;
    for (const auto& [shape, us] : read_pieces(*file, false)) {
      const auto [n, tokens, past] = shape;
      if (n * tokens < 64 || past < 2048) continue;
      const auto p = costs.mla_prefill->predict(
          {n, n * tokens, tokens, n * tokens * 2048, 8, 512, 64, Precision::bf16});
      errors.add(p.time.us(), us);
    }
    check(errors, 1000, 0.06, 0.28);
  }
}
