#include "sim/report/bench_file.hpp"

#include <limits>

#include <catch2/catch.hpp>

#include "calibrate/import/bench_results.hpp"
#include "sim/base/json.hpp"
#include "sim/scenario/scenario.hpp"
#include "tests/support/plans.hpp"
#include "tests/support/process.hpp"

namespace {

BenchResult result() {
  BenchResult r;
  r.label = "64 at 16";
  r.model = "GLM-5-NVFP4";
  r.request_rate = 16;
  r.max_concurrency = 48;
  r.num_prompts = 64;
  r.random_input_len = 256;
  r.random_output_len = 256;
  r.random_range_ratio = 0;
  r.server_info = {
      {"tp_size", "8"}, {"disable_cuda_graph", "true"}, {"kv_cache_dtype", "\"auto\""}};
  RunMetrics& m = r.metrics;
  m.duration_s = 36.015;
  m.completed = 64;
  m.input_tokens = 9166;
  m.output_tokens = 7059;
  m.request_throughput = 1.7771;
  m.input_throughput = 254.505;
  m.output_throughput = 196.0015;
  m.total_throughput = 450.5065;
  m.ttft_ms = {812.5, 640.25, 1500.5, 2210.125, 300};
  m.tpot_ms = {131.5, 130.25, 150, 171.0625, 12.5};
  m.itl_ms = {129.75, 128.5, 155, 210.5, 22};
  m.e2e_ms = {15'000.5, 14'000.25, 29'000, 33'333.125, 9000};
  m.concurrency = 26.65;
  m.in_flight_max = 64;
  return r;
}

// Two requests: tokens at 0.5, 1.0, 1.5 and at 1.25, 1.75 s.
BenchResult detailed() {
  BenchResult r = result();
  r.requests = {{10, 3, 0, 0.5, 1.5, {0.5, 0.5}}, {20, 2, 0.75, 1.25, 1.75, {0.5}}};
  return r;
}

std::vector<std::string> keys(const Json& json) {
  std::vector<std::string> out;
  for (const auto& [key, value] : json.members) out.push_back(key);
  return out;
}

Json parsed(const std::string& line) {
  auto json = parse_json(line);
  REQUIRE(json);
  return *json;
}

std::string measured(const BenchRun& run, const std::string& metric) {
  for (const auto& [name, value] : run.measured)
    if (name == metric) return value;
  return {};
}

std::vector<BenchRun> imported(const std::string& text) {
  const process::TemporaryFolder folder;
  const auto runs = import_bench(folder.write("out.jsonl", text));
  INFO((runs ? "" : runs.error().render()));
  REQUIRE(runs);
  return *runs;
}

Diagnostics refused(const std::string& text) {
  const process::TemporaryFolder folder;
  const auto runs = import_bench(folder.write("out.jsonl", text));
  REQUIRE_FALSE(runs);
  return runs.error();
}

}  // namespace

TEST_CASE("the sglang line has the fields of bench_serving v0.5.9, in its order") {
  const std::vector<std::string> expected = {"tag",
                                             "backend",
                                             "dataset_name",
                                             "request_rate",
                                             "max_concurrency",
                                             "sharegpt_output_len",
                                             "random_input_len",
                                             "random_output_len",
                                             "random_range_ratio",
                                             "server_info",
                                             "duration",
                                             "completed",
                                             "total_input_tokens",
                                             "total_input_text_tokens",
                                             "total_input_vision_tokens",
                                             "total_output_tokens",
                                             "total_output_tokens_retokenized",
                                             "request_throughput",
                                             "input_throughput",
                                             "output_throughput",
                                             "total_throughput",
                                             "mean_e2e_latency_ms",
                                             "median_e2e_latency_ms",
                                             "std_e2e_latency_ms",
                                             "p90_e2e_latency_ms",
                                             "p99_e2e_latency_ms",
                                             "mean_ttft_ms",
                                             "median_ttft_ms",
                                             "std_ttft_ms",
                                             "p99_ttft_ms",
                                             "mean_tpot_ms",
                                             "median_tpot_ms",
                                             "std_tpot_ms",
                                             "p99_tpot_ms",
                                             "mean_itl_ms",
                                             "median_itl_ms",
                                             "std_itl_ms",
                                             "p95_itl_ms",
                                             "p99_itl_ms",
                                             "concurrency",
                                             "accept_length",
                                             "max_output_tokens_per_s",
                                             "max_concurrent_requests"};
  const auto line = bench_json(result(), BenchFormat::sglang, false);
  CHECK(std::count(line.begin(), line.end(), '\n') == 1);
  CHECK(keys(parsed(line)) == expected);
  auto with_details = expected;
  for (const char* key :
       {"input_lens", "output_lens", "ttfts", "itls", "generated_texts", "errors"})
    with_details.emplace_back(key);
  CHECK(keys(parsed(bench_json(detailed(), BenchFormat::sglang, true))) == with_details);
  // Without records there are no details to give.
  CHECK(keys(parsed(bench_json(result(), BenchFormat::sglang, true))) == expected);
}

