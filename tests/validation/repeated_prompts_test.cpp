// Four models on H100 with vLLM 0.15.1 (a tracing fork, KV offloading on) under inference-perf: 100
// prompts of one length over and over at a constant rate for ten minutes, so that nearly every
// prompt is found whole in the prefix cache. Nothing was fitted on these runs.

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "tests/support/csv.hpp"
#include "tests/support/experiment.hpp"
#include "tests/support/process.hpp"

namespace {

struct Stage {
  std::string model;
  int tp = 0, requests = 0, input = 0, output = 0;
  double rate = 0, ttft_ms = 0, tpot_ms = 0, e2e_ms = 0;

  std::string trace() const {
    std::string out = "timestamp,input_length,output_length,shares_with,shared_length\n";
    for (int i = 0; i < requests; ++i)
      out += i < 100 ? fmt::format("{:.6f},{},{},,\n", i / rate, input, output)
                     : fmt::format("{:.6f},{},{},{},{}\n", i / rate, input, output, i - 100, input);
    return out;
  }
};

std::vector<Stage> stages(const std::string& file) {
  const std::map<std::string, std::string> zoo = {
      {"meta-llama/Llama-2-7b-hf", "llama-2-7b"},
      {"meta-llama/Llama-2-70b-hf", "llama-2-70b"},
      {"codellama/CodeLlama-34b-Instruct-hf", "codellama-34b"},
      {"mistralai/Mixtral-8x7B-v0.1", "mixtral-8x7b"}};
  std::vector<Stage> out;
  read_csv(file,
           {"id", "model", "tp", "num_prompts", "input_len", "output_len", "request_rate",
            "ttft_mean_ms", "tpot_mean_ms", "e2e_mean_ms"},
           [&](const std::vector<std::string>& f) {
             if (!f[0].starts_with("blis-train/")) return;
             const auto whole = [&](std::size_t i) {
               return static_cast<int>(std::lround(std::stod(f[i])));
             };
             out.push_back({zoo.at(f[1]), whole(2), whole(3), whole(4), whole(5), std::stod(f[6]),
                            std::stod(f[7]), std::stod(f[8]), std::stod(f[9])});
           });
  return out;
}

}  // namespace

TEST_CASE("100 prompts over and over, vLLM 0.15.1 on H100: TTFT with nothing fitted") {
  const auto file = shared_file("data/serving/points_dev.csv");
  if (!file) return;
  const process::TemporaryFolder folder;
  Errors ttft, tpot, e2e, uncached;
  std::map<std::string, Errors> by_model;
  for (const Stage& s : stages(*file)) {
    const auto trace = folder.write("trace.csv", s.trace());
    const auto played = [&](const std::string& more) {
      return make_experiment(
                 fmt::format("schema: 1\nmachine: dgx-h100\nmodel: {}\nengine: {{kind: vllm, "
                             "version: 0.15.1, tensor_parallel: {}, max_num_seqs: 128, "
                             "max_num_batched_tokens: 2048, max_model_len: 4096{}}}\n"
                             "workload: {{kind: trace, format: csv, file: {}}}\n",
                             s.model, s.tp, more, trace))
          ->run();
    };
    const RunMetrics m = played("");
    CHECK(m.completed == s.requests);
    INFO(s.model << " at " << s.rate << "/s: TTFT " << m.ttft_ms.mean << " for " << s.ttft_ms
                 << ", TPOT " << m.tpot_ms.mean << " for " << s.tpot_ms);
    ttft.add(m.ttft_ms.mean, s.ttft_ms);
    tpot.add(m.tpot_ms.mean, s.tpot_ms);
    e2e.add(m.e2e_ms.mean, s.e2e_ms);
    by_model[s.model].add(m.e2e_ms.mean, s.e2e_ms);
    if (s.model == "codellama-34b")
      uncached.add(played(", enable_prefix_caching: off").ttft_ms.mean, s.ttft_ms);
  }
  REQUIRE(ttft.absolute.size() == 20);
  const auto mean = [](const Errors& e) {
    double sum = 0;
    for (const double x : e.absolute) sum += x;
    return sum / static_cast<double>(e.absolute.size());
  };
  INFO("TTFT " << ttft.median() << " mean " << mean(ttft) << ", TPOT " << tpot.median() << ", E2E "
               << e2e.median() << ", TTFT without prefix cache " << uncached.median());
  CHECK(ttft.median() <= 0.10);  // the bar; E2E's of 4 % and TPOT's of 5 % are missed
  CHECK(ttft.median() == Approx(0.041).margin(0.001));
  CHECK(mean(ttft) == Approx(0.064).margin(0.001));
  CHECK(tpot.median() == Approx(0.072).margin(0.001));
  CHECK(e2e.median() == Approx(0.072).margin(0.001));
  CHECK(uncached.median() > 0.3);  // the check sees whether prompts are found
  const std::map<std::string, double> stated = {{"llama-2-7b", 0.118},
                                                {"llama-2-70b", 0.071},
                                                {"codellama-34b", 0.022},
                                                {"mixtral-8x7b", 0.120}};
  for (const auto& [model, error] : stated) {
    INFO(model << " " << mean(by_model[model]));
    CHECK(mean(by_model[model]) == Approx(error).margin(0.001));
  }
}
