#include "sim/scenario/steady.hpp"

#include <catch2/catch.hpp>

#include "tests/support/fake_models.hpp"

namespace {

Duration us(double n) { return Duration::from_us(n); }

WorkloadPlan decode(std::int64_t sequences, std::int64_t prompt, double decoded_s = 0) {
  WorkloadPlan p;
  p.passes = SteadyDecode{sequences, prompt, Duration::from_seconds(decoded_s)};
  return p;
}

WorkloadPlan prefill(std::int64_t prompt, std::int64_t chunk) {
  WorkloadPlan p;
  p.passes = ColdPrefill{prompt, chunk};
  return p;
}

/// 100 us and 10 us a token on the GPU, `launch` on the host.
struct Box {
  explicit Box(double launch_us = 0) : step(us(100), us(10), launches(launch_us)) {}
  static LaunchCosts launches(double n) {
    LaunchCosts l;
    l.per_launch = us(n);
    return l;
  }
  std::vector<SteadyPass> passes(const WorkloadPlan& plan) const {
    return steady_passes(plan, {step.step(), sizes, host, 0});
  }
  RunMetrics run(const WorkloadPlan& plan) const { return steady_metrics(plan, passes(plan)); }
  fake::AffineStep step;
  EngineSizes sizes;
  HostTimes host;
};

}  // namespace

TEST_CASE("a steady decode gives each request one token a step") {
  const Box box;
  for (const int c : {1, 3, 8, 64}) {
    const RunMetrics m = box.run(decode(c, 100));
    CHECK(m.tpot_ms.mean == Approx((100 + 10 * c) / 1e3));
    CHECK(m.output_throughput * m.tpot_ms.mean / 1e3 == Approx(c));
    CHECK(m.concurrency == c);
    CHECK(m.busiest.shape.decode_kv_tokens == c * 101);
  }
}

TEST_CASE("a decode batch is padded to the captured size, and runs eagerly above the largest") {
  Box box(1000);  // a launch of 1 ms where nothing is captured
  box.sizes.graph_sizes = {1, 4, 8};
  CHECK(box.run(decode(3, 9)).tpot_ms.mean == Approx((100 + 10 * 4) / 1e3));
  CHECK(box.run(decode(8, 9)).tpot_ms.mean == Approx((100 + 10 * 8) / 1e3));
  CHECK(box.run(decode(9, 9)).tpot_ms.mean == Approx(1.0));
}

TEST_CASE("an asynchronous loop shows the longer of host and GPU, a waiting one their sum") {
  Box box;
  box.host.per_step = us(300);
  box.sizes.loop_depth = 2;
  CHECK(box.run(decode(1, 9)).tpot_ms.mean == Approx(0.3));
  box.sizes.loop_depth = 1;
  CHECK(box.run(decode(1, 9)).tpot_ms.mean == Approx(0.3 + 0.11));
}

TEST_CASE("what the requests have decoded is KV, and settles with the rate") {
  const Box box;
  // 110 us a step whatever the KV: 20 s are 181,818 steps.
  const auto pass = box.passes(decode(1, 71, 20)).front();
  CHECK(pass.record.shape.kv_max == 71 + 1 + 181818);
}

TEST_CASE("a cold prefill is the sum of its chunks, the last one as long as it is") {
  const Box box;
  const auto passes = box.passes(prefill(20, 8));
  REQUIRE(passes.size() == 3);
  CHECK(passes[0].record.shape.extend_tokens == 8);
  CHECK(passes[1].record.shape.extend_pairs == 8 * 8 + 36);
  CHECK(passes[2].record.shape.extend_tokens == 4);
  CHECK(passes[2].record.shape.kv_max == 20);
  const RunMetrics m = box.run(prefill(20, 8));
  CHECK(m.ttft_ms.mean == Approx((3 * 100 + 10 * 20) / 1e3));
  CHECK(m.prefill_throughput == Approx(20 / 500e-6));
  CHECK(box.passes(prefill(8, 8)).size() == 1);
  CHECK(box.passes(prefill(9, 8)).size() == 2);
}

TEST_CASE("a chunk left to the engine is its chunked_prefill_size; none means one pass") {
  Box box;
  box.sizes.chunked_prefill_size = 5;
  CHECK(box.passes(prefill(20, 0)).size() == 4);
  box.sizes.chunked_prefill_size = -1;
  CHECK(box.passes(prefill(20, 0)).size() == 1);
}

TEST_CASE("chunks of a prompt have the pairs of the whole prompt, capped or not") {
  for (const std::int64_t top_k : {0, 5, 16}) {
    const PassShape whole = PassShape::extend(30, 0, top_k);
    PassShape sum;
    for (std::int64_t done = 0; done < 30; done += 7) {
      const PassShape part = PassShape::extend(std::min<std::int64_t>(7, 30 - done), done, top_k);
      sum.extend_pairs += part.extend_pairs;
      sum.extend_pairs_capped += part.extend_pairs_capped;
    }
    CHECK(sum.extend_pairs == whole.extend_pairs);
    CHECK(sum.extend_pairs_capped == whole.extend_pairs_capped);
    CHECK(whole.extend_pairs_capped <= whole.extend_pairs);
  }
  // top-5 over 30 tokens: 1 + 2 + 3 + 4 and then 26 times 5
  CHECK(PassShape::extend(30, 0, 5).extend_pairs_capped == 10 + 26 * 5);
}
