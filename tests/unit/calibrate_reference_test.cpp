// The CPU references that CUDA kernels are checked against.

#include <set>

#include <catch2/catch.hpp>

#include "calibrate/reference/attention.hpp"
#include "calibrate/reference/bf16.hpp"
#include "calibrate/reference/experts.hpp"
#include "calibrate/reference/indices.hpp"
#include "calibrate/reference/nvfp4.hpp"
#include "calibrate/reference/routing.hpp"
#include "sim/base/random.hpp"

using namespace reference;

TEST_CASE("every E2M1 code decodes and encodes to itself, and no code is nearer") {
  for (int code = 0; code < 16; ++code)
    CHECK(to_e2m1(from_e2m1(static_cast<std::uint8_t>(code))) == code);
  for (double v = -8; v <= 8; v += 1.0 / 64) {
    const double got = std::abs(from_e2m1(to_e2m1(v)) - v);
    for (int code = 0; code < 16; ++code)
      CHECK(got <= std::abs(from_e2m1(static_cast<std::uint8_t>(code)) - v));
  }
}

TEST_CASE("E2M1 ties go to the even mantissa and sizes beyond 6 saturate") {
  // 2.5 lies between 2 (code 4) and 3 (code 5), 5 between 4 (6) and 6 (7), 0.25 between 0 and 0.5
  CHECK(from_e2m1(to_e2m1(2.5)) == 2);
  CHECK(from_e2m1(to_e2m1(3.5)) == 4);
  CHECK(from_e2m1(to_e2m1(5)) == 4);
  CHECK(from_e2m1(to_e2m1(0.25)) == 0);
  CHECK(from_e2m1(to_e2m1(-1e9)) == -6);
  CHECK(from_e2m1(to_e2m1(std::nan(""))) == 6);
}

TEST_CASE("UE4M3 codes round trip, rise, and end at 448") {
  CHECK(from_ue4m3(0x01) == 1.0 / 512);
  CHECK(from_ue4m3(0x38) == 1);    // exponent 7, the bias
  CHECK(from_ue4m3(0x7e) == 448);  // 1.75 x 2^8
  CHECK(std::isnan(from_ue4m3(0x7f)));
  for (int code = 0; code < 0x7f; ++code) {
    const double v = from_ue4m3(static_cast<std::uint8_t>(code));
    CHECK(to_ue4m3(v) == code);
    if (code > 0) CHECK(v > from_ue4m3(static_cast<std::uint8_t>(code - 1)));
  }
  CHECK(to_ue4m3(1e6) == 0x7e);
  CHECK(to_ue4m3(-1) == 0x7f);
  CHECK(from_ue4m3(to_ue4m3(1.0625)) == 1);     // between 1 (0x38) and 1.125 (0x39): the even code
  CHECK(from_ue4m3(to_ue4m3(1.1875)) == 1.25);  // between 1.125 (0x39) and 1.25 (0x3a)
}

TEST_CASE("the swizzle of scales is one to one within its padded bytes") {
  const std::int64_t rows = 200, blocks = 6;  // padded: 256 x 8
  CHECK(swizzled_scale_bytes(rows, blocks) == 256 * 8);
  std::set<std::int64_t> seen;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t b = 0; b < blocks; ++b) {
      const auto at = swizzled_scale(r, b, blocks);
      CHECK(at >= 0);
      CHECK(at < 256 * 8);
      CHECK(seen.insert(at).second);
    }
  CHECK(swizzled_scale(1, 0, 6) == 16);
  CHECK(swizzled_scale(32, 0, 6) == 4);         // shares 16 bytes with row 0
  CHECK(swizzled_scale(0, 4, 6) == 512);        // next tile along K
  CHECK(swizzled_scale(128, 0, 6) == 2 * 512);  // next tile of rows: two tiles lie along K
  CHECK(swizzled_scale(97, 3, 6) == 16 + 3 * 4 + 3);
}

TEST_CASE("paged slots of a sequence are its pages in order, and a gather follows its picks") {
  const std::vector<std::int32_t> pages{7, 2, 5};
  CHECK(paged_slot(pages, 64, 0) == 7 * 64);
  CHECK(paged_slot(pages, 64, 63) == 7 * 64 + 63);
  CHECK(paged_slot(pages, 64, 64) == 2 * 64);
  CHECK(gathered_slots(pages, 64, {130, -1, 1}) ==
        std::vector<std::int64_t>{5 * 64 + 2, -1, 7 * 64 + 1});
}

