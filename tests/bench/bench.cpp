// What a user waits for. Compare against the last commit, run in turn:
//   cmake --build build/release --target ceiling_bench && build/release/tests/ceiling_bench

#include <benchmark/benchmark.h>

#include <cstdlib>

#include "sim/scenario/experiment.hpp"
#include "sim/scenario/predict.hpp"

namespace {

Scenario home() {
  auto loaded = load_scenarios("scenarios/seed/64-at-16.yaml", {});
  if (!loaded) std::abort();
  return loaded->front();
}

void load_and_resolve(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(resolve(home()));
}
BENCHMARK(load_and_resolve)->Unit(benchmark::kMicrosecond);

void make_experiment(benchmark::State& state) {
  const auto inputs = resolve(home());
  for (auto _ : state) benchmark::DoNotOptimize(Experiment::make(*inputs));
}
BENCHMARK(make_experiment)->Unit(benchmark::kMicrosecond);

void price_decode_pass(benchmark::State& state) {
  const auto inputs = resolve(home());
  const auto experiment = Experiment::make(*inputs);
  std::int64_t kv = 128;
  for (auto _ : state)
    benchmark::DoNotOptimize((*experiment)->cost(PassShape::decode(64, ++kv), false));
}
BENCHMARK(price_decode_pass);

void run_home_case(benchmark::State& state) {
  const auto inputs = resolve(home());
  const auto experiment = Experiment::make(*inputs);
  for (auto _ : state) benchmark::DoNotOptimize((*experiment)->run());
}
BENCHMARK(run_home_case)->Unit(benchmark::kMicrosecond);

void whole_report(benchmark::State& state) {
  const Scenario scenario = home();
  for (auto _ : state) benchmark::DoNotOptimize(predict(scenario, {}));
}
BENCHMARK(whole_report)->Unit(benchmark::kMillisecond);

}  // namespace
