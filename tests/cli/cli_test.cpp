// The real program, as a user runs it: what it prints where, and how it ends.

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include <catch2/catch.hpp>

#include "tests/support/process.hpp"

namespace {

using process::lines;
using process::Outcome;
using process::run;
using Json = nlohmann::json;

const std::string home = "scenarios/seed/32-at-8.yaml";

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::size_t width(const std::string& line) {
  // Of UTF-8, what is not a continuation byte takes a column.
  return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

void check_width(const std::string& text) {
  for (const auto& line : lines(text)) {
    INFO(line);
    CHECK(width(line) <= 100);
  }
}

/// The home scenario with some of its text replaced.
std::string scenario(std::vector<std::pair<std::string, std::string>> replaced = {}) {
  std::string text = process::read_text(process::source_root() / home);
  for (const auto& [from, to] : replaced) {
    const auto at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
  }
  return text;
}

// Bad input ends with 2, says what is wrong on stderr and prints no result.
void check_refused(const Outcome& o, const std::vector<std::string>& said) {
  INFO(o.err);
  CHECK(o.code == 2);
  CHECK(o.out.empty());
  for (const auto& part : said) {
    INFO("expected: " << part);
    CHECK(contains(o.err, part));
  }
}

void check_file_refused(const std::string& text, const std::string& place,
                        const std::vector<std::string>& said) {
  const process::TemporaryFolder folder;
  const auto file = folder.write("s.yaml", text);
  const Outcome o = run({"run", file});
  auto all = said;
  all.push_back(file + ":" + place + ": error: ");
  check_refused(o, all);
}

Json json_of(const Outcome& o) {
  INFO(o.err);
  REQUIRE((o.code == 0 || o.code == 1));
  return Json::parse(o.out);
}

void check_golden(const std::string& name, const std::string& text) {
  const auto file = process::source_root() / "tests/cli/golden" / (name + ".txt");
  if (const char* update = std::getenv("UPDATE_GOLDENS"); update && std::string(update) == "1") {
    std::ofstream(file, std::ios::binary) << text;
    WARN("recorded " << file.string());
  }
  CHECK(text == process::read_text(file));
}

const std::vector<std::string> commands = {"run",     "validate", "compare", "topology",
                                           "explain", "list",     "import"};

}  // namespace

// ---- help ----

TEST_CASE("without arguments ceiling introduces itself and its commands, with examples") {
  const Outcome o = run({});
  CHECK(o.code == 0);
  CHECK(o.err.empty());
  for (const auto& command : commands) CHECK(contains(o.out, "ceiling " + command));
  CHECK(run({"--help"}).out == o.out);
  CHECK(run({"help"}).out == o.out);
  check_golden("overview", o.out);
}

TEST_CASE("every help fits a screen of 24 lines and 100 columns and shows an example") {
  std::vector<std::vector<std::string>> helps = {{}};
  for (const auto& command : commands) helps.push_back({command, "--help"});
  for (const auto& arguments : helps) {
    const Outcome o = run(arguments);
    INFO(o.out);
    CHECK(o.code == 0);
    CHECK(o.err.empty());
    CHECK(lines(o.out).size() <= 24);
    check_width(o.out);
    if (!arguments.empty()) CHECK(contains(o.out, "example: ceiling " + arguments[0]));
  }
}

TEST_CASE("the examples of the help run") {
  for (const auto& line : lines(run({}).out)) {
    const auto at = line.find("  ceiling ");
    if (at == std::string::npos || contains(line, "COMMAND")) continue;
    std::vector<std::string> words;
    std::istringstream in(line.substr(at));
    std::string word;
    in >> word;
    while (in >> word) words.push_back(word);
    INFO(line);
    CHECK(run(words).code == 0);
  }
}

TEST_CASE("the version says which program made a result") {
  const Outcome o = run({"--version"});
  CHECK(o.code == 0);
  CHECK(o.out.rfind("ceiling 0.", 0) == 0);
}

// ---- bad usage ----

TEST_CASE("an unknown command or option is refused with the nearest one") {
  check_refused(run({"rum", home}), {"no command 'rum'", "did you mean 'run'?"});
  check_refused(run({"run", home, "--sett", "a=1"}), {"--sett", "did you mean '--set'?"});
  check_refused(run({"run", home, "--format", "xml"}), {"xml", "table", "json"});
  check_refused(run({"run"}), {"FILE", "ceiling run --help"});
  check_refused(run({"compare"}), {"WHAT", "ceiling compare --help"});
}

TEST_CASE("a --set that is not PATH=VALUE or names nothing is refused") {
  check_refused(run({"run", home, "--set", "engine.cuda_graph"}),
                {"'engine.cuda_graph' is not an override", "PATH=VALUE"});
  check_refused(run({"run", home, "--set", "engin.cuda_graph=on"}),
                {"nothing to set at 'engin.cuda_graph'", "did you mean 'engine'?"});
  check_refused(run({"run", home, "--set", "engine.cuda_grap=on"}),
                {"unknown key 'cuda_grap' in engine", "did you mean 'cuda_graph'?"});
  check_refused(run({"run", home, "--set", "engine.cuda_graph=[on"}), {"not YAML"});
  check_refused(run({"compare", home, "+engine.cuda_graph"}), {"is not a change", "+PATH=VALUE"});
}

// ---- bad scenarios ----

TEST_CASE("an unknown key is refused at its place with the nearest known one") {
  check_file_refused(scenario({{"tensor_parallel", "tensor_paralel"}}), "8:3",
                     {"unknown key 'tensor_paralel' in engine", "did you mean 'tensor_parallel'?",
                      "  tensor_paralel: 8"});
  check_file_refused(scenario({{"machine:", "machin:"}}), "3:1",
                     {"unknown key 'machin' in the scenario", "did you mean 'machine'?"});
}

TEST_CASE("a missing, a wrong and a misplaced unit are refused with those that fit") {
  check_file_refused(scenario({{"8 /s", "8"}}), "16:17", {"'8' needs a unit", "write '8 /s'"});
  check_file_refused(scenario({{"8 /s", "8 GB/s"}}), "16:17",
                     {"'GB/s' is not a unit of a rate", "units: /s"});
  check_file_refused(scenario({{"input_tokens: 256", "input_tokens: 256 GB"}}), "13:17",
                     {"'256 GB' is not a whole number"});
}

TEST_CASE("a key that appears twice is refused") {
  check_file_refused(scenario({{"  requests: 32\n", "  requests: 32\n  requests: 64\n"}}), "16:3",
                     {"'requests' appears twice", "remove one"});
}

TEST_CASE("a model that does not fit is refused with the sum") {
  check_file_refused(scenario({{"tensor_parallel: 8", "tensor_parallel: 4"}}), "8:20",
                     {"does not fit", "at TP4", "95.6 GiB", "weights (", "left for the KV cache",
                      "try tensor_parallel: 8"});
}

TEST_CASE("a tensor parallel size that divides nothing or exceeds the GPUs is refused") {
  check_file_refused(scenario({{"tensor_parallel: 8", "tensor_parallel: 3"}}), "8:20",
                     {"3 does not divide the 64 attention heads", "possible here: 1, 2, 4, 8"});
  check_file_refused(scenario({{"tensor_parallel: 8", "tensor_parallel: 16"}}), "8:20",
                     {"the machine has 8 GPUs", "possible here: 1, 2, 4, 8"});
}

TEST_CASE("a rate of zero, below zero or too low for the clock is refused") {
  check_file_refused(scenario({{"8 /s", "0 /s"}}), "16:17", {"must be greater than zero"});
  check_file_refused(scenario({{"8 /s", "-8 /s"}}), "16:17", {"must be greater than zero"});
  check_file_refused(scenario({{"8 /s", "1e-9 /s"}}), "16:17", {"days", "higher rate"});
}

TEST_CASE("a chunk that is no whole number of pages is refused") {
  check_file_refused(
      scenario({{"tensor_parallel: 8", "tensor_parallel: 8\n  chunked_prefill_size: 100"}}), "9:25",
      {"not a whole number of pages of 64", "try 128"});
}

TEST_CASE("constants that are no map, or name nothing, are refused") {
  check_file_refused(scenario() + "constants: 3\n", "19:12", {"constants must map"});
  check_file_refused(scenario() + "constants: { machine.hos.kernel_launch: 3 us }\n", "19:14",
                     {"no constant 'machine.hos.kernel_launch'", "paths start with"});
}

TEST_CASE("a missing file is refused, with the nearest that exists") {
  check_refused(
      run({"run", "scenarios/seed/32-at-9.yaml"}),
      {"no file 'scenarios/seed/32-at-9.yaml'", "did you mean 'scenarios/seed/32-at-8.yaml'?"});
  check_refused(run({"run", "nowhere/nothing.yaml"}), {"no file 'nowhere/nothing.yaml'"});
  check_refused(run({"validate", "nowhere"}), {"no file 'nowhere'"});
}

TEST_CASE("an unknown machine, model, build or engine is refused with the nearest known one") {
  check_file_refused(
      scenario({{"8x-rtx-pro-6000-kvm", "8x-rtx-pro-6000-kvn"}}), "3:10",
      {"no '8x-rtx-pro-6000-kvn' in machines", "did you mean '8x-rtx-pro-6000-kvm'?"});
  check_file_refused(scenario({{"glm-5-nvfp4", "glm-5-nvfp5"}}), "4:8",
                     {"no 'glm-5-nvfp5'", "did you mean 'glm-5-nvfp4'?"});
  check_file_refused(scenario({{"sglang-0.5.9-sm120", "sglang-0.5.9-sm12"}}), "7:10",
                     {"no 'sglang-0.5.9-sm12' in builds", "did you mean 'sglang-0.5.9-sm120'?"});
  check_file_refused(scenario({{"kind: sglang", "kind: sglan"}}), "6:9",
                     {"'sglan' is not a valid kind", "did you mean 'sglang'?"});
}

TEST_CASE("an expectation of an unknown metric is refused with the nearest known one") {
  check_file_refused(scenario({{"output_throughput:", "output_throughputs:"}}), "18:3",
                     {"unknown metric 'output_throughputs'", "did you mean 'output_throughput'?"});
}

TEST_CASE("what is no YAML is refused at the place where it stops being one") {
  const process::TemporaryFolder folder;
  for (const char* text : {"schema: [1\nmachine: x\n", "a: b: c\n", "a: {b: 1\n"}) {
    const auto file = folder.write("s.yaml", text);
    check_refused(run({"run", file}), {"this is not YAML", file + ":"});
  }
  check_refused(run({"run", folder.write("list.yaml", "- 1\n")}), {"a scenario is a map"});
  check_refused(run({"run", folder.write("empty.yaml", "")}), {"the scenario needs 'machine'"});
}

TEST_CASE("all errors of a file are reported at once, in the order of the text") {
  const Outcome o = run({"run", "tests/cli/many-errors.yaml"});
  check_refused(o, {"errors; nothing was run"});
  std::vector<int> at;
  for (const auto& line : lines(o.err))
    if (line.rfind("tests/cli/many-errors.yaml:", 0) == 0) at.push_back(std::stoi(line.substr(27)));
  CHECK(at.size() >= 8);
  CHECK(std::is_sorted(at.begin(), at.end()));
  check_golden("many-errors", o.err);
}

TEST_CASE("errors in several files of a folder are all reported and nothing is run") {
  const process::TemporaryFolder folder;
  folder.write("a.yaml", scenario({{"8 /s", "8"}}));
  folder.write("b.yaml", scenario());
  folder.write("c.yaml", scenario({{"machine:", "machin:"}}));
  check_refused(run({"validate", folder.path().string()}), {"c.yaml:3:1"});
}

// ---- results ----

TEST_CASE("JSON has the fields of the contract") {
  const Json j = json_of(run({"run", home, "--format", "json"}));
  CHECK(j.at("schema") == 1);
  for (const char* key : {"version", "seed", "scenario_hash", "tables"})
    CHECK(j.at("context").contains(key));
  CHECK(j.at("context").at("seed") == 1);
  CHECK(j.at("context").at("tables").size() == 1);
  REQUIRE(j.at("results").size() == 1);
  const Json& r = j.at("results").at(0);
  CHECK(r.at("name") == "32-at-8");
  CHECK(r.at("settings").is_object());
  const Json& m = r.at("metrics");
  for (const char* key :
       {"output_throughput", "total_throughput", "request_throughput", "duration_s", "completed",
        "concurrency", "server_decode_throughput_peak"})
    CHECK(m.at(key).get<double>() > 0);
  for (const char* latency : {"ttft_ms", "tpot_ms", "itl_ms", "e2e_ms"})
    for (const char* part : {"mean", "p50", "p90", "p99"})
      CHECK(m.at(latency).at(part).get<double>() > 0);
  CHECK(m.at("completed") == 32);
  double share = 0;
  for (const auto& b : r.at("breakdown")) {
    for (const char* key : {"operator", "resource", "share", "provenance"}) CHECK(b.contains(key));
    share += b.at("share").get<double>();
  }
  CHECK(share == Approx(1).epsilon(1e-9));
  CHECK(r.at("ceilings").size() >= 3);
  for (const auto& c : r.at("ceilings")) {
    CHECK(c.contains("resource"));
    CHECK(c.at("output_throughput").get<double>() >= m.at("output_throughput").get<double>());
  }
  REQUIRE(r.at("expect").size() == 1);
  const Json& e = r.at("expect").at(0);
  CHECK(e.at("metric") == "output_throughput");
  CHECK(e.at("measured") == 144);
  CHECK(e.at("predicted") == m.at("output_throughput"));
  CHECK(e.at("error").get<double>() ==
        Approx(e.at("predicted").get<double>() / 144 - 1).epsilon(1e-9));
  for (const auto& i : r.at("intervals")) {
    CHECK(i.at("low").get<double>() <= i.at("value").get<double>());
    CHECK(i.at("high").get<double>() >= i.at("value").get<double>());
  }
}

TEST_CASE("the table has what the JSON says") {
  const Json j = json_of(run({"run", home, "--format", "json"}));
  const Outcome o = run({"run", home});
  CHECK(o.code == 0);
  CHECK(o.err.empty());
  const Json& r = j.at("results").at(0);
  std::string words;  // the text without its line breaks
  for (const auto& line : lines(o.out))
    words += " " + line.substr(std::min(line.find_first_not_of(' '), line.size()));
  for (const auto& b : r.at("breakdown")) CHECK(contains(words, b.at("operator")));
  for (const auto& c : r.at("ceilings")) CHECK(contains(words, c.at("resource")));
  const auto throughput =
      std::to_string(std::lround(r.at("metrics").at("output_throughput").get<double>()));
  CHECK(contains(o.out, throughput));
  CHECK(contains(o.out, "144"));
}

TEST_CASE("tables are at most 100 columns wide") {
  check_width(run({"run", home}).out);
  check_width(run({"run", "scenarios/seed/64-at-16.yaml"}).out);
  check_width(run({"run", "scenarios/what-if/cuda-graphs-and-p2p.yaml"}).out);
  check_width(run({"validate", "scenarios"}).out);
  check_width(run({"list"}).out);
  check_width(run({"explain", "--model", "glm-5-nvfp4"}).out);
}

TEST_CASE("the same command prints the same bytes") {
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {"run", home}, {"run", home, "--format", "json"}, {"validate", "scenarios/seed"}}) {
    const Outcome a = run(arguments), b = run(arguments);
    CHECK(a.out == b.out);
    CHECK_FALSE(a.out.empty());
  }
}

