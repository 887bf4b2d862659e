#include <algorithm>
#include <cmath>

#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include "models/graph/expert_popularity.hpp"
#include "tests/support/hardware.hpp"

namespace {

const CostModels& costs() {
  static const CostModels models = load_costs("rtx-pro-6000-server", "sglang-0.5.9-sm120");
  return models;
}

const GpuSpec& gpu() {
  static const GpuSpec spec = load_gpu("rtx-pro-6000-server");
  return spec;
}

/// 1 to about 30,000, small ones often.
std::int64_t size() {
  const int bits = *rc::gen::inRange(0, 15);
  return *rc::gen::inRange<std::int64_t>(1, (1LL << bits) + 1);
}

Precision precision() {
  return *rc::gen::element(Precision::bf16, Precision::fp8, Precision::nvfp4);
}

/// Time at least the two rooflines, and rooflines that are what arithmetic and traffic say.
void check_roofline(const Prediction& p, double flops, FlopsPerSecond peak, double bytes) {
  RC_ASSERT(p.time >= p.arithmetic);
  RC_ASSERT(p.time >= p.memory);
  RC_ASSERT(p.time > Duration());
  RC_ASSERT(std::abs(p.arithmetic.us() - flops / peak.count() * 1e6) <=
            1e-6 + 1e-9 * p.arithmetic.us());
  RC_ASSERT(std::abs(p.memory.us() - bytes / 1.792e12 * 1e6) <= 1e-6 + 1e-9 * p.memory.us());
}

}  // namespace

TEST_CASE("no kernel is faster than its arithmetic or its traffic at the card's peaks") {
  CHECK(rc::check("GEMM", [] {
    const GemmShape s{size(), size(), size(), precision()};
    const double m = double(s.m), n = double(s.n), k = double(s.k);
    check_roofline(costs().gemm->predict(s), 2 * m * n * k, gpu().peak(s.precision),
                   n * k * bytes_per_element(s.precision) + 2 * (m * k + m * n));
  }));
  CHECK(rc::check("batched GEMM", [] {
    const BatchedGemmShape s{*rc::gen::inRange<std::int64_t>(1, 65), size(), size(), size()};
    const double b = double(s.batch), m = double(s.m), n = double(s.n), k = double(s.k);
    check_roofline(costs().batched_gemm->predict(s), 2 * b * m * n * k, gpu().bf16,
                   2 * b * (n * k + m * k + m * n));
  }));
  CHECK(rc::check("MoE", [] {
    const MoeShape s{
        size(), int(size()), int(size()), 8, 256, 1, *rc::gen::inRange(8, 257) * 1.0, precision()};
    const double weights = 3.0 * s.hidden * s.inter;
    check_roofline(costs().moe->predict(s), 2 * weights * double(s.tokens) * 8,
                   gpu().peak(s.precision),
                   weights * s.distinct_experts * bytes_per_element(s.precision));
  }));
  CHECK(rc::check("MLA decode", [] {
    const std::int64_t sequences = size(), tokens = sequences * size();
    const MlaDecodeShape s{sequences, tokens, 8, 512, 64, precision()};
    check_roofline(costs().mla_decode->predict(s), 2.0 * double(tokens) * 8 * (576 + 512),
                   gpu().bf16, double(tokens) * 576 * bytes_per_element(s.kv));
  }));
  CHECK(rc::check("MLA prefill", [] {
    const std::int64_t tokens = size();
    const MlaPrefillShape s{1, tokens, tokens, tokens * (tokens + 1) / 2,
                            8, 512,    64,     Precision::bf16};
    check_roofline(costs().mla_prefill->predict(s), 2.0 * double(s.pairs) * 8 * (576 + 512),
                   gpu().bf16, double(tokens) * 576 * 2);
  }));
  CHECK(rc::check("small kernels", [] {
    const ElementwiseShape s{size() * size()};
    check_roofline(costs().elementwise->predict(s), 0, gpu().bf16, double(s.bytes));
  }));
}

