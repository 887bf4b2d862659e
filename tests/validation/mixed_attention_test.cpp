// The mixed kernel of FlashAttention-2 against LLMServingSim's profile of vLLM 0.19: what decodes
// add to a prompt, with the profile's own times of prompts and decodes alone as the given models.
// The profile has equal lengths only, so that the KV tail has nothing to be compared with here.

#include <array>
#include <map>

#include <catch2/catch.hpp>

#include "models/cost/attention_pass.hpp"
#include "tests/support/csv.hpp"
#include "tests/support/hardware.hpp"

namespace {

// prompt tokens, past, decodes, KV tokens of each
using Point = std::array<std::int64_t, 4>;
using Points = std::map<Point, double>;

// What of a profile is alone, as the models that attention_pass is given.
struct DecodeRows final : CostModel<GqaDecodeShape> {
  explicit DecodeRows(const Points& points) : rows(points) {}
  Prediction predict(const GqaDecodeShape& s) const override {
    const auto kv = static_cast<std::int64_t>(s.kv_tokens_each);
    return {Duration::from_us(rows.at({0, 0, s.sequences, kv})), {}, {}, Provenance::measured, 0};
  }
  const Points& rows;
};
struct PrefillRows final : CostModel<GqaPrefillShape> {
  explicit PrefillRows(const Points& points) : rows(points) {}
  Prediction predict(const GqaPrefillShape& s) const override {
    return {Duration::from_us(rows.at({s.prompt.tokens, s.prompt.past, 0, 0})),
            {},
            {},
            Provenance::measured,
            0};
  }
  const Points& rows;
};

struct Grid {
  std::string gpu, model;
  int ranks;
  AttentionHeads heads;
  double median, p90;  // stated in docs/models/attention.md, to the per cent
};

const Grid grids[] = {
    {"RTXPRO6000", "meta-llama/Llama-3.1-8B", 1, {32, 8, 128}, 0.04, 0.18},
    {"RTXPRO6000", "meta-llama/Llama-3.1-8B", 2, {16, 4, 128}, 0.04, 0.19},
    {"RTXPRO6000", "Qwen/Qwen3-32B", 1, {64, 8, 128}, 0.04, 0.21},
    {"RTXPRO6000", "Qwen/Qwen3-32B", 2, {32, 4, 128}, 0.04, 0.21},
    {"RTXPRO6000", "Qwen/Qwen3-30B-A3B-Instruct-2507", 1, {32, 4, 128}, 0.03, 0.21},
    {"RTXPRO6000", "Qwen/Qwen3-30B-A3B-Instruct-2507", 2, {16, 2, 128}, 0.05, 0.23},
    {"RTX4090", "meta-llama/Llama-3.1-8B", 1, {32, 8, 128}, 0.06, 0.23},
};

}  // namespace

TEST_CASE("the mixed kernel's law and the profile differ by what the docs state") {
  const auto file = shared_file("data/kernels/llmservingsim/sm120_vllm019_profile.csv.gz");
  if (!file) return;
  std::map<std::string, Points> profile;
  read_csv(*file,
           {"table", "gpu", "model", "tp", "prefill_chunk", "kv_prefill", "n_decode", "kv_decode",
            "time_us"},
           [&](const std::vector<std::string>& f) {
             if (f[0] != "attention") return;
             profile[f[1] + f[2] + f[3]][{std::stoll(f[4]), std::stoll(f[5]), std::stoll(f[6]),
                                          std::stoll(f[7])}] = std::stod(f[8]);
           });
  for (const Grid& grid : grids) {
    const Points& points = profile[grid.gpu + grid.model + std::to_string(grid.ranks)];
    const GpuSpec gpu = load_gpu(grid.gpu == "RTX4090" ? "rtx-4090" : "rtx-pro-6000-server");
    const AttentionKernel kernel = flash_attention(gpu);
    const DecodeRows decode(points);
    const PrefillRows prefill(points);
    Errors law, added;
    double bias = 0;
    for (const auto& [at, us] : points) {
      if (at[0] == 0 || at[2] == 0) continue;
      if (!points.count({at[0], at[1], 0, 0}) || !points.count({0, 0, at[2], at[3]})) continue;
      const AttentionPass pass{{at[2], at[2] * at[3], at[3]}, at[2], {{at[0], at[1]}}, grid.heads};
      const double predicted = attention_pass(pass, gpu, kernel, decode, prefill).time.us();
      law.add(predicted, us);
      bias += predicted / us - 1;
      added.add(attention_pass(pass, gpu, AttentionKernel{}, decode, prefill).time.us(), us);
    }
    const auto n = static_cast<double>(law.absolute.size());
    INFO(grid.gpu << " " << grid.model << " tp " << grid.ranks << ": " << n << " points, median "
                  << law.median() << ", p90 " << law.quantile(0.9) << ", bias " << bias / n
                  << "; parts added " << added.median() << ", " << added.quantile(0.9));
    CHECK(n > 8000);
    CHECK(law.median() <= grid.median + 0.005);
    CHECK(law.quantile(0.9) <= grid.p90 + 0.02);
    CHECK(std::abs(bias / n) <= 0.05);
    CHECK(added.median() > 3 * law.median());
  }
}