TEST_CASE("however many threads, a run prints the same bytes") {
  for (const char* scenario :
       {"scenarios/seed/64-at-16.yaml", "scenarios/measured/llama-3.1-8b.yaml"}) {
    std::vector<std::string> outputs;
    for (const char* threads : {"1", "2", "5"}) {
      const process::Variable set("CEILING_THREADS", threads);
      outputs.push_back(run({"run", scenario, "--format", "json"}).out);
    }
    CHECK(outputs[0].size() > 1000);
    CHECK(outputs[1] == outputs[0]);
    CHECK(outputs[2] == outputs[0]);
  }
}

TEST_CASE("a result does not depend on the folder in which the command runs") {
  // The absolute path of the scenario is in the output, so compare what was predicted.
  const Json here = json_of(run({"run", home, "--format", "json"}));
  const Json there =
      json_of(run({"run", (process::source_root() / home).string(), "--format", "json"}));
  CHECK(here.at("results").at(0).at("metrics") == there.at("results").at(0).at("metrics"));
  CHECK(here.at("context").at("scenario_hash") == there.at("context").at("scenario_hash"));
}

TEST_CASE("--dry-run lists every value with its origin and runs nothing") {
  const Outcome o = run({"run", home, "--dry-run", "--set", "engine.max_running_requests=16"});
  CHECK(o.code == 0);
  std::set<std::string> seen;
  for (const auto& line : lines(o.out)) {
    std::istringstream in(line);
    std::string path;
    in >> path;
    seen.insert(path);
    if (path == "workload.request_rate") CHECK(contains(line, home + ":16:17"));
    if (path == "engine.max_running_requests")
      CHECK(contains(line, "--set engine.max_running_requests=16"));
    if (path == "workload.seed") CHECK(contains(line, "default"));
    if (path == "gpu.memory_bandwidth") CHECK(contains(line, "rtx-pro-6000-server.yaml:"));
  }
  for (const char* path : {"workload.request_rate", "engine.max_running_requests", "workload.seed",
                           "gpu.memory_bandwidth", "build.host.dispatch.value"})
    CHECK(seen.count(path) == 1);
  CHECK_FALSE(contains(o.out, "tok/s"));
}

