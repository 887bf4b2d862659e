// Runs without a scheduler and the fit of a build, as a user meets them.

#include <nlohmann/json.hpp>

#include <catch2/catch.hpp>

#include "tests/support/process.hpp"

namespace {

using process::run;
using Json = nlohmann::json;

const std::string cutlass = "scenarios/measured/glm-5-sglang-cutlass.yaml";
const std::string july = "scenarios/measured/glm-5.2-vllm-2026-07-b12x.yaml";
const std::string prefill = "scenarios/measured/prefill-glm-5.2-vllm-2026-07-b12x.yaml";

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("validate shows measured rows by build and concurrency, in text and in JSON") {
  const auto text = run({"validate", cutlass, prefill});
  CHECK(text.code == 0);
  for (const auto& line : process::lines(text.out)) {
    INFO(line);
    CHECK(line.size() <= 100);
  }
  CHECK(contains(text.out, "decode: error of the step time in %, by build and requests"));
  CHECK(contains(text.out, "left out: ran eagerly, above the graph cap of 32"));
  const auto o = run({"validate", cutlass, prefill, "--format", "json"});
  const Json json = Json::parse(o.out);
  REQUIRE(json.at("builds").size() == 2);
  const Json& decode = json["builds"][0];
  CHECK(decode.at("build") == "sglang-2026-03-cutlass-sm120");
  CHECK(decode.at("workload") == "llm_decode_bench");
  CHECK(decode.at("rows") == 16);
  CHECK(decode.at("left_out") == 1);
  CHECK(decode.at("by_size")[0].at("concurrency") == 1);
  CHECK(json["builds"][1].at("by_size")[0].at("prompt") == 8192);
  CHECK(json["results"][0]["metrics"].contains("prefill_throughput"));
}

TEST_CASE("run explains a steady decode and a cold prefill; a known defect is a warning") {
  const auto decode =
      run({"run", july, "--set", "workload.concurrency=8", "--set", "engine.moe_activations=a16"});
  CHECK(decode.code == 0);
  CHECK(contains(decode.out, "a decode step of 8 requests at"));
  CHECK(contains(decode.out, "warning: known defect of this build, not modelled:"));
  CHECK_FALSE(contains(decode.out, "Little"));
  const auto cold = run({"run", prefill, "--set", "workload.prompt=30000"});
  CHECK(contains(cold.out, "the prefill of 30,000 tokens in 4 passes takes"));
  CHECK(contains(cold.out, "prefill tok/s"));
}

TEST_CASE("vLLM serves requests too; a metric that a workload lacks is refused") {
  const process::TemporaryFolder folder;
  const std::string head =
      "schema: 1\nmachine: 8x-rtx-pro-6000-switches\nmodel: glm-5.2-nvfp4\n"
      "engine: {kind: vllm, build: vllm-2026-07-b12x-sm120, tensor_parallel: 8}\n";
  const auto serving =
      run({"run", folder.write("a.yaml", head + "workload: {kind: bench_serving, "
                                                "input_tokens: 8, output_tokens: 8, "
                                                "requests: 1, request_rate: inf}\n")});
  INFO(serving.err);
  CHECK(serving.code == 0);
  CHECK(contains(serving.out, "1 completed"));
  const auto metric =
      run({"run", folder.write("b.yaml", head + "workload: {kind: cold_prefill, prompt: 100}\n"
                                                "expect: {output_throughput: 3 tok/s}\n")});
  CHECK(metric.code == 2);
  CHECK(contains(metric.err, "this workload has no 'output_throughput'"));
  const auto bad = run({"run", folder.write("c.yaml", head + "workload: {kind: llm_decode_bench, "
                                                             "context: -1, concurrency: 0}\n")});
  CHECK(bad.code == 2);
  CHECK(contains(bad.err, "2 errors"));
}

TEST_CASE("fit build prints two numbers with their errors and writes them into the build's file") {
  const process::TemporaryFolder folder;
  const auto out = (folder.path() / "build.yaml").string();
  const auto o = run({"fit", "build", "sglang-2026-03-cutlass-sm120", cutlass, "-o", out});
  INFO(o.err);
  CHECK(o.code == 0);
  CHECK(contains(o.out, "without the two numbers"));
  CHECK(contains(o.out, "fitted without the row itself"));
  CHECK(contains(o.out, "small_kernels:"));
  // The shipped numbers are those that the command finds.
  CHECK(process::read_text(out) ==
        process::read_text(process::source_root() /
                           "hardware/builds/sglang-2026-03-cutlass-sm120.yaml"));
}

TEST_CASE("fit refuses rows of another build, of prefill, and too few") {
  const auto other = run({"fit", "build", "sglang-2026-03-cutlass-sm120", july});
  CHECK(other.code == 2);
  CHECK(contains(other.err, "runs build 'vllm-2026-07-b12x-sm120'"));
  const auto cold = run({"fit", "build", "vllm-2026-07-b12x-sm120", prefill});
  CHECK(cold.code == 2);
  CHECK(contains(cold.err, "is no steady decode"));
  const auto seed = run({"fit", "build", "sglang-0.5.9-sm120", "scenarios/seed/32-at-8.yaml"});
  CHECK(seed.code == 2);
  CHECK(run({"fit", "build", "nonesuch", cutlass}).code == 2);
  CHECK(run({"fit"}).code == 2);
}
