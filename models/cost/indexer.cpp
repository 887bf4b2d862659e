// The indexer of sparse MLA after its projections: logits of each new token against all keys of its
// sequence, then top-k once a sequence is longer than k. Nobody measured it on SM120 kernel by
// kernel: the shape (a knee where the KV passes k, then growth per KV token) is H200's and B200's,
// the rates are what served GLM-5.x decode curves on RTX PRO 6000 show.
// Leaves out: batching effects, the fused variants.

#include <algorithm>

#include "models/cost/cost_model.hpp"
#include "sim/base/assert.hpp"

namespace {

class Indexer final : public CostModel<IndexerShape> {
 public:
  Indexer(const GpuSpec& gpu, Section& s)
      : gpu_(gpu),
        quality_(read_quality(s)),
        start_us_(s.required<Duration>("start", plausible_time()).us()),
        top_k_us_(s.required<Duration>("top_k", plausible_time()).us()),
        pair_us_(s.required<Duration>("per_pair", plausible_time()).us()),
        extend_pair_us_(
            s.optional<Duration>("per_extend_pair", Duration::from_us(pair_us_), plausible_time())
                .us()) {}

  Prediction predict(const IndexerShape& s) const override {
    SIM_ASSERT(s.sequences > 0 && s.pairs > 0);
    const auto pairs = static_cast<double>(s.pairs);
    const double us = start_us_ + (s.extend ? extend_pair_us_ : pair_us_) * pairs +
                      (s.kv_max > s.top_k ? top_k_us_ : 0);
    return predicted(us, Flops(2 * pairs * s.heads * s.dim) / gpu_.fp8,
                     Duration::from_seconds(static_cast<double>(s.kv_max) * s.dim /
                                            gpu_.memory_bandwidth.count()),
                     quality_);
  }

 private:
  GpuSpec gpu_;
  ModelQuality quality_;
  double start_us_, top_k_us_, pair_us_, extend_pair_us_;
};

const Registered<CostModelFactory<IndexerShape>> me("knee_and_slope",
                                                    make_cost_model<Indexer, IndexerShape>);

}  // namespace
