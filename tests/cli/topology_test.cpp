// `ceiling topology`: every form of it, as a user runs it.

#include <nlohmann/json.hpp>
#include <set>

#include <catch2/catch.hpp>

#include "hardware/machine.hpp"
#include "sim/scenario/machine_file.hpp"
#include "sim/scenario/transfer_text.hpp"
#include "tests/support/process.hpp"

namespace {

using process::lines;
using process::Outcome;
using Json = nlohmann::json;

Outcome topology(std::vector<std::string> words) {
  words.insert(words.begin(), "topology");
  return process::run(words);
}

std::string shown(const std::vector<std::string>& words) {
  const Outcome o = topology(words);
  INFO(o.err);
  CHECK(o.code == 0);
  CHECK(o.err.empty());
  for (const auto& line : lines(o.out)) {
    INFO(line);
    CHECK(line.size() <= 100);
  }
  return o.out;
}

Json json(std::vector<std::string> words) {
  words.insert(words.end(), {"--format", "json"});
  const Outcome o = topology(words);
  INFO(o.err);
  REQUIRE(o.code == 0);
  return Json::parse(o.out);
}

void check_refused(const std::vector<std::string>& words, const std::vector<std::string>& said,
                   std::size_t errors) {
  const Outcome o = topology(words);
  INFO(o.err);
  CHECK(o.code == 2);
  CHECK(o.out.empty());
  for (const auto& part : said) {
    INFO("expected: " << part);
    CHECK(o.err.find(part) != std::string::npos);
  }
  std::size_t found = 0;
  for (const auto& line : lines(o.err)) found += line.find(": error: ") != std::string::npos;
  CHECK(found == errors);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a machine is shown by name, topology id in any case, and path, with the next command") {
  const std::string by_id = shown({"T04"});
  for (const char* part : {"8x RTX PRO 6000 (2 switches), topology T04", "gpu0..3", "PIX", "NODE",
                           "53.8", "NCCL 2.27.7", "LL below", "switch0 > root0",
                           "next   ceiling topology T04 --collective all_reduce"})
    CHECK(contains(by_id, part));
  const auto body = [](const std::string& text) { return text.substr(0, text.find("\nnext ")); };
  CHECK(body(shown({"t04"})) == body(by_id));
  CHECK(body(shown({"8x-rtx-pro-6000-2-switches"})) == body(by_id));
  CHECK(body(shown({"hardware/machines/8x-rtx-pro-6000-2-switches.yaml"})) == body(by_id));
}

TEST_CASE("every next command that the screens name runs") {
  const std::vector<std::vector<std::string>> asked = {
      {"T04"},
      {"8x-rtx-pro-6000-kvm"},
      {"1x-h100"},
      {"T04", "--edit", "p2p=off", "--flows", "0>4,1>5"},
      {"8x-rtx-pro-6000-kvm", "--collective", "all_reduce"},
      {"hgx-h200", "--collective", "all_reduce", "--kernel", "custom"},
      {"T04", "--route", "0,host"},
      {"1x-h100", "--flows", "0<>host"},
      {"T04", "--edit", "link={from: gpu0, bandwidth: 26 GB/s}"}};
  for (const auto& words : asked) {
    const auto all = lines(shown(words));
    REQUIRE_FALSE(all.empty());
    const std::string start = "next   ceiling topology ";
    INFO(all.back());
    REQUIRE(all.back().rfind(start, 0) == 0);
    std::vector<std::string> next = {""};
    bool quoted = false;
    for (const char c : all.back().substr(start.size())) {
      if (c == '\'')
        quoted = !quoted;
      else if (c == ' ' && !quoted)
        next.emplace_back();
      else
        next.back() += c;
    }
    CHECK(topology(next).code == 0);
  }
}

TEST_CASE("the JSON of a machine has its graph, its matrices and NCCL's outlook") {
  const Json j = json({"T02"});
  CHECK(j.at("machine").at("topology_id") == "T02");
  std::set<std::string> devices;
  int gpus = 0;
  for (const auto& d : j.at("devices")) {
    devices.insert(d.at("name").get<std::string>());
    gpus += d.at("kind") == "gpu";
  }
  CHECK(gpus == 8);
  for (const auto& l : j.at("links")) {
    CHECK(devices.count(l.at("from").get<std::string>()) == 1);
    CHECK(devices.count(l.at("to").get<std::string>()) == 1);
    for (const char* key : {"kind", "bandwidth_GBs", "back_GBs", "latency_ns", "gen", "lanes"})
      CHECK(l.contains(key));
  }
  for (const char* name : {"unidirectional_p2p_on", "unidirectional_p2p_off",
                           "bidirectional_p2p_on", "bidirectional_p2p_off"}) {
    const Json& m = j.at("matrices").at(name);
    REQUIRE(m.size() == 8);
    for (std::size_t a = 0; a < 8; ++a)
      for (std::size_t b = 0; b < 8; ++b) CHECK(m[a][b] == m[b][a]);
  }
  // cards on different sockets: 38.2 GB/s between a pair of root ports
  CHECK(j.at("matrices").at("unidirectional_p2p_on")[0][4].get<double>() == Approx(38.2));
  CHECK(j.at("matrices").at("class")[0][4] == "SYS");
  CHECK(j.at("nccl").at("transports").at("SYS") == Json::array({"SHM"}));
  CHECK(j.at("nccl").at("ring").at("transport") == "SHM");
}

TEST_CASE("--full prints the matrices, --format dot a graph, and edits change both") {
  const std::string full = shown({"T06", "--full"});
  for (const char* title : {"unidirectional, P2P on", "unidirectional, P2P off",
                            "bidirectional, P2P on", "bidirectional, P2P off", "latency, P2P off"})
    CHECK(contains(full, title));
  const std::string dot = topology({"T04", "--format", "dot"}).out;
  CHECK(dot.rfind("graph \"", 0) == 0);
  CHECK(contains(dot, "\"gpu0\" -- \"switch0\""));
  CHECK(contains(shown({"T04", "--edit", "p2p=off"}), "P2P off"));
  CHECK(json({"1x-h100", "--edit", "gpus=4"}).at("machine").at("gpus") == 4);
}

TEST_CASE("one GPU has host links and nothing between GPUs") {
  const std::string text = shown({"1x-h100"});
  CHECK(contains(text, "nothing between GPUs"));
  CHECK(contains(text, "GPUs and host memory"));
  CHECK_FALSE(contains(text, "NCCL"));
  const Json j = json({"1x-h100"});
  CHECK(j.at("nccl").is_null());
  CHECK(j.at("host").at("to_GBs").size() == 1);
}

TEST_CASE("a route names each hop, direct and staged, and which one is taken") {
  const std::string text = shown({"T04", "--route", "gpu0,gpu5"});
  for (const char* part : {"gpu0 > switch0", "switch0 > root0", "switch1 > gpu5", "memory0 > numa0",
                           "not taken: P2P is on"})
    CHECK(contains(text, part));
  const Json j = json({"8x-rtx-pro-6000-kvm", "--route", "0,3"});
  REQUIRE(j.at("ways").size() == 2);
  for (const auto& way : j.at("ways")) {
    CHECK(way.at("taken") == (way.at("way") != "P2P"));
    std::string at = j.at("from");
    for (const auto& hop : way.at("hops")) {
      CHECK(hop.at("from") == at);
      at = hop.at("to");
    }
    CHECK(at == j.at("to"));
  }
}

TEST_CASE("the JSON of --flows is what run_copies says") {
  const auto file = load_machine_file("T04", {});
  REQUIRE(file);
  Reading reading;
  const Machine machine = read_machine(file->id, file->settings, reading);
  for (const auto& [flows, mover] :
       std::vector<std::pair<std::string, Mover>>{{"0..3>4..7", Mover::copy_engine},
                                                  {"0>4,1>5,6>host", Mover::copy_engine},
                                                  {"all-to-all", Mover::sm_stores}}) {
    INFO(flows);
    const Json j = json({"T04", "--flows", flows, "--size", "64MiB", "--mover",
                         mover == Mover::copy_engine ? "copy_engine" : "sm_stores"});
    Diagnostics errors;
    const auto copies = parse_copies(flows, 8, 64_MiB, {}, errors);
    const CopiesOutcome o = run_copies(machine.topology, copies, copy_options(machine, mover));
    CHECK(j.at("aggregate_GBs").get<double>() == Approx(o.aggregate.count() / 1e9));
    CHECK(j.at("limit") == o.limit);
    REQUIRE(j.at("flows").size() == copies.size());
    for (std::size_t i = 0; i < copies.size(); ++i)
      CHECK(j.at("flows")[i].at("GBs").get<double>() == Approx(o.copies[i].rate.count() / 1e9));
  }
  // four copies share one uplink of 53.8 GB/s
  CHECK(contains(shown({"T04", "--flows", "0..3>4..7"}), "together 53.8 GB/s in 20 ms"));
  shown({"T06", "--flows", "all-to-all"});
}

TEST_CASE("a collective is a table of nccl-tests, and its JSON has every number of it") {
  const std::vector<std::string> words = {"T04", "--collective", "all_reduce", "--sizes",
                                          "4KiB..64MiB"};
  const std::string text = shown(words);
  CHECK(contains(text, "size(B)"));
  const Json j = json(words);
  REQUIRE(j.at("rows").size() == 15);
  for (const auto& row : j.at("rows")) {
    for (const char* key : {"op", "gpus", "kernel", "algorithm", "protocol", "transport",
                            "channels", "limit", "provenance", "spread", "anchor"})
      CHECK(row.contains(key));
    const double algbw = row.at("size_bytes").get<double>() / row.at("time_us").get<double>() / 1e3;
    CHECK(row.at("algbw_GBs").get<double>() == Approx(algbw));
    CHECK(row.at("busbw_GBs").get<double>() == Approx(algbw * 2 * 7 / 8));
    CHECK(row.at("eager_us").get<double>() > row.at("time_us").get<double>());
    CHECK(contains(text, std::to_string(row.at("size_bytes").get<std::int64_t>())));
  }
  CHECK(json({"T04", "--collective", "all_gather", "--gpus", "4", "--sizes", "1MiB"})
            .at("rows")[0]
            .at("gpus") == 4);
}

TEST_CASE("an engine build chooses its kernels by size") {
  const Json j = json({"T04", "--collective", "all_reduce", "--engine-build",
                       "vllm-2026-07-b12x-sm120", "--sizes", "4KiB,64MiB"});
  CHECK(j.at("rows")[0].at("kernel") != "nccl");
  CHECK(json({"T04", "--collective", "all_reduce", "--kernel", "one_shot", "--sizes", "4KiB"})
            .at("rows")[0]
            .at("kernel") == "one_shot");
}

TEST_CASE("everything that is wrong is said at once, with a way out") {
  check_refused({"T44"}, {"no 'T44' in machines", "did you mean"}, 1);
  check_refused(
      {"T04", "--collective", "all_reduc", "--sizes", "4,foo", "--kernel", "x", "--edit", "p3p=on"},
      {"did you mean 'all_reduce'?", "'4' needs a unit", "'foo'", "no kernel 'x'",
       "did you mean 'p2p'?", "5 errors; nothing was run"},
      5);
  check_refused({"T04", "--collective", "all_reduce", "--gpus", "9", "--sizes", "4"},
                {"2 to 8 GPUs", "--edit gpus=9", "'4' needs a unit"}, 2);
  check_refused({"T04", "--flows", "0>0,9>1", "--size", "3"},
                {"to itself", "no GPU 9", "'3' needs a unit"}, 3);
  check_refused({"T04", "--route", "gpu0,gpu9"}, {"no GPU 'gpu9'"}, 1);
  check_refused({"T04", "--route", "gpu0"}, {"a route has two ends"}, 1);
  check_refused({"T04", "--route", "0,gpu0"}, {"both ends are the same"}, 1);
  check_refused({"T04", "--size", "1MiB", "--mover", "x", "--format", "xml", "--edit", "p2p"},
                {"--size says nothing", "--mover says nothing", "no format 'xml'", "not an edit"},
                4);
  check_refused({"T04", "--route", "0,1", "--flows", "0>1"}, {"three questions"}, 1);
  check_refused({"T04", "--flows", "0>1", "--format", "dot"}, {"dot draws the graph"}, 1);
  check_refused({"8x-rtx-pro-6000-kvm", "--collective", "all_reduce", "--kernel", "one_shot"},
                {"one_shot does not run", "what runs: nccl"}, 1);
  check_refused({"hgx-h200", "--collective", "all_reduce", "--engine-build", "sglang-0.5.14-sm120",
                 "--sizes", "4"},
                {"the build is for sm120, the GPUs are sm90", "'4' needs a unit"}, 2);
  check_refused({"1x-h100", "--collective", "all_reduce"}, {"needs two"}, 1);
  check_refused({"1x-h100", "--flows", "0>1"}, {"GPU 0 only"}, 1);
}
