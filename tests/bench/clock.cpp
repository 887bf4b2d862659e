// The clock alone, per request: Llama-3.1-8B on one H100, Poisson at 70 % of what a burst reaches,
// 512 tokens in, full metrics; and conversations.

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>

#include "sim/scenario/experiment.hpp"

namespace {

std::unique_ptr<Experiment> dense(const std::vector<Override>& set) {
  const auto loaded = load_scenarios("scenarios/workloads/dense-8b.yaml", set);
  if (!loaded) std::abort();
  const auto inputs = resolve(loaded->front());
  if (!inputs) std::abort();
  auto made = Experiment::make(*inputs);
  if (!made) std::abort();
  return std::move(*made);
}

void play(benchmark::State& state, const std::vector<Override>& set) {
  const auto experiment = dense(set);
  RunMetrics m;
  for (auto _ : state) benchmark::DoNotOptimize(m = experiment->run());
  const auto n = static_cast<double>(m.completed);
  state.counters["ns/request"] = benchmark::Counter(
      n, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["passes/request"] = static_cast<double>(m.passes) / n;
  state.counters["asked/request"] = static_cast<double>(m.counts.scheduler_calls) / n;
  state.counters["batch"] = static_cast<double>(m.batch_max);
}

// Arguments: requests, tokens out, ten times the requests a second.
void poisson(benchmark::State& state, const Override& engine) {
  play(state,
       {{"workload.num_prompts", std::to_string(state.range(0))},
        {"workload.random_output_len", std::to_string(state.range(1))},
        {"workload.request_rate", std::to_string(static_cast<double>(state.range(2)) / 10) + " /s"},
        engine});
}

void vllm(benchmark::State& state) { poisson(state, {"engine.kind", "vllm"}); }
BENCHMARK(vllm)
    ->Args({1'000'000, 256, 250})
    ->Args({100'000, 4096, 12})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

void vllm_prefix_cache(benchmark::State& state) {
  poisson(state, {"engine.enable_prefix_caching", "on"});
}
BENCHMARK(vllm_prefix_cache)
    ->Args({1'000'000, 256, 250})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

// Conversations of five turns, as scenarios/workloads/conversations.yaml has them; the argument:
// sessions.
void conversations(benchmark::State& state, const std::string& engine) {
  play(state, {{"engine", engine},
               {"workload", "{kind: multi_turn, sessions: " + std::to_string(state.range(0)) +
                                ", turns: 5, system_prompt_tokens: 1000, first_input_tokens: 500, "
                                "input_tokens: 150, output_tokens: 200, range_ratio: 0.5, "
                                "think_time: 10 s, session_rate: 5 /s}"}});
}
void vllm_conversations(benchmark::State& state) { conversations(state, "{kind: vllm}"); }
BENCHMARK(vllm_conversations)->Arg(200'000)->Iterations(1)->Unit(benchmark::kMillisecond);
void sglang_conversations(benchmark::State& state) { conversations(state, "{kind: sglang}"); }
BENCHMARK(sglang_conversations)->Arg(200'000)->Iterations(1)->Unit(benchmark::kMillisecond);

void sglang(benchmark::State& state) {
  poisson(state, {"engine", "{kind: sglang, disable_radix_cache: on}"});
}
BENCHMARK(sglang)
    ->Args({1'000'000, 256, 250})
    ->Args({100'000, 4096, 12})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

// The Mooncake conversation trace at its own times, its shared blocks honoured, on a node that
// keeps up with it and on one GPU that does not.
void mooncake(benchmark::State& state, const std::string& engine, const std::string& machine) {
  const char* const file = "../shared/data/traces/mooncake_fast25_conversation.jsonl.gz";
  if (!std::filesystem::is_regular_file(file)) {
    state.SkipWithError("the trace is not here");
    return;
  }
  play(state, {{"machine", machine},
               {"engine", engine},
               {"workload", std::string("{kind: trace, format: mooncake, file: ") + file + "}"}});
}
BENCHMARK_CAPTURE(mooncake, vllm_node, "{kind: vllm, tensor_parallel: 8}", "dgx-h100")
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(mooncake, sglang_node, "{kind: sglang, tensor_parallel: 8}", "dgx-h100")
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(mooncake, vllm_gpu, "{kind: vllm}", "1x-h100")
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(mooncake, sglang_gpu, "{kind: sglang}", "1x-h100")
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

void reference(benchmark::State& state) { poisson(state, {"engine.clock", "reference"}); }
BENCHMARK(reference)->Args({20'000, 256, 250})->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