TEST_CASE("the vllm object has the fields of vllm bench serve") {
  const std::vector<std::string> expected = {"date",
                                             "endpoint_type",
                                             "backend",
                                             "label",
                                             "model_id",
                                             "tokenizer_id",
                                             "num_prompts",
                                             "request_rate",
                                             "burstiness",
                                             "max_concurrency",
                                             "duration",
                                             "completed",
                                             "failed",
                                             "total_input_tokens",
                                             "total_output_tokens",
                                             "request_throughput",
                                             "request_goodput",
                                             "output_throughput",
                                             "total_token_throughput",
                                             "max_output_tokens_per_s",
                                             "max_concurrent_requests",
                                             "mean_ttft_ms",
                                             "median_ttft_ms",
                                             "std_ttft_ms",
                                             "p99_ttft_ms",
                                             "mean_tpot_ms",
                                             "median_tpot_ms",
                                             "std_tpot_ms",
                                             "p99_tpot_ms",
                                             "mean_itl_ms",
                                             "median_itl_ms",
                                             "std_itl_ms",
                                             "p99_itl_ms",
                                             "mean_e2el_ms",
                                             "median_e2el_ms",
                                             "std_e2el_ms",
                                             "p99_e2el_ms"};
  CHECK(keys(parsed(bench_json(result(), BenchFormat::vllm, false))) == expected);
  const auto details = parsed(bench_json(detailed(), BenchFormat::vllm, true));
  for (const char* key :
       {"input_lens", "output_lens", "ttfts", "itls", "start_times", "generated_texts", "errors"})
    CHECK(details.find(key));
}

TEST_CASE("details are lengths, times in seconds and empty texts; buckets are seconds") {
  const auto json = parsed(bench_json(detailed(), BenchFormat::sglang, true));
  CHECK(json.find("ttfts")->items[1].number == 0.5);
  CHECK(json.find("itls")->items[0].items[1].number == 0.5);
  CHECK(json.find("input_lens")->items[1].number == 20);
  CHECK(json.find("generated_texts")->items[0].text.empty());
  // Second 0: the token at 0.5. Second 1: 1.0, 1.25, 1.5, 1.75. Both are in flight in both.
  CHECK(json.find("max_output_tokens_per_s")->number == 4);
  CHECK(json.find("max_concurrent_requests")->number == 2);
  CHECK(json.find("p95_itl_ms")->number == 500);
  const auto none = parsed(bench_json(result(), BenchFormat::sglang, false));
  for (const char* key : {"p95_itl_ms", "max_output_tokens_per_s", "max_concurrent_requests",
                          "total_output_tokens_retokenized", "accept_length"})
    CHECK(none.find(key)->is(Json::Kind::null));
}

TEST_CASE("a request that was turned away is in the details, with an error and no output") {
  BenchResult r = detailed();
  r.requests.insert(r.requests.begin() + 1, {90, 0, 0.25, 9, 9, {}, true});
  for (const auto format : {BenchFormat::sglang, BenchFormat::vllm}) {
    const auto json = parsed(bench_json(r, format, true));
    const auto at = [&](const char* key) -> const Json& { return json.find(key)->items.at(1); };
    CHECK(at("input_lens").number == 90);
    CHECK(at("output_lens").number == 0);
    CHECK(at("ttfts").number == 0);
    CHECK(at("itls").items.empty());
    CHECK(at("errors").text.find("rejected") != std::string::npos);
    CHECK(json.find("errors")->items.at(0).text.empty());
    // It counts for no token and no second, and a reader of the file leaves it out.
    CHECK(json.find("max_output_tokens_per_s")->number == 4);
  }
  CHECK(parsed(bench_json(r, BenchFormat::sglang, true)).find("max_concurrent_requests")->number ==
        2);
  const auto runs = imported(bench_json(r, BenchFormat::vllm, true));
  CHECK(std::count(runs[0].workload.begin(), runs[0].workload.end(),
                   std::pair<std::string, std::string>("lengths", "[[10, 3], [20, 2]]")) == 1);
  // Nobody was served.
  r.requests = {{90, 0, 5, 9, 9, {}, true}};
  CHECK(parsed(bench_json(r, BenchFormat::sglang, true)).find("max_concurrent_requests")->number ==
        0);
}

TEST_CASE("an infinite rate is written as each tool writes it") {
  BenchResult r = result();
  r.request_rate = std::numeric_limits<double>::infinity();
  r.max_concurrency.reset();
  CHECK(bench_json(r, BenchFormat::sglang, false).find("\"request_rate\":Infinity,") !=
        std::string::npos);
  CHECK(bench_json(r, BenchFormat::vllm, false).find("\"request_rate\":\"inf\",") !=
        std::string::npos);
  for (const auto format : {BenchFormat::sglang, BenchFormat::vllm}) {
    const auto runs = imported(bench_json(r, format, false));
    for (const auto& [key, value] : runs[0].workload) {
      if (key == "request_rate") CHECK(value == "inf");
      CHECK(key != "max_concurrency");
    }
  }
}