TEST_CASE("a loop that waits for results is asked what an asynchronous one would bring") {
  const auto what_ifs = [](const std::vector<std::string>& set) {
    std::vector<std::string> arguments = {"run", home, "--format", "json"};
    for (const auto& change : set) arguments.insert(arguments.end(), {"--set", change});
    std::map<std::string, double> out;
    const Json report = json_of(run(arguments));
    for (const Json& w : report.at("results").at(0).at("what_ifs"))
      out[w.at("change")] = w.at("ratio");
    return out;
  };
  const std::string asked = "engine.disable_overlap_schedule=off";
  CHECK(what_ifs({}).count(asked) == 0);
  const auto waits = what_ifs({"engine.disable_overlap_schedule=on"});
  REQUIRE(waits.count(asked) == 1);
  CHECK(waits.at(asked) > 1.0);
  CHECK(waits.at(asked) < 1.5);
}

TEST_CASE("--set overrides one value of a scenario") {
  const auto metrics = [](const std::vector<std::string>& extra) {
    std::vector<std::string> arguments = {"run", home, "--format", "json"};
    arguments.insert(arguments.end(), extra.begin(), extra.end());
    return json_of(run(arguments)).at("results").at(0).at("metrics");
  };
  CHECK(metrics({"--set", "workload.requests=5"}).at("completed") == 5);
  const auto both =
      metrics({"--set", "workload.requests=6", "--set", "engine.max_running_requests=2"});
  CHECK(both.at("completed") == 6);
  CHECK(both.at("batch_max") == 2);
}