TEST_CASE("rows sorted by expert hold every pick once, in the order of the tokens") {
  RandomStream random(1, "routing");
  const std::vector<double> weights{8, 4, 2, 1, 1, 1, 1, 0.5};
  const int tokens = 50, top_k = 3;
  const auto picks = draw_routing(tokens, top_k, weights, [&] { return random.uniform(); });
  REQUIRE(picks.size() == 150);
  for (int t = 0; t < tokens; ++t)  // no expert twice for one token
    CHECK(
        std::set<std::int32_t>(picks.begin() + t * top_k, picks.begin() + (t + 1) * top_k).size() ==
        3);
  const auto sorted = sort_by_expert(picks, 8);
  CHECK(sorted.offsets.front() == 0);
  CHECK(sorted.offsets.back() == 150);
  for (std::size_t e = 0; e < 8; ++e)
    for (auto i = sorted.offsets[e]; i < sorted.offsets[e + 1]; ++i) {
      const auto row = sorted.rows[static_cast<std::size_t>(i)];
      CHECK(picks[static_cast<std::size_t>(row)] == static_cast<std::int32_t>(e));
      if (i > sorted.offsets[e]) CHECK(row > sorted.rows[static_cast<std::size_t>(i - 1)]);
    }
  CHECK(sorted.offsets[1] > sorted.offsets[8] - sorted.offsets[7]);  // the popular one has more
  CHECK(sort_by_expert({2, 2, 2}, 8).distinct() == 1);
}

TEST_CASE("bf16 rounds to the nearest, ties to the even code") {
  CHECK(to_bf16(1) == 0x3f80);
  CHECK(rounded_to_bf16(1 + 1.0 / 256) == 1);             // halfway to 1 + 1/128: the even code
  CHECK(rounded_to_bf16(1 + 3.0 / 256) == 1 + 1.0 / 64);  // between 1/128 (odd) and 2/128
  CHECK(rounded_to_bf16(-0.1) == -0.10009765625);         // -(2^-4) x 1.6015625
  CHECK(distance({3, 4}, {3, 4}) == 0);
  CHECK(distance({0, 0}, {3, 4}) == 1);
  CHECK(distance({3, 4.5}, {3, 4}) == Approx(0.1));  // 0.5 / 5
  CHECK(std::isinf(distance({std::nan("")}, {1})));
  CHECK(std::isinf(distance({1}, {1, 1})));
}

TEST_CASE("a power law of popularities touches as many experts as the measured tables did") {
  // aiconfigurator, 256 experts, 8 of them per token, exponent 1.01: 32 tokens touch about 129 of
  // 256; "balanced" touches all, independent uniform draws 163.
  RandomStream random(1, "routing");
  double distinct = 0;
  for (int draw = 0; draw < 40; ++draw) {
    const auto weights = power_law_weights(256, 32, 8, 1.01, [&] { return random.uniform(); });
    distinct += sort_by_expert(shared_routing(32, 8, weights), 256).distinct() / 40.0;
  }
  CHECK(distinct > 115);
  CHECK(distinct < 140);
  CHECK(sort_by_expert(balanced_routing(32, 8, 256, 5), 256).distinct() == 256);
  CHECK(balanced_routing(2, 2, 3, 2) == std::vector<std::int32_t>{2, 0, 1, 2});
}

TEST_CASE("popularities lie in their range, and the law is that of the exponent") {
  RandomStream random(2, "weights");
  const auto weights = power_law_weights(20000, 100000, 8, 2, [&] { return random.uniform(); });
  int below = 0;
  for (const double w : weights) {
    CHECK(w >= 1);
    CHECK(w <= 80000);  // 0.8 x 100,000
    below += w < 2;
  }
  CHECK(below == Approx(10000).epsilon(0.03));  // 1 - 1/2 of x^-2 lies below 2
}

TEST_CASE("a shared routing gives every token different experts and every expert its share") {
  RandomStream random(3, "shares");
  for (const int tokens : {1, 7, 64}) {
    const auto weights = power_law_weights(16, tokens, 4, 1.2, [&] { return random.uniform(); });
    const auto picks = shared_routing(tokens, 4, weights);
    REQUIRE(picks.size() == static_cast<std::size_t>(tokens * 4));
    for (int t = 0; t < tokens; ++t)
      CHECK(std::set<std::int32_t>(picks.begin() + t * 4, picks.begin() + (t + 1) * 4).size() == 4);
  }
  // 4 picks by 6 : 1 : 1 are 3, 0.5 and 0.5, at most 2 of each: 2, 1, 1
  const auto sorted = sort_by_expert(shared_routing(2, 2, {6, 1, 1}), 3);
  CHECK(sorted.offsets == std::vector<std::int32_t>{0, 2, 3, 4});
}

TEST_CASE("the most loaded rank keeps its own experts' rows and counts from its first") {
  // experts 0, 1 on rank 0 with 2 rows, experts 2, 3 on rank 1 with 4
  const auto rows = most_loaded_rank({3, 0, 2, 3, 1, 3}, 4, 2);
  CHECK(rows.offsets == std::vector<std::int32_t>{0, 1, 4});
  CHECK(rows.rows == std::vector<std::int32_t>{2, 0, 3, 5});
  CHECK(most_loaded_rank({3, 0, 2, 3, 1, 3}, 4, 1).rows ==
        sort_by_expert({3, 0, 2, 3, 1, 3}, 4).rows);
}

