// Predicted copies beside those that owners of eleven boxes measured: scenarios/topology. The bars
// are those of `ceiling validate --topology`; the medians are what docs/models/topology.md states.

#include <cmath>
#include <map>

#include <catch2/catch.hpp>

#include "sim/scenario/topology_rows.hpp"
#include "tests/support/csv.hpp"
#include "tests/support/paths.hpp"

TEST_CASE("measured copies are met within the bar of their kind") {
  std::map<std::string, Errors> by_kind;
  for (const auto& file : repo_files("scenarios/topology", ".yaml")) {
    const auto lines = score_topology_file(file);
    if (!lines) FAIL(lines.error().render());
    for (const auto& line : *lines) {
      INFO(file << ", " << line.name << ": measured " << line.measured << ", predicted "
                << line.predicted);
      CHECK_FALSE(line.missed());
      if (line.left_out.empty() && line.unit == "GB/s")
        by_kind[line.kind].add(line.predicted, line.measured);
    }
  }
  REQUIRE(by_kind.size() == 5);
  for (auto& [kind, errors] : by_kind) {
    INFO(kind);
    CHECK(errors.median() <= (kind == "all_to_all" ? 0.15 : 0.03));
  }
}
