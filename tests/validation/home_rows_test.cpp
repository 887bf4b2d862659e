// The bars of the measured GLM-5.x rows on RTX PRO 6000 boxes; the rows ship with the project.

#include <algorithm>
#include <cmath>

#include <catch2/catch.hpp>

#include "sim/report/build_table.hpp"
#include "sim/scenario/predict.hpp"
#include "tests/support/paths.hpp"

namespace {

std::vector<BuildErrors> measured(const std::vector<Override>& overrides) {
  std::vector<RunReport> reports;
  for (const auto& file : repo_files("scenarios/measured", ".yaml")) {
    const auto scenarios = load_scenarios(file, overrides);
    if (!scenarios) FAIL(scenarios.error().render());
    for (const auto& scenario : *scenarios) {
      auto report = predict(scenario, {false, false, false});
      if (!report) FAIL(report.error().render());
      reports.push_back(std::move(*report));
    }
  }
  return errors_by_build(reports);
}

const BuildErrors& find(const std::vector<BuildErrors>& builds, const std::string& build,
                        RunKind kind) {
  const auto it = std::find_if(builds.begin(), builds.end(),
                               [&](const auto& b) { return b.build == build && b.kind == kind; });
  REQUIRE(it != builds.end());
  return *it;
}

}  // namespace

TEST_CASE("decode with two numbers a build: median at most 5 %, p90 at most 12 %") {
  const auto builds = measured({});
  const auto& all = find(builds, "all", RunKind::steady_decode);
  CHECK(all.errors.size() == 172);
  CHECK(all.left_out == 8);
  CHECK(all.median() <= 0.05);
  CHECK(all.p90() <= 0.12);
  for (const auto& b : builds) {
    if (b.kind != RunKind::steady_decode) continue;
    INFO(b.build);
    CHECK(b.median() <= 0.05);
    CHECK(b.p90() <= 0.12);
    CHECK(std::abs(b.bias()) <= 0.02);
  }
}

TEST_CASE("decode with nothing fitted and the served back end's tables: 8 % and 16 %") {
  const auto builds = measured({{"engine.fitted_constants", "off"}});
  auto both = find(builds, "sglang-2026-03-cutlass-sm120", RunKind::steady_decode);
  const auto& vllm = find(builds, "vllm-2026-05-cutlass-sm120", RunKind::steady_decode);
  both.errors.insert(both.errors.end(), vllm.errors.begin(), vllm.errors.end());
  CHECK(both.errors.size() == 37);
  CHECK(both.median() <= 0.08);
  CHECK(both.p90() <= 0.16);
  // Another back end's tables do not predict b12x: the report says so rather than hiding it.
  CHECK(find(builds, "vllm-2026-07-b12x-sm120", RunKind::steady_decode).median() > 0.2);
}

TEST_CASE("cold prefill with the channel count stated: median at most 8 %") {
  const auto builds = measured({});
  const auto& all = find(builds, "all", RunKind::cold_prefill);
  CHECK(all.errors.size() == 56);
  CHECK(all.median() <= 0.08);
  CHECK(all.p90() <= 0.20);
}
