// The laws of the RTX PRO 6000 against the measured tables they were fitted on: each median as the
// `source` line of hardware/tables/rtx-pro-6000-server/laws.yaml states it, plus two points.

#include <algorithm>

#include <catch2/catch.hpp>

#include "tests/support/csv.hpp"
#include "tests/support/hardware.hpp"

namespace {

const std::string folder = "data/kernels/rtx_pro_6000_server/";

const CostModels& costs() {
  static const CostModels models = load_costs("rtx-pro-6000-server", "sglang-0.5.9-sm120");
  return models;
}

}  // namespace

TEST_CASE("GEMM times of the law and the table differ by what the law states") {
  const auto file = shared_file(folder + "gemm__sglang_0.5.14.csv.gz");
  if (!file) return;
  // precision x (m <= 64, 65-512, above)
  Errors errors[2][3];
  read_csv(*file, {"gemm_dtype", "m", "n", "k", "latency_ms"},
           [&](const std::vector<std::string>& f) {
             const bool nvfp4 = f[0] == "nvfp4";
             if (!nvfp4 && f[0] != "bfloat16") return;
             const GemmShape s{std::stoll(f[1]), std::stoll(f[2]), std::stoll(f[3]),
                               nvfp4 ? Precision::nvfp4 : Precision::bf16};
             if (s.n < 512 || s.k < 256) return;
             errors[nvfp4][s.m <= 64    ? 0
                           : s.m <= 512 ? 1
                                        : 2]
                 .add(costs().gemm->predict(s).time.ms(), std::stod(f[4]));
           });
  const double stated[2][3] = {{0.048, 0.11, 0.10}, {0.028, 0.068, 0.15}};
  for (const int precision : {0, 1})
    for (const int rows : {0, 1, 2}) {
      INFO((precision ? "nvfp4" : "bf16")
           << ", class " << rows << ", " << errors[precision][rows].absolute.size() << " points");
      CHECK(errors[precision][rows].absolute.size() > 1000);
      CHECK(errors[precision][rows].median() <= stated[precision][rows] + 0.02);
    }
}

TEST_CASE("MoE times of the law and the table differ by what the law states") {
  const auto file = shared_file(folder + "moe__sglang_0.5.14.csv.gz");
  if (!file) return;
  Errors balanced;
  read_csv(*file,
           {"moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts",
            "moe_tp_size", "moe_ep_size", "distribution", "latency_ms"},
           [&](const std::vector<std::string>& f) {
             if (f[0] != "nvfp4" || f[2] != "6144" || f[3] != "2048" || f[4] != "8" ||
                 f[5] != "256" || f[6] != "8" || f[7] != "1" || f[8] != "balanced")
               return;
             const std::int64_t tokens = std::stoll(f[1]);
             // Balanced rows route in strides: every token takes eight experts nobody has yet.
             const double distinct = static_cast<double>(std::min<std::int64_t>(256, 8 * tokens));
             balanced.add(
                 costs()
                     .moe->predict({tokens, 6144, 256, 8, 256, 8, distinct, Precision::nvfp4})
                     .time.ms(),
                 std::stod(f[9]));
           });
  CHECK(balanced.absolute.size() == 26);
  CHECK(balanced.median() <= 0.014 + 0.02);
  CHECK(balanced.quantile(0.9) <= 0.08 + 0.02);
  CHECK(balanced.quantile(1) <= 0.19 + 0.02);
}

TEST_CASE("MLA decode times of the law and the table differ by what the law states") {
  const auto file = shared_file(folder + "generation_mla__sglang_0.5.14.csv");
  if (!file) return;
  Errors all, short_kv;
  read_csv(
      *file, {"num_heads", "batch_size", "step", "latency_ms"},
      [&](const std::vector<std::string>& f) {
        if (f[0] != "8") return;
        const std::int64_t batch = std::stoll(f[1]), kv = std::stoll(f[2]) + 1;
        const double ms =
            costs().mla_decode->predict({batch, batch * kv, 8, 512, 64, Precision::bf16}).time.ms();
        all.add(ms, std::stod(f[3]));
        if (kv <= 1024) short_kv.add(ms, std::stod(f[3]));
      });
  CHECK(all.absolute.size() >= 200);
  CHECK(all.median() <= 0.07 + 0.02);
  CHECK(all.quantile(0.9) <= 0.27 + 0.02);
  CHECK(short_kv.median() <= 0.06 + 0.02);
  CHECK(short_kv.quantile(0.9) <= 0.16 + 0.02);
}

TEST_CASE("MLA prefill times of the law and the table differ by what the law states") {
  const auto file = shared_file(folder + "context_mla__sglang_0.5.14.csv");
  if (!file) return;
  Errors errors;
  read_csv(*file, {"num_heads", "batch_size", "isl", "latency_ms"},
           [&](const std::vector<std::string>& f) {
             if (f[0] != "8") return;
             const std::int64_t batch = std::stoll(f[1]), tokens = std::stoll(f[2]);
             const MlaPrefillShape s{
                 batch, batch * tokens, tokens, batch * tokens * (tokens + 1) / 2, 8, 512,
                 64,    Precision::bf16};
             errors.add(costs().mla_prefill->predict(s).time.ms(), std::stod(f[3]));
           });
  CHECK(errors.absolute.size() >= 150);
  CHECK(errors.median() <= 0.04 + 0.02);
  CHECK(errors.quantile(0.9) <= 0.43 + 0.02);
}

TEST_CASE("absorbed projections of the law and the table differ by what the law states") {
  const auto file = shared_file(folder + "mla_bmm__sglang_0.5.14.csv");
  if (!file) return;
  Errors errors;
  read_csv(*file, {"op_name", "bmm_dtype", "num_tokens", "num_heads", "latency_ms"},
           [&](const std::vector<std::string>& f) {
             if (f[1] != "bfloat16" || f[3] != "8") return;
             const bool pre = f[0] == "mla_gen_pre";  // 128 -> 512 before attention, back after it
             errors.add(
                 costs()
                     .batched_gemm->predict({8, std::stoll(f[2]), pre ? 512 : 128, pre ? 128 : 512})
                     .time.ms(),
                 std::stod(f[4]));
           });
  CHECK(errors.absolute.size() >= 20);
  CHECK(errors.median() <= 0.15 + 0.02);
}
