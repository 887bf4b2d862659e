// The CPU references that CUDA kernels are checked against.

#include <set>

#include <catch2/catch.hpp>

#include "calibrate/reference/indices.hpp"
#include "calibrate/reference/nvfp4.hpp"
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