TEST_CASE("what was written is read again, value for value") {
  for (const auto format : {BenchFormat::sglang, BenchFormat::vllm}) {
    const auto runs = imported(bench_json(result(), format, false));
    REQUIRE(runs.size() == 1);
    CHECK(runs[0].tool == (format == BenchFormat::sglang ? "sglang" : "vllm"));
    CHECK(runs[0].name == "64 at 16");
    CHECK(measured(runs[0], "output_throughput") == "196.0015 tok/s");
    CHECK(measured(runs[0], "total_throughput") == "450.5065 tok/s");
    CHECK(measured(runs[0], "request_throughput") == "1.7771 /s");
    CHECK(measured(runs[0], "ttft_ms.mean") == "812.5 ms");
    CHECK(measured(runs[0], "ttft_ms.p99") == "2210.125 ms");
    CHECK(measured(runs[0], "tpot_ms.p50") == "130.25 ms");
    CHECK(measured(runs[0], "itl_ms.mean") == "129.75 ms");
    CHECK(measured(runs[0], "e2e_ms.p99") == "33333.125 ms");
  }
}

TEST_CASE("an imported file is a scenario whose workload and expectations load") {
  for (const auto format : {BenchFormat::sglang, BenchFormat::vllm}) {
    BenchResult second = result();
    second.request_rate = std::numeric_limits<double>::infinity();
    second.max_concurrency.reset();
    second.label = "it's \"inf\"";
    second.metrics.output_throughput = 222.25;
    const process::TemporaryFolder folder;
    const auto file = folder.write(
        "out.jsonl", bench_json(result(), format, false) + bench_json(second, format, false));
    const auto runs = import_bench(file);
    REQUIRE(runs);
    const auto scenario = folder.write("measured.yaml", bench_scenario(file, *runs));
    INFO(process::read_text(scenario));
    const auto loaded = load_scenarios(scenario, {});
    INFO((loaded ? "" : loaded.error().render()));
    REQUIRE(loaded);
    REQUIRE(loaded->size() == 2);
    const auto expected = [](const Scenario& s, const std::string& metric) {
      for (const auto& e : s.expect)
        if (e.metric == metric) return e.value;
      return -1.0;
    };
    CHECK(expected((*loaded)[0], "output_throughput") == 196.0015);
    CHECK(expected((*loaded)[1], "output_throughput") == 222.25);
    CHECK(expected((*loaded)[0], "ttft_ms.p99") == Approx(2210.125).epsilon(1e-12));
    CHECK((*loaded)[0].expect[0].source.find("out.jsonl:1") != std::string::npos);
    for (const auto& s : *loaded) {
      const Settings* workload = s.tree.find("workload");
      REQUIRE(workload);
      Reading reading;
      {
        Section section(*workload, "workload", reading);
        const auto kind = section.word("kind", Registry<WorkloadKind>::names());
        CHECK(Registry<WorkloadKind>::find(kind)->plan(section).requests == 64);
      }
      INFO(reading.errors.render());
      CHECK(reading.errors.empty());
    }
  }
}

TEST_CASE("flags of the server become those of the engine section") {
  const auto runs = imported(bench_json(result(), BenchFormat::sglang, false));
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  // "auto" says nothing that the engine would not choose itself.
  CHECK(runs[0].engine == Pairs{{"tensor_parallel", "8"}, {"cuda_graph", "off"}});
}

TEST_CASE("lengths of a dataset that cannot be drawn again come from the details") {
  BenchResult r = detailed();
  r.dataset = "sharegpt";
  const auto runs = imported(bench_json(r, BenchFormat::sglang, true));
  std::string lengths;
  for (const auto& [key, value] : runs[0].workload)
    if (key == "lengths") lengths = value;
  CHECK(lengths == "[[10, 3], [20, 2]]");
  const auto errors = refused(bench_json(r, BenchFormat::sglang, false));
  REQUIRE(errors.size() == 1);
  CHECK(errors.list()[0].hint.find("--output-details") != std::string::npos);
}

TEST_CASE("a file of neither tool is refused with its place, and so is a broken line") {
  const auto good = bench_json(result(), BenchFormat::sglang, false);
  const auto errors = refused(good + "{\"schema\": 1}\n{\"a\": }\n" +
                              bench_json(result(), BenchFormat::vllm, false));
  REQUIRE(errors.size() == 3);
  const auto place = [&](std::size_t i) {
    const auto text = errors.list()[i].where.text();
    return text.substr(text.find("out.jsonl"));
  };
  CHECK(place(0) == "out.jsonl:2:1");
  CHECK(place(1) == "out.jsonl:3:7");
  CHECK(place(2) == "out.jsonl:4:1");
  CHECK(errors.list()[2].message == "runs of both tools in one file");
  std::string older = good;
  older.replace(older.find("\"completed\""), 11, "\"finished\"");
  CHECK(refused(older).list()[0].message.find("no 'completed'") != std::string::npos);
  std::string word = good;
  word.replace(word.find("812.5"), 5, "\"fast\"");
  const auto wrong = refused(word);
  REQUIRE(wrong.size() == 1);
  CHECK(wrong.list()[0].message == "'mean_ttft_ms' is not a number");
}
