// Traces of torch.profiler: the kernels of an engine and what its GPUs waited for.

#include <random>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "calibrate/import/kernel_trace.hpp"
#include "tests/support/process.hpp"

namespace {

std::string call(int correlation, double ts, double dur) {
  return fmt::format(
      R"({{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":2,"ts":{},"dur":{},"args":{{"correlation":{}}}}})",
      ts, dur, correlation);
}
std::string kernel(const std::string& name, int correlation, double ts, double dur,
                   int device = 0) {
  return fmt::format(
      R"({{"ph":"X","cat":"kernel","name":"{}","pid":0,"tid":7,"ts":{},"dur":{},"args":{{"device":{},"stream":7,"correlation":{},"grid":[800,1,1]}}}})",
      name, ts, dur, device, correlation);
}
std::string trace(const std::vector<std::string>& events) {
  return fmt::format("{{\"schemaVersion\": 1, \"traceEvents\": [\n{}\n], \"traceName\": \"x\"}}",
                     fmt::join(events, ",\n"));
}

Expected<KernelTrace> read(const std::vector<std::string>& texts) {
  const process::TemporaryFolder folder;
  std::vector<std::string> paths;
  for (const auto& text : texts)
    paths.push_back(folder.write(fmt::format("rank{}.json", paths.size()), text));
  return read_traces(paths);
}

double idle(const TracedGpu& g) {
  return g.idle.host_us + g.idle.graph_us + g.idle.queued_us + g.idle.unknown_us;
}

}  // namespace

TEST_CASE("a GPU's time is what it did and what it waited for") {
  const auto t = read({trace({
      call(1, 0, 5),
      kernel("a", 1, 10, 20),  // 10 to 30
      call(2, 33, 1),
      kernel("b", 2, 35, 10),  // idle 5: 3 unissued, 2 on the way
      call(3, 40, 2),
      kernel("c", 3, 50, 10),
      kernel("d", 3, 62, 3),   // a graph: 5 queued, 2 inside
      kernel("e", 4, 63, 7),   // beside d: 5 more
      kernel("f", 99, 80, 1),  // idle 10, nobody knows why
      R"({"ph":"i","name":"marker","ts":1})",
  })});
  REQUIRE(t);
  const auto s = summarise(*t);
  REQUIRE(s.gpus.size() == 1);
  const TracedGpu& g = s.gpus[0];
  CHECK(g.span_us == 71);                        // 10 to 81
  CHECK(g.busy_us == 20 + 10 + 10 + 3 + 5 + 1);  // 49
  CHECK(g.idle.host_us == 3);
  CHECK(g.idle.queued_us == 2 + 5);
  CHECK(g.idle.graph_us == 2);
  CHECK(g.idle.unknown_us == 10);
}

TEST_CASE("busy and idle make the span, whatever overlaps") {
  std::minstd_rand random(7);
  const auto draw = [&](unsigned n) { return static_cast<double>(random() % n); };
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> events;
    double at = 0;
    for (int i = 0; i < 20; ++i) {
      const int correlation = static_cast<int>(draw(12));
      if (draw(2) > 0) events.push_back(call(correlation, at - draw(20), 1));
      events.push_back(kernel("k", correlation, at, draw(9)));
      at += draw(12);
    }
    const auto t = read({trace(events)});
    REQUIRE(t);
    const TracedGpu g = summarise(*t).gpus.at(0);
    CHECK(g.busy_us + idle(g) == Approx(g.span_us));
    CHECK(g.busy_us >= 0);
    CHECK(std::min({g.idle.host_us, g.idle.graph_us, g.idle.queued_us, g.idle.unknown_us}) >= 0);
  }
}

TEST_CASE("ranks of several files are GPUs of their own, their calls too") {
  // Both use correlation 1; the call of the first must not answer for the second.
  const auto t = read({trace({call(1, 90, 1), kernel("a", 7, 0, 80), kernel("a", 1, 100, 1)}),
                       trace({kernel("a", 7, 0, 80), kernel("a", 1, 100, 1)})});
  REQUIRE(t);
  const auto s = summarise(*t);
  REQUIRE(s.gpus.size() == 2);
  CHECK(s.gpus[0].idle.host_us == 10);
  CHECK(s.gpus[0].idle.queued_us == 10);
  CHECK(s.gpus[1].idle.unknown_us == 20);
  REQUIRE(s.kernels.size() == 1);
  CHECK(s.kernels[0].launches == 4);
  CHECK(s.kernels[0].total_us == 162);
  CHECK(s.kernels[0].median_us == 40.5);  // of 1, 1, 80, 80
}

TEST_CASE("names of kernels tell their family") {
  for (const auto& [name, family] : std::vector<std::pair<std::string, std::string>>{
           {"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "all_reduce"},
           {"void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(...)", "all_reduce"},
           {"ncclDevKernel_AllGather_RING_LL", "all_gather"},
           {"nvjet_tst_64x8_64x16_4x1_v_bz_TNT", "gemm"},
           {"void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<...>>", "gemm"},
           {"fused_moe_kernel", "moe"},
           {"void flash::flash_fwd_splitkv_kernel<...>", "attention"},
           {"fmhaSm100aKernel_QkvBfloat16OBfloat16", "attention"},
           {"void flashinfer::BatchDecodeWithPagedKVCacheKernel<...>", "attention"},
           {"void flashinfer::norm::RMSNormKernel<8u, __nv_bfloat16>", "norm"},
           {"void vllm::cvt_fp16_to_fp4<__nv_bfloat16, false>", "quantise"},
           {"void at::native::vectorized_elementwise_kernel<4, ...>", "elementwise"},
           {"Memcpy DtoD (Device -> Device)", "copy"},
           {"somebody_elses_kernel", "other"}}) {
    INFO(name);
    CHECK(kernel_family(name) == family);
  }
}

TEST_CASE("what is no trace is refused with its place, an event without times is counted") {
  const auto errors_of = [](const std::string& text) {
    const auto t = read({text});
    REQUIRE(!t);
    return t.error().render();
  };
  CHECK_THAT(errors_of("{}"), Catch::Contains("no \"traceEvents\""));
  CHECK_THAT(errors_of(trace({call(1, 0, 1)})), Catch::Contains("no kernel ran"));
  const auto whole = trace({kernel("a", 1, 0, 1), kernel("b", 1, 2, 1)});
  const auto cut = errors_of(whole.substr(0, whole.size() - 60));
  CHECK_THAT(cut, Catch::Contains(":3:1: error: the trace ends within this event"));
  CHECK_THAT(errors_of("{\"traceEvents\": [\n{\"ph\": X}]}"), Catch::Contains(":2:8"));
  const auto t = read({trace({kernel("a", 1, 0, 1), R"({"cat":"kernel","name":"b","ts":4})"})});
  REQUIRE(t);
  CHECK(t->malformed == 1);
  CHECK(t->work.size() == 1);
}