TEST_CASE("a constant is one key with dots, in constants, in a point and behind --set") {
  const auto tpot = [&](const std::string& file, const std::vector<std::string>& extra) {
    std::vector<std::string> arguments = {"run", file, "--format", "json"};
    arguments.insert(arguments.end(), extra.begin(), extra.end());
    std::vector<double> out;
    const Json report = json_of(run(arguments));
    for (const Json& result : report.at("results"))
      out.push_back(result.at("metrics").at("tpot_ms").at("mean"));
    return out;
  };
  const process::TemporaryFolder folder;
  const std::string slow = "machine.host.kernel_launch: 20 us";
  const auto plain = tpot(folder.write("a.yaml", scenario()), {}).at(0);
  const auto stated =
      tpot(folder.write("b.yaml", scenario() + "constants: { " + slow + " }\n"), {}).at(0);
  CHECK(stated > plain);
  const auto point = folder.write("c.yaml", scenario() +
                                                "constants: { gpu.sm_count: 188 }\n"
                                                "points: [{ constants." +
                                                slow + " }]\n");
  CHECK(tpot(point, {}) == std::vector{plain, stated});
  CHECK(tpot(point, {"--set", "constants.machine.host.kernel_launch=20 us"}) ==
        std::vector{stated, stated});
  check_refused(run({"run", home, "--set", "constants.machine.host.launch=20 us"}),
                {"there is no constant 'machine.host.launch'"});
}

