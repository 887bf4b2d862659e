// Result files of load generators: `run --bench-output` and `import bench`.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/process.hpp"

namespace {

using process::lines;
using process::run;

const std::string home = "scenarios/seed/32-at-8.yaml";

void check_says(const std::string& text, const std::vector<std::string>& parts) {
  for (const auto& part : parts) {
    INFO("expected: " << part << "\nin: " << text);
    CHECK(text.find(part) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("a run writes the file of its load generator, and import makes a scenario of it") {
  const process::TemporaryFolder folder;
  const auto file = (folder.path() / "out.jsonl").string();
  const auto ran = run({"run", home, "--bench-output", file, "--format", "json"});
  REQUIRE(ran.code <= 1);
  const auto written = process::read_text(file);
  REQUIRE(lines(written).size() == 1);
  const auto line = nlohmann::json::parse(written);
  const auto metrics = nlohmann::json::parse(ran.out)["results"][0]["metrics"];
  CHECK(line["output_throughput"] == metrics["output_throughput"]);
  CHECK(line["mean_ttft_ms"] == metrics["ttft_ms"]["mean"]);
  CHECK(line["request_rate"] == 8);
  CHECK(line["random_input_len"] == 256);
  CHECK(line["completed"] == 32);
  CHECK(line["server_info"]["tp_size"] == 8);
  CHECK(line["server_info"]["version"] == "0.5.9");
  CHECK(line["server_info"]["disable_cuda_graph"] == true);

  const auto imported = run({"import", "bench", file});
  CHECK(imported.code == 0);
  check_says(imported.out,
             {"kind: bench_serving", "requests: 32", "request_rate: 8 /s", "tensor_parallel: 8",
              "cuda_graph: off", "source: 'sglang.bench_serving, out.jsonl:1'"});
  check_says(imported.err, {"note: seed and warmup_requests are not in the file"});

  // Named machine, model and build, the scenario that comes out predicts what was written.
  auto text = imported.out;
  for (const std::string comment : {"# machine:", "# model:"}) {
    const auto at = text.find(comment);
    REQUIRE(at != std::string::npos);
    text.erase(at, text.find('\n', at) - at);
  }
  text += "machine: 8x-rtx-pro-6000-kvm\nmodel: glm-5-nvfp4\n";
  const auto again = run({"run", folder.write("again.yaml", text), "--format", "json"});
  INFO(again.err);
  REQUIRE(again.code == 0);
  for (const auto& e : nlohmann::json::parse(again.out)["results"][0]["expect"]) {
    INFO(e["metric"]);
    CHECK(std::abs(e["error"].get<double>()) < 1e-9);
  }
}

TEST_CASE("the other tool's file can be asked for") {
  const process::TemporaryFolder folder;
  const auto file = (folder.path() / "out.json").string();
  REQUIRE(run({"run", home, "--bench-output", file, "--bench-format", "vllm"}).code <= 1);
  const auto line = nlohmann::json::parse(process::read_text(file));
  CHECK(line["num_prompts"] == 32);
  CHECK(line["request_rate"] == 8);
  CHECK(line.contains("total_token_throughput"));
  check_says(run({"import", "bench", file}).out, {"kind: vllm_bench", "num_prompts: 32"});
}

TEST_CASE("with details the file has every request and every gap, and import reads it") {
  const process::TemporaryFolder folder;
  const auto file = (folder.path() / "out.jsonl").string();
  const auto plain = run({"run", home});
  const auto ran = run({"run", home, "--bench-output", file, "--output-details"});
  CHECK(ran.out == plain.out);  // details change nothing
  const auto line = nlohmann::json::parse(process::read_text(file));
  for (const char* key :
       {"input_lens", "output_lens", "ttfts", "itls", "generated_texts", "errors"}) {
    INFO(key);
    CHECK(line[key].size() == 32);
  }
  std::int64_t tokens = 0, gaps = 0;
  double ttft = 0, between = 0;
  for (std::size_t i = 0; i < 32; ++i) {
    tokens += line["output_lens"][i].get<std::int64_t>();
    ttft += line["ttfts"][i].get<double>();
    CHECK(line["itls"][i].size() == line["output_lens"][i].get<std::size_t>() - 1);
    for (const auto& gap : line["itls"][i]) between += gap.get<double>(), ++gaps;
  }
  CHECK(line["total_output_tokens"] == tokens);
  CHECK(line["mean_ttft_ms"].get<double>() == Approx(1e3 * ttft / 32));
  CHECK(line["mean_itl_ms"].get<double>() == Approx(1e3 * between / static_cast<double>(gaps)));
  CHECK(line["p95_itl_ms"].is_number());
  const auto imported = run({"import", "bench", file});
  CHECK(imported.code == 0);
  check_says(imported.out, {"kind: bench_serving", "requests: 32"});
  CHECK(run({"run", home, "--output-details"}).code == 2);  // where to?
}

TEST_CASE("a detailed file of vllm comes back as a scenario with its very lengths") {
  const process::TemporaryFolder folder;
  const auto file = (folder.path() / "out.json").string();
  const std::vector<std::string> box{"--set", "workload.num_prompts=40", "--set",
                                     "workload.random_range_ratio=0.5"};
  std::vector<std::string> words{"run",
                                 "scenarios/workloads/dense-8b.yaml",
                                 "--bench-output",
                                 file,
                                 "--bench-format",
                                 "vllm",
                                 "--output-details"};
  words.insert(words.end(), box.begin(), box.end());
  const auto ran = run(words);
  INFO(ran.err);
  REQUIRE(ran.code <= 1);
  const auto line = nlohmann::json::parse(process::read_text(file));
  for (const char* key : {"input_lens", "output_lens", "ttfts", "itls", "start_times"}) {
    INFO(key);
    CHECK(line[key].size() == 40);
  }
  const auto imported = run({"import", "bench", file});
  CHECK(imported.code == 0);
  const auto first = fmt::format("dataset: lengths\n  lengths: [[{}, {}]",
                                 line["input_lens"][0].dump(), line["output_lens"][0].dump());
  check_says(imported.out, {"kind: vllm_bench", first.c_str(), "request_rate: 25 /s"});
}

TEST_CASE("what no load generator writes, and what cannot be read or written, is an error") {
  const process::TemporaryFolder folder;
  const auto steady = run({"run", "scenarios/measured/glm-5-sglang-cutlass.yaml", "--bench-output",
                           (folder.path() / "x").string()});
  CHECK(steady.code == 2);
  CHECK(steady.out.empty());
  check_says(steady.err, {"a workload without requests has no load generator"});
  const auto nowhere = run({"run", home, "--bench-output", "/nowhere/out.jsonl"});
  CHECK(nowhere.code == 2);
  CHECK(nowhere.out.empty());
  const auto other = run({"import", "bench", folder.write("a.json", "{\"schema\": 1}\n")});
  CHECK(other.code == 2);
  CHECK(other.out.empty());
  check_says(other.err, {"a.json:1:1: error", "neither sglang.bench_serving nor vllm bench serve",
                         "nothing was imported"});
}
