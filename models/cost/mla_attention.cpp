// Absorbed MLA attention, decode and prefill, for kernels that split the KV of a sequence over the
// GPU (Triton). Decode: start-up, a part per sequence, the latent KV read once, and for few
// sequences the walk of a block along its split: so much per KV token up to a limit that is shared
// out between sequences (with one sequence 7 ns a token, up to 50 us). Prefill: start-up, the
// causal pairs at a rate, and a serial part along the longest sequence. Leaves out: the step where
// the KV of a batch outgrows the L2 (p90 27 % on decode), kernels that walk KV serially, head
// counts far from the fitted 8 (128 heads are arithmetic bound).

#include <algorithm>

#include "models/cost/cost_model.hpp"
#include "sim/base/assert.hpp"

namespace {

class MlaDecode final : public CostModel<MlaDecodeShape> {
 public:
  MlaDecode(const GpuSpec& gpu, Section& s)
      : gpu_(gpu),
        quality_(read_quality(s)),
        start_us_(s.required<Duration>("start", plausible_time()).us()),
        sequence_us_(s.required<Duration>("per_sequence", plausible_time()).us()),
        walk_us_(s.optional<Duration>("walk", Duration(), plausible_time()).us()),
        walk_most_us_(s.optional<Duration>("walk_most", Duration(), plausible_time()).us()),
        bandwidth_(s.required<BytesPerSecond>("bandwidth", plausible_bandwidth()).count()) {}

  Prediction predict(const MlaDecodeShape& s) const override {
    SIM_ASSERT(s.sequences > 0 && s.kv_tokens >= s.sequences && s.heads > 0);
    const auto tokens = static_cast<double>(s.kv_tokens);
    const double bytes = tokens * (s.kv_lora + s.rope) * bytes_per_element(s.kv);
    const double flops = 2 * tokens * s.heads * (2 * s.kv_lora + s.rope);
    const auto sequences = static_cast<double>(s.sequences);
    const double walk_us = std::min(walk_us_ * tokens / sequences, walk_most_us_ / sequences);
    const double us = start_us_ + sequence_us_ * sequences + walk_us + bytes / bandwidth_ * 1e6;
    return predicted(us, Flops(flops) / gpu_.bf16,
                     Duration::from_seconds(bytes / gpu_.memory_bandwidth.count()), quality_);
  }

 private:
  GpuSpec gpu_;
  ModelQuality quality_;
  double start_us_, sequence_us_, walk_us_, walk_most_us_, bandwidth_;
};

class MlaPrefill final : public CostModel<MlaPrefillShape> {
 public:
  MlaPrefill(const GpuSpec& gpu, Section& s)
      : gpu_(gpu),
        quality_(read_quality(s)),
        start_us_(s.required<Duration>("start", plausible_time()).us()),
        serial_us_(s.required<Duration>("per_token_of_longest", plausible_time()).us()),
        peak_(s.required<FlopsPerSecond>("peak", plausible_peak()).count()) {}

  Prediction predict(const MlaPrefillShape& s) const override {
    SIM_ASSERT(s.sequences > 0 && s.pairs >= s.tokens && s.heads > 0);
    const double flops = 2.0 * static_cast<double>(s.pairs) * s.heads * (2 * s.kv_lora + s.rope);
    const double bytes =
        static_cast<double>(s.tokens) * (s.kv_lora + s.rope) * bytes_per_element(s.kv);
    const double us =
        start_us_ + flops / peak_ * 1e6 + serial_us_ * static_cast<double>(s.tokens_max);
    return predicted(us, Flops(flops) / gpu_.bf16,
                     Duration::from_seconds(bytes / gpu_.memory_bandwidth.count()), quality_);
  }

 private:
  GpuSpec gpu_;
  ModelQuality quality_;
  double start_us_, serial_us_, peak_;
};

const Registered<CostModelFactory<MlaDecodeShape>> decode(
    "split_kv", make_cost_model<MlaDecode, MlaDecodeShape>);
const Registered<CostModelFactory<MlaPrefillShape>> prefill(
    "causal_pairs", make_cost_model<MlaPrefill, MlaPrefillShape>);

}  // namespace