TEST_CASE("points expand into one run each, with expectations of their own") {
  const process::TemporaryFolder folder;
  const auto file = folder.write(
      "s.yaml",
      scenario() +
          "points:\n"
          "  - { workload.requests: 4 }\n"
          "  - { name: five, workload.requests: 5, expect: { completed: { value: 5 } } }\n");
  const Json j = json_of(run({"run", file, "--format", "json"}));
  REQUIRE(j.at("results").size() == 3);
  CHECK(j.at("results").at(0).at("metrics").at("completed") == 32);
  CHECK(j.at("results").at(0).at("expect").size() == 1);
  CHECK(j.at("results").at(1).at("metrics").at("completed") == 4);
  CHECK(j.at("results").at(1).at("expect").empty());
  CHECK(j.at("results").at(1).at("name") == "s [2]");
  CHECK(j.at("results").at(2).at("metrics").at("completed") == 5);
  CHECK(j.at("results").at(2).at("expect").at(0).at("error") == 0);
  CHECK(j.at("results").at(2).at("name") == "s [five]");
  std::set<Json> hashes;
  for (const auto& r : j.at("results")) hashes.insert(r.at("scenario_hash"));
  CHECK(hashes.size() == 3);
}

TEST_CASE("validate passes when all bars hold, and fails with 1 when one does not") {
  const Outcome good = run({"validate", home});
  CHECK(good.code == 0);
  CHECK(contains(good.out, "1 of 1 judged values within their bar"));
  const process::TemporaryFolder folder;
  const auto bad = folder.write("bad.yaml", scenario({{"144 tok/s", "9999 tok/s"}}));
  const Outcome miss = run({"validate", bad});
  CHECK(miss.code == 1);
  CHECK(contains(miss.out, "MISS"));
  CHECK(contains(miss.out, "0 of 1 judged"));
  CHECK(run({"run", bad}).code == 1);
}