TEST_CASE("tiles cover every row once and never two experts") {
  const auto rows = sort_by_expert({1, 1, 1, 1, 1, 3, 3}, 4);
  const auto tiles = expert_tiles(rows, 2);  // 5 rows: 2 + 2 + 1; 2 rows: 2
  REQUIRE(tiles.size() == 4);
  CHECK(tiles[0].expert == 1);
  CHECK(tiles[2].first == 4);
  CHECK(tiles[2].rows == 1);
  CHECK(tiles[3].expert == 3);
  CHECK(tiles[3].first == 5);
}

TEST_CASE("a row in NVFP4 keeps codes of its blocks' scales") {
  Row row(32, 0);
  row[3] = 6;  // scale 1: 6 stays, 2.4 goes to 2 and -0.3 to -0.5
  row[4] = 2.4;
  row[5] = -0.3;
  row[17] = 0.75;  // scale 0.125: 6 x 0.125 = 0.75; 0.1 = 0.8 x 0.125 goes to 1 x 0.125
  row[18] = 0.1;
  const Row got = rounded_to_nvfp4(row);
  CHECK(got[3] == 6);
  CHECK(got[4] == 2);
  CHECK(got[5] == -0.5);
  CHECK(got[17] == 0.75);
  CHECK(got[18] == 0.125);
  CHECK(got[0] == 0);
  CHECK(rounded_to_nvfp4(got) == got);
}

TEST_CASE("RMSNorm of a sum has the root mean square of its weights") {
  // x + residual = 3, 4: mean square 12.5
  const Row got = rms_norm({1, 1}, {2, 3}, {1, 2});
  CHECK(got[0] == Approx(3 / std::sqrt(12.5)));
  CHECK(got[1] == Approx(2 * 4 / std::sqrt(12.5)));
}

TEST_CASE("an expert is down(silu(gate) x up)") {
  // hidden 1, inter 1, x = 2: gate 2 x 0.5 = 1, up 2 x 3 = 6, silu(1) = 0.7310586; x 6 = 4.386352;
  // bf16 of it 4.375 (steps of 1/32); down by 2: 8.75
  const Expert one{1, 1, false, 1, 1};
  const auto up = [](int n, int) { return n == 0 ? 0.5 : 3.0; };
  const auto down = [](int, int) { return 2.0; };
  CHECK(silu(1) == Approx(0.7310586).epsilon(1e-6));
  CHECK(one({2}, up, down) == Row{8.75});
  CHECK(Expert{1, 1, false, 1, 0.5}({2}, up, down) == Row{4.375});
}

TEST_CASE("latent attention weighs the first part of each key by the softmax of its score") {
  // scores 1 and 0 at scale 1: weights e / (e + 1) = 0.7310586 and 0.2689414
  const auto got = attend({1, 0, 1}, {{1, 10, 0}, {0, 20, 0}}, {{1, 10}, {0, 20}}, 2, 1);
  REQUIRE(got.size() == 2);
  CHECK(got[0] == Approx(0.7310586).epsilon(1e-6));
  CHECK(got[1] == Approx(7.310586 + 5.378828).epsilon(1e-6));
  // the third number counts in the score alone: 0.5 x (1 + 1) against 0 gives the same weights
  CHECK(attend({1, 0, 1}, {{1, 10, 1}, {0, 20, 0}}, {{1, 10, 1}, {0, 20, 0}}, 2, 0.5)[0] ==
        Approx(0.7310586).epsilon(1e-6));
  // equal keys give their value whatever the query; large scores do not overflow
  const auto same = attend({1e4, 1}, {{5, 7}, {5, 7}, {5, 7}}, {{5, 7}, {5, 7}, {5, 7}}, 2, 1);
  CHECK(same[0] == Approx(5));
  CHECK(same[1] == Approx(7));
}

TEST_CASE("an index score sums weighted positive products over heads") {
  // heads give 2, -1 and 3: 0.5 x 2 + 0 + (-1) x 3 = -2; times the key's scale 0.25
  CHECK(index_score({{2, 0}, {-1, 0}, {0, 3}}, {0.5, 10, -1}, {1, 1}, 0.25) == -0.5);
  CHECK(from_e4m3(0xb8) == -1);
  CHECK(from_e4m3(0x38) == 1);
}

TEST_CASE("the largest scores are recognised in any order, with any choice among equals") {
  const std::vector<float> scores{3, 1, 2, 2, 0};
  CHECK(are_largest(scores, {2, 0}, 2));
  CHECK(are_largest(scores, {0, 3}, 2));
  CHECK_FALSE(are_largest(scores, {0, 1}, 2));
  CHECK_FALSE(are_largest(scores, {0, 0}, 2));
  CHECK_FALSE(are_largest(scores, {0, 5}, 2));
  CHECK_FALSE(are_largest(scores, {0}, 2));
  CHECK_FALSE(are_largest(scores, {0, -1}, 2));
  CHECK(are_largest({4, 5}, {1, 0, -1}, 3));
  CHECK_FALSE(are_largest({4, 5}, {1, -1, -1}, 3));
}
