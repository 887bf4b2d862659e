// Dense GEMM as the longest of three: weight and activation traffic, arithmetic, and the waves of
// 128x128 tiles, each walking the whole of K. Quantised kernels do not split K, so with few tiles a
// wave takes k x c however small m is; without that term decode sizes are 21 % (median) to 59 %
// (p90) wrong. Fitted per precision on graph-replayed tables of one GPU.
// Leaves out: tiles other than 128x128, split-K heuristics of cuBLAS between m = 64 and 1024
// (bf16: p90 30 %), warm L2 (weights are priced cold, as in serving).

#include <algorithm>
#include <cmath>

#include "models/cost/cost_model.hpp"
#include "sim/base/assert.hpp"

namespace {

class WaveKGemm final : public CostModel<GemmShape> {
 public:
  WaveKGemm(const GpuSpec& gpu, Section& s) : gpu_(gpu), quality_(read_quality(s)) {
    for (const Precision p : {Precision::bf16, Precision::fp8, Precision::nvfp4}) {
      const auto key = std::string(name(p));
      const Settings* node = s.take(key);
      if (!node) continue;
      Section c(*node, s.path() + "." + key, s.reading());
      Law& law = laws_[static_cast<int>(p)];
      law.known = true;
      law.start_us = c.required<Duration>("start", plausible_time()).us();
      law.bandwidth = c.required<BytesPerSecond>("bandwidth", plausible_bandwidth()).count();
      law.peak = c.required<FlopsPerSecond>("peak", plausible_peak()).count();
      law.wave_us_per_k = c.required<Duration>("wave_per_k", plausible_time()).us();
    }
  }

  Prediction predict(const GemmShape& s) const override {
    SIM_ASSERT(s.m > 0 && s.n > 0 && s.k > 0);
    const auto m = static_cast<double>(s.m), n = static_cast<double>(s.n),
               k = static_cast<double>(s.k);
    const double bytes = n * k * bytes_per_element(s.precision) + (m * k + m * n) * 2;
    const double flops = 2 * m * n * k;
    const Duration memory = Duration::from_seconds(bytes / gpu_.memory_bandwidth.count());
    const Duration arithmetic = Flops(flops) / gpu_.peak(s.precision);
    const Law& law = laws_[static_cast<int>(s.precision)];
    if (!law.known)
      return {std::max(memory, arithmetic), arithmetic, memory, Provenance::roofline, 1.0};
    const double tiles = std::ceil(m / 128) * std::ceil(n / 128);
    const double waves_us = std::ceil(tiles / gpu_.sm_count) * k * law.wave_us_per_k;
    const double us =
        law.start_us + std::max({bytes / law.bandwidth * 1e6, flops / law.peak * 1e6, waves_us});
    return predicted(us, arithmetic, memory, quality_);
  }

 private:
  struct Law {
    bool known = false;
    double start_us = 0, bandwidth = 0, peak = 0, wave_us_per_k = 0;
  };
  GpuSpec gpu_;
  ModelQuality quality_;
  Law laws_[3];
};

const Registered<CostModelFactory<GemmShape>> me("wave_k", make_cost_model<WaveKGemm, GemmShape>);

}  // namespace