TEST_CASE("validate takes folders and files, in order, and judges only what has a bar") {
  const process::TemporaryFolder folder;
  folder.write("b.yaml", scenario({{", within: 15 %", ""}, {"144 tok/s", "9999 tok/s"}}));
  folder.write("sub/a.yaml", scenario());
  folder.write("notes.txt", "not a scenario");
  const Outcome o = run({"validate", folder.path().string(), home});
  CHECK(o.code == 0);
  CHECK(contains(o.out, "2 of 2 judged"));
  CHECK(contains(o.out, "not judged"));
  CHECK(contains(o.out, "9,999"));
  const Json j = json_of(run({"validate", folder.path().string(), home, "--format", "json"}));
  REQUIRE(j.at("results").size() == 3);
  CHECK(j.at("results").at(0).at("name") == "b");
  CHECK(j.at("results").at(1).at("name") == "a");
  CHECK(j.at("results").at(2).at("name") == "32-at-8");
}

TEST_CASE("measured transfers between GPUs are validated against their machines") {
  const auto o = run({"validate", "--topology", "scenarios/topology"});
  INFO(o.out << o.err);
  CHECK(o.code == 0);
  CHECK(contains(o.out, "rows judged, every bar held"));
  check_width(o.out);
  const auto json = Json::parse(
      run({"validate", "--topology", "scenarios/topology/t04.yaml", "--format", "json"}).out);
  CHECK(json["rows"].size() > 5);
  CHECK(json["kinds"][0]["bar"].get<double>() > 0);

  const process::TemporaryFolder folder;
  const std::string row =
      "schema: 1\nmachine: T04\nrows:\n  - {kind: single, flows: 0>1, measured: ";
  CHECK(run({"validate", "--topology", folder.write("far.yaml", row + "9 GB/s}\n")}).code == 1);
  check_refused(run({"validate", "--topology", folder.write("bad.yaml", row + "9}\n")}),
                {"bad.yaml:4:"});
  check_refused(run({"validate", "--topology", "nowhere"}), {"no file 'nowhere'"});
}