TEST_CASE("a small kernel in place fits the L2 up to twice the bytes, and is never slower") {
  static const CostModels models = load_costs("rtx-4090", "vllm-0.19-sm89");
  const auto& small = *models.elementwise;
  CHECK(rc::check([&] {
    const std::int64_t bytes = size() * size();
    RC_ASSERT(small.predict({bytes, true}).time <= small.predict({bytes}).time);
  }));
  // A norm over 2,048 tokens of 4,096: 67.1 MB, of which it touches 33.6, in an L2 of 75.5:
  // 2.2 us + 67.1 MB / 3 TB/s = 24.6 us (28 measured). Touching all of it, 2 x 67.1 / 75.5 - 1 =
  // 0.778 come from DRAM: 2.2 + 0.222 x 22.4 + 0.778 x 67.1 / 1.008 = 59 us.
  const std::int64_t norm = 4LL * 4096 * 2 * 2048;
  CHECK(small.predict({norm, true}).time.us() == Approx(24.6).margin(0.1));
  CHECK(small.predict({norm}).time.us() == Approx(59.0).margin(0.2));
}

TEST_CASE("more work never takes less time") {
  CHECK(rc::check("GEMM in m, n and k", [] {
    const GemmShape s{size(), size(), size(), precision()};
    const Duration before = costs().gemm->predict(s).time;
    const std::int64_t more = size();
    RC_ASSERT(costs().gemm->predict({s.m + more, s.n, s.k, s.precision}).time >= before);
    RC_ASSERT(costs().gemm->predict({s.m, s.n + more, s.k, s.precision}).time >= before);
    RC_ASSERT(costs().gemm->predict({s.m, s.n, s.k + more, s.precision}).time >= before);
  }));
  CHECK(rc::check("batched GEMM in the batch and in m", [] {
    const BatchedGemmShape s{*rc::gen::inRange<std::int64_t>(1, 65), size(), size(), size()};
    const Duration before = costs().batched_gemm->predict(s).time;
    RC_ASSERT(costs().batched_gemm->predict({s.batch + 1, s.m, s.n, s.k}).time >= before);
    RC_ASSERT(costs().batched_gemm->predict({s.batch, s.m + size(), s.n, s.k}).time >= before);
  }));
  CHECK(rc::check("MoE in tokens, with the experts that they touch", [] {
    static const ExpertPopularity popularity(256, 8, 0.85);
    const auto time = [](std::int64_t tokens) {
      return costs()
          .moe
          ->predict({tokens, 6144, 256, 8, 256, 8, popularity.distinct(tokens), Precision::nvfp4})
          .time;
    };
    const std::int64_t tokens = size();
    RC_ASSERT(time(tokens + size()) >= time(tokens));
  }));
  CHECK(rc::check("MLA decode in KV and in sequences", [] {
    const std::int64_t sequences = size(), tokens = sequences * size();
    const auto time = [](std::int64_t n, std::int64_t kv) {
      return costs().mla_decode->predict({n, kv, 8, 512, 64, Precision::bf16}).time;
    };
    RC_ASSERT(time(sequences, tokens + size()) >= time(sequences, tokens));
    RC_ASSERT(time(sequences + 1, tokens + 1) >= time(sequences, tokens));
  }));
  CHECK(rc::check("MLA prefill in pairs", [] {
    const std::int64_t a = size(), b = a + size();
    const auto time = [](std::int64_t tokens) {
      return costs()
          .mla_prefill
          ->predict({1, tokens, tokens, tokens * (tokens + 1) / 2, 8, 512, 64, Precision::bf16})
          .time;
    };
    RC_ASSERT(time(b) >= time(a));
  }));
  CHECK(rc::check("the indexer in pairs and past its top-k", [] {
    const std::int64_t a = size(), b = a + size();
    const auto time = [](std::int64_t kv) {
      return costs().indexer->predict({1, kv, kv, 32, 128, 2048}).time;
    };
    RC_ASSERT(time(b) >= time(a));
  }));
  CHECK(rc::check("small kernels in bytes", [] {
    const std::int64_t a = size(), b = a + size();
    RC_ASSERT(costs().elementwise->predict({b}).time >= costs().elementwise->predict({a}).time);
  }));
}

TEST_CASE("a cost model is a function: the same shape, the same answer") {
  CHECK(rc::check("twice, from two loads", [] {
    static const CostModels other = load_costs("rtx-pro-6000-server", "sglang-0.5.9-sm120");
    const GemmShape s{size(), size(), size(), precision()};
    RC_ASSERT(costs().gemm->predict(s).time == costs().gemm->predict(s).time);
    RC_ASSERT(costs().gemm->predict(s).time == other.gemm->predict(s).time);
  }));
}

