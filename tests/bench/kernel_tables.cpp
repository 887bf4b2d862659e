// Fitted kernel tables: a shape that was never asked for, and loading. A pass asks for some hundred
// shapes, most of them new, so one is to take less than 2 us.

#include <benchmark/benchmark.h>

#include <cstdlib>

#include "models/cost/cost_model.hpp"
#include "sim/scenario/kernel_files.hpp"

namespace {

const std::string card = "rtx-pro-6000-server";

GpuSpec gpu() {
  auto loaded = load_gpu_file(card);
  if (!loaded) std::abort();
  return *loaded;
}

const KernelTables& tables() {
  static const KernelTables all = [] {
    auto loaded = load_kernel_tables(gpu(), card);
    if (!loaded) std::abort();
    return std::move(*loaded);
  }();
  return all;
}

// Walks through sizes between the measured ones; `x` holds the first shape.
void predict(benchmark::State& state, const char* kernel_class,
             const std::map<std::string, std::string>& words, Coordinates x) {
  const auto choice = tables().find(kernel_class, "sglang", "0.5.14", words);
  if (!choice.set) return state.SkipWithError("no such table");
  const std::size_t axes = choice.set->kind().axes.size();
  const Coordinates first = x;
  std::size_t turn = 0;
  for (auto _ : state) {
    x[axes - 1] = first[axes - 1] + static_cast<double>(++turn % 8191);
    x[axes - 2] = first[axes - 2] + static_cast<double>(turn % 3);
    benchmark::DoNotOptimize(choice.set->predict(x.data()));
  }
  state.SetLabel(std::to_string(choice.set->shapes.size()) + " shapes");
}

void predict_gemm(benchmark::State& state) {
  predict(state, "gemm", {{"gemm_dtype", "bfloat16"}}, {5000, 7000, 3});
}
BENCHMARK(predict_gemm);

void predict_decode_attention(benchmark::State& state) {
  predict(state, "generation_attention", {{"kv_cache_dtype", "bfloat16"}, {"head_dim", "128"}},
          {3, 24, 11, 777});
}
BENCHMARK(predict_decode_attention);

void predict_moe(benchmark::State& state) {
  predict(state, "moe", {{"moe_dtype", "nvfp4"}}, {8, 200, 5000, 1800, 3, 3, 5});
}
BENCHMARK(predict_moe);

void predict_all_reduce(benchmark::State& state) {
  const auto choice = tables().find("nccl", "nccl", "2.29.2", {{"op_name", "all_reduce"}});
  if (!choice.set) return state.SkipWithError("no such table");
  double bytes = 1000;
  for (auto _ : state) {
    bytes += 2;
    benchmark::DoNotOptimize(choice.set->predict(&bytes));
  }
}
BENCHMARK(predict_all_reduce);

// What a pass asks for again and again: the answer is remembered.
void gemm_asked_before(benchmark::State& state) {
  Reading reading;
  const Settings nothing = Settings::map({}, {});
  Section section(nothing, "laws.gemm.table", reading);
  const GpuSpec spec = gpu();
  const auto* make = Registry<CostModelFactory<GemmShape>>::find("table");
  const auto model = (*make)({spec, &tables(), "sglang", "0.5.14"}, section);
  for (auto _ : state) benchmark::DoNotOptimize(model->predict({37, 5000, 7000, Precision::bf16}));
}
BENCHMARK(gemm_asked_before);

void find_table(benchmark::State& state) {
  const std::map<std::string, std::string> words{{"moe_dtype", "nvfp4"},
                                                 {"distribution", "balanced"}};
  for (auto _ : state) benchmark::DoNotOptimize(tables().find("moe", "sglang", "0.5.9", words).set);
  state.SetLabel(std::to_string(tables().sets().size()) + " tables");
}
BENCHMARK(find_table);

void load_tables(benchmark::State& state) {
  const GpuSpec spec = gpu();
  for (auto _ : state) benchmark::DoNotOptimize(load_kernel_tables(spec, card));
}
BENCHMARK(load_tables)->Unit(benchmark::kMillisecond);

}  // namespace