TEST_CASE("compare shows each change alone and all of them together") {
  const std::vector<std::string> arguments = {"compare", home, "+engine.cuda_graph=on",
                                              "+machine_edits.p2p=on"};
  const Outcome o = run(arguments);
  CHECK(o.code == 0);
  for (const char* part :
       {"32-at-8", "+engine.cuda_graph=on", "+machine_edits.p2p=on", "+all of these", "1.00 x"})
    CHECK(contains(o.out, part));
  check_width(o.out);
  auto with_json = arguments;
  with_json.insert(with_json.end(), {"--format", "json"});
  const Json j = json_of(run(with_json));
  REQUIRE(j.at("results").size() == 4);
  const auto throughput = [&](std::size_t i) {
    return j.at("results").at(i).at("metrics").at("output_throughput").get<double>();
  };
  CHECK(throughput(1) > throughput(0));
  CHECK(throughput(2) > throughput(0));
  CHECK(throughput(3) > throughput(1));
  // The base of a comparison is what run says of it.
  CHECK(throughput(0) == json_of(run({"run", home, "--format", "json"}))
                             .at("results")
                             .at(0)
                             .at("metrics")
                             .at("output_throughput"));
}

TEST_CASE("the data are found from a folder of the project, and missed with one reason elsewhere") {
  // a program away from the project, as when it is installed or built elsewhere
  const process::TemporaryFolder away;
  std::filesystem::copy_file(process::binary(), away.path() / "ceiling");
  const process::Variable binary("CEILING_BINARY", (away.path() / "ceiling").string()),
      data("CEILING_DATA", "");
  const auto within = process::source_root() / "scenarios" / "seed";
  CHECK(process::run_in(within, {"run", "64-at-16.yaml", "--dry-run"}).code == 0);
  const auto scenario = (within / "64-at-16.yaml").string();
  const Outcome nowhere = process::run_in(away.path(), {"run", scenario});
  CHECK(nowhere.code == 2);
  CHECK(contains(nowhere.err, "no data folder found while looking for '8x-rtx-pro-6000-kvm'"));
  CHECK(contains(nowhere.err, "no data folder found while looking for 'glm-5-nvfp4'"));
  CHECK(contains(nowhere.err, "set CEILING_DATA to the folder"));
}

TEST_CASE("compare takes several scenario files") {
  const Json j =
      json_of(run({"compare", home, "scenarios/seed/64-at-16.yaml", "--format", "json"}));
  REQUIRE(j.at("results").size() == 2);
  CHECK(j.at("results").at(1).at("name") == "64-at-16");
}

TEST_CASE("list and explain know what the data folders hold") {
  const Outcome list = run({"list"});
  CHECK(list.code == 0);
  for (const char* name : {"glm-5-nvfp4", "8x-rtx-pro-6000-kvm", "rtx-pro-6000-server",
                           "sglang-0.5.9-sm120", "bench_serving", "p2p"})
    CHECK(contains(list.out, name));
  const Outcome explain = run({"explain", "--model", "glm-5-nvfp4"});
  CHECK(explain.code == 0);
  // 157 all-reduces: one after the embedding and two in each of 78 layers
  CHECK(contains(explain.out, "157 all-reduces"));
  CHECK(contains(explain.out, "100,152"));
  check_refused(run({"explain", "--model", "glm-5-nvfp5"}), {"did you mean 'glm-5-nvfp4'?"});
  check_refused(run({"explain", "--model", "glm-5-nvfp4", "--tp", "3"}), {"does not divide"});
}
