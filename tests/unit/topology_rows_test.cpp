// Files of measured transfers, and what is wrong with one.

#include "sim/scenario/topology_rows.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/process.hpp"

namespace {

const std::string head = "schema: 1\nmachine: T04\nrows:\n";

Expected<std::vector<TopologyLine>> score(const std::string& text) {
  const process::TemporaryFolder folder;
  return score_topology_file(folder.write("rows.yaml", text));
}

std::string errors(const std::string& text) {
  const auto lines = score(text);
  return lines ? "" : lines.error().render();
}

}  // namespace

TEST_CASE("a row is predicted on its machine, what is left out is not judged") {
  const auto lines = score(head +
                           "  - {kind: single, flows: 0>1, measured: 53.4 GB/s}\n"
                           "  - {kind: paired, name: far, flows: [0>4, 1>5], measured: 10 GB/s}\n"
                           "  - {kind: single, flows: 0>1, measured: 99 GB/s, left_out: why not}\n"
                           "  - {kind: single, flows: 0>1, p2p: off, measured: 27 GB/s}\n");
  REQUIRE(lines);
  REQUIRE(lines->size() == 4);
  CHECK((*lines)[0].machine == "T04");
  CHECK((*lines)[0].name == "0>1");
  CHECK((*lines)[0].predicted == Approx(53.8));
  CHECK_FALSE((*lines)[0].missed());
  CHECK((*lines)[1].name == "far");
  CHECK((*lines)[1].missed());
  CHECK((*lines)[1].limit == "switch0 > root0");
  CHECK_FALSE((*lines)[2].missed());
  CHECK((*lines)[3].predicted == Approx(26.9));  // half of 53.8: down and up in turn

  const TopologyReport report{*lines};
  CHECK(report.missed() == 1);
  const auto table = render_topology_errors(report);
  CHECK(table.find("bars missed") != std::string::npos);
  CHECK(table.find("held by switch0 > root0") != std::string::npos);
  const auto json = nlohmann::json::parse(topology_errors_to_json(report));
  REQUIRE(json["rows"].size() == 4);
  CHECK(json["rows"][1]["error"].get<double>() == Approx(53.8 / 10 - 1));
  CHECK(json["rows"][2]["left_out"] == "why not");
  CHECK(json["kinds"][1]["kind"] == "single");
  CHECK(json["kinds"][1]["rows"] == 2);
}

TEST_CASE("a copy through a memory that is not there is refused") {
  const process::TemporaryFolder folder;
  folder.write("box.yaml",
               "schema: 1\nname: x\ngpu: h100\nreserved: 1 GiB\np2p: on\nhost: bare-metal\n"
               "topology:\n  devices: {gpu0..1: gpu, r: root_complex}\n"
               "  links: [{between: [gpu0..1, r], bandwidth: 50 GB/s}]\n");
  const auto check = [&](const std::string& row) {
    const auto lines = score_topology_file(
        folder.write("rows.yaml",
                     "schema: 1\nmachine: ./box.yaml\nrows:\n  - {kind: single, "
                     "measured: 50 GB/s, " +
                         row + "}\n"));
    return lines ? std::string() : lines.error().render();
  };
  CHECK(check("flows: 0>1") == "");
  for (const char* row : {"flows: host>1", "flows: 0>host", "flows: 0>1, p2p: off"})
    CHECK(check(row).find("the machine has none") != std::string::npos);
}

TEST_CASE("every mistake in a file of rows is reported at its place") {
  const auto text = errors(head +
                           "  - {kind: singel, flows: 0>1, measured: 5 GB/s}\n"
                           "  - {kind: single, flows: [0>1, 0>9], measured: 5 GB/s}\n"
                           "  - {kind: single, flows: 0>1, measured: 5}\n"
                           "  - {kind: single, measured: 5 GB/s}\n"
                           "  - {kind: single, flows: 0>1, measured: 5 GB/s, p2q: off}\n");
  INFO(text);
  for (const char* words :
       {"rows.yaml:4:12: error: 'singel' is not a valid kind", "did you mean 'single'?",
        "rows.yaml:5:33: error: there is no GPU 9", "the machine has GPUs 0 to 7",
        "rows.yaml:6:", "rows.3 needs 'flows'", "unknown key 'p2q'"})
    CHECK(text.find(words) != std::string::npos);
  CHECK(errors("schema: 1\nmachine: T99\nrows: []\n").find("there is no 'T99' in machines") !=
        std::string::npos);
  CHECK(errors("schema: 1\nmachine: T04\nrows: []\n").find("there are no rows") !=
        std::string::npos);
  CHECK(errors("schema: 1\nrows: {}\n").find("needs 'machine'") != std::string::npos);
  CHECK(errors("- 1\n").find("must be a map") != std::string::npos);
}