TEST_CASE("a quantised GEMM of few tiles takes one wave along k, however small m is") {
  // nvfp4, n 512, k 6144: 4 tiles, one wave: 3.8 us + 6144 x 3.51 ns = 25.4 us at m = 1 and at 128
  // (measured: 25). bf16 splits k: 3 us + 6.3 MB / 1.45 TB/s = 7.3 us at m = 1.
  const auto us = [](std::int64_t m, Precision p) {
    return costs().gemm->predict({m, 512, 6144, p}).time.us();
  };
  CHECK(us(1, Precision::nvfp4) == Approx(25.365).margin(0.01));
  CHECK(us(128, Precision::nvfp4) == us(1, Precision::nvfp4));
  CHECK(us(1, Precision::bf16) ==
        Approx(3 + (512.0 * 6144 * 2 + 6144 * 2 + 512 * 2) / 1.45e6).margin(0.001));
}

TEST_CASE("a GEMM pays for a further wave when its tiles outnumber the SMs") {
  // 188 SMs, m = 1024 is 8 tiles high. 23 tiles wide: 184 tiles, one wave, held by arithmetic: 3.8
  // us
  // + 2 x 1024 x 2944 x 8192 / 1200 TFLOP/s = 45.0. 24 wide: 192 tiles, two waves: 3.8 us + 2 x
  // 8192 x 3.51 ns = 61.3.
  const auto us = [](int columns) {
    return costs().gemm->predict({1024, 128 * columns, 8192, Precision::nvfp4}).time.us();
  };
  CHECK(us(23) == Approx(44.96).margin(0.01));
  CHECK(us(24) == Approx(61.31).margin(0.01));
  CHECK(us(24) - us(23) > 5 * (us(23) - us(22)));
}

TEST_CASE("decode MoE follows the experts that are touched, not the tokens") {
  // 53 us + experts x 2.654 MB / 1.2 TB/s + tokens x 8 x 9.437 MFLOP / 320 TFLOP/s
  const auto us = [](std::int64_t tokens, double experts) {
    return costs()
        .moe->predict({tokens, 6144, 256, 8, 256, 8, experts, Precision::nvfp4})
        .time.us();
  };
  const double expert_bytes = 3.0 * 6144 * 256 * 0.5625, token_flops = 2.0 * 3 * 6144 * 256 * 8;
  CHECK(us(1, 8) == Approx(53 + 8 * expert_bytes / 1.2e6 + token_flops / 320e6).epsilon(1e-6));
  CHECK(us(32, 163) ==
        Approx(53 + 163 * expert_bytes / 1.2e6 + 32 * token_flops / 320e6).epsilon(1e-6));
  CHECK(us(32, 129) < us(32, 163));
  CHECK(us(64, 100) - us(32, 100) < us(32, 110) - us(32, 100));
}

TEST_CASE("a law that is missing, misspelt or out of range is an error with its place") {
  const auto errors = [](const std::string& back_end, const std::string& law) {
    Reading reading;
    BackEnds b;
    b.gemm = back_end;
    const Settings laws = yaml("schema: 1\ngpu: x\ngemm:\n  cutlass: " + law + "\n");
    read_cost_models({load_gpu("rtx-pro-6000-server")}, b, laws, reading);
    return reading.errors.render();
  };
  CHECK(errors("cutlas", "{}").find("no law for the gemm back end 'cutlas'") != std::string::npos);
  CHECK(errors("cutlas", "{}").find("did you mean 'cutlass'?") != std::string::npos);
  CHECK(errors("cutlass", "{model: wave, source: x}").find("'wave' is not a valid model") !=
        std::string::npos);
  CHECK(errors("cutlass", "{model: wave_k, source: x, error: -1}")
            .find("'-1' must lie between 0 and 10") != std::string::npos);
  CHECK(errors("cutlass", "{model: wave_k, source: x, error: 0.1, bf16: {start: 1 us}}")
            .find("needs 'bandwidth'") != std::string::npos);
}

TEST_CASE("a precision without coefficients is priced by its roofline and says so") {
  Reading reading;
  BackEnds b;
  b.gemm = "x";
  const Settings laws =
      yaml("schema: 1\ngpu: x\ngemm: {x: {model: wave_k, source: s, error: 0.1}}\n");
  const auto models = read_cost_models({load_gpu("rtx-pro-6000-server")}, b, laws, reading);
  REQUIRE(models.gemm);
  const auto p = models.gemm->predict({16, 1024, 1024, Precision::fp8});
  CHECK(p.provenance == Provenance::roofline);
  CHECK(p.time == std::max(p.arithmetic, p.memory));
}
