// Sparse MLA (DSA) on a card where nobody measured it: indexer logits, top-k and attention over the
// picked keys, each as two other cards measured it and moved to this one. Every part is stated as a
// share of a card's own bandwidth or peak, or in cycles of its SMs, so this card's bandwidth,
// peaks, SM count and clock are all that a move takes; start-up times stay. The answer is the
// geometric mean of the two; its error is at least how far either lies from it. Leaves out: kernels
// written for this card, the fused variants, and that FlashMLA computes all top-k picks of a query
// that has fewer keys (priced here by the keys there are).

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "models/cost/cost_model.hpp"
#include "sim/base/assert.hpp"

namespace {

/// One part for each measured card, as `read` reads it from a section.
template <class Part, class Read>
std::vector<Part> read_cards(Section& s, Read read) {
  std::vector<Part> parts;
  const Settings* node = s.take_required("measured");
  if (!node) return parts;
  Section measured(*node, s.path() + ".measured", s.reading());
  for (const auto& entry : node->entries()) {
    const Settings* part = measured.take(entry.key);
    Section card(*part, measured.path() + "." + entry.key, s.reading());
    parts.push_back(read(card));
  }
  if (parts.size() != 2)
    s.error("measured", fmt::format("parts of {} cards; the mean is that of two", parts.size()),
            "write 'measured: {h200: {...}, b200: {...}}'");
  return parts;
}

double read_efficiency(Section& s, const std::string& key) {
  return s.required<double>(key, between(0.001, 1.0));
}

double read_us(Section& s, const std::string& key) {
  return s.required<Duration>(key, plausible_time()).us();
}

/// The geometric mean of what the parts of two cards say, both on this one.
template <class Part, class Time>
Prediction mean(const std::vector<Part>& parts, Time us, Duration arithmetic, Duration memory,
                ModelQuality quality) {
  SIM_ASSERT(parts.size() == 2);
  const double a = us(parts[0]), b = us(parts[1]);
  quality.error = std::max(quality.error, std::sqrt(std::max(a, b) / std::min(a, b)) - 1);
  return predicted(std::sqrt(a * b), arithmetic, memory, quality);
}

/// A thread block ranks the scores of one query; an SM runs one at a time.
struct TopK {
  double start_us = 0;
  double row_cycles = 0, key_cycles = 0;

  double us(const GpuSpec& gpu, double rows, double pairs, double kv_max) const {
    const double longest = row_cycles + key_cycles * kv_max;
    const double shared = (rows * row_cycles + pairs * key_cycles) / gpu.sm_count;
    return start_us + std::max(longest, shared) / gpu.boost_clock.count() * 1e6;
  }
};

TopK read_top_k(Section& s, const std::string& key) {
  TopK t;
  const Settings* node = s.take_required(key);
  if (!node) return t;
  Section k(*node, s.path() + "." + key, s.reading());
  t.start_us = read_us(k, "start");
  t.row_cycles = k.optional<double>("row_cycles", 0, between(0.0, 1e6));
  t.key_cycles = k.optional<double>("key_cycles", 0, between(0.0, 1e3));
  return t;
}

struct IndexerPart {
  double start_us = 0, bandwidth = 0, arithmetic = 0;  // of the logits
  TopK decode, extend;
};

class ComposedIndexer final : public CostModel<IndexerShape> {
 public:
  ComposedIndexer(const GpuSpec& gpu, Section& s) : gpu_(gpu), quality_(read_quality(s)) {
    parts_ = read_cards<IndexerPart>(s, [](Section& card) {
      IndexerPart p;
      p.start_us = read_us(card, "logits_start");
      p.bandwidth = read_efficiency(card, "bandwidth_efficiency");
      p.arithmetic = read_efficiency(card, "arithmetic_efficiency");
      p.decode = read_top_k(card, "decode_top_k");
      p.extend = read_top_k(card, "extend_top_k");
      return p;
    });
    if (gpu.boost_clock.count() <= 0)
      s.error("model",
              fmt::format("{} states no boost_clock, and a top-k is moved by it", gpu.name),
              "state boost_clock in hardware/gpus, or choose another indexer back end");
  }

  Prediction predict(const IndexerShape& s) const override {
    SIM_ASSERT(s.sequences > 0 && s.pairs > 0 && s.kv_max > 0 && s.heads > 0);
    const auto pairs = static_cast<double>(s.pairs), kv_max = static_cast<double>(s.kv_max);
    const double bandwidth = gpu_.memory_bandwidth.count() * 1e-6;  // bytes per us
    const double flops = 2.0 * s.heads * s.dim;                     // per pair
    // a key is stored in FP8 with one FP32 scale
    const double key_bytes = s.dim + 4;
    const double read = (s.extend ? kv_max : pairs) * key_bytes;
    // DeepGEMM's MQA logits: a block takes 128 rows of (query, head), so fewer queries than blocks
    // on the SMs save nothing
    const double tiled = std::max(pairs, kv_max * gpu_.sm_count * std::max(1.0, 128.0 / s.heads));
    const auto us = [&](const IndexerPart& p) {
      double logits = read / (bandwidth * p.bandwidth);
      if (s.extend)
        logits = std::max(logits, tiled * flops / (gpu_.fp8.count() * 1e-6 * p.arithmetic));
      logits += p.start_us;
      if (s.kv_max <= s.top_k) return logits;
      if (!s.extend)
        return logits + p.decode.us(gpu_, static_cast<double>(s.sequences), pairs, kv_max);
      // scores are FP32 and read once; pairs / KV is how many queries there are at least
      return logits +
             std::max(p.extend.us(gpu_, pairs / kv_max, pairs, kv_max), pairs * 4 / bandwidth);
    };
    return mean(parts_, us, Flops(pairs * flops) / gpu_.fp8,
                Duration::from_seconds(read * 1e-6 / bandwidth), quality_);
  }

 private:
  GpuSpec gpu_;
  ModelQuality quality_;
  std::vector<IndexerPart> parts_;
};

/// Attention over the picked keys: start-up, then their bytes and their arithmetic one after the
/// other at shares of the bandwidth and of the BF16 peak.
struct DecodePart {
  struct Kernel {
    double start_us = 0, bandwidth = 0, arithmetic = 0;
  } bf16, fp8;  // by the precision of the KV
};

class ComposedDecode final : public CostModel<MlaDecodeShape> {
 public:
  ComposedDecode(const GpuSpec& gpu, Section& s) : gpu_(gpu), quality_(read_quality(s)) {
    const auto kernel = [](Section& card, const std::string& kv) {
      DecodePart::Kernel k;
      const Settings* node = card.take_required(kv);
      if (!node) return k;
      Section section(*node, card.path() + "." + kv, card.reading());
      k.start_us = read_us(section, "start");
      k.bandwidth = read_efficiency(section, "bandwidth_efficiency");
      k.arithmetic = read_efficiency(section, "arithmetic_efficiency");
      return k;
    };
    parts_ = read_cards<DecodePart>(s, [&](Section& card) {
      return DecodePart{kernel(card, "bf16"), kernel(card, "fp8")};
    });
  }

  Prediction predict(const MlaDecodeShape& s) const override {
    SIM_ASSERT(s.sequences > 0 && s.kv_tokens >= s.sequences && s.heads > 0);
    const auto tokens = static_cast<double>(s.kv_tokens);
    const double flops = 2 * tokens * s.heads * (2 * s.kv_lora + s.rope);
    const Duration arithmetic = Flops(flops) / gpu_.bf16;
    const Duration memory = Duration::from_seconds(
        tokens * (s.kv_lora + s.rope) * bytes_per_element(s.kv) / gpu_.memory_bandwidth.count());
    const auto us = [&](const DecodePart& p) {
      const auto& k = s.kv == Precision::bf16 ? p.bf16 : p.fp8;
      return k.start_us + memory.us() / k.bandwidth + arithmetic.us() / k.arithmetic;
    };
    return mean(parts_, us, arithmetic, memory, quality_);
  }

 private:
  GpuSpec gpu_;
  ModelQuality quality_;
  std::vector<DecodePart> parts_;
};

struct PrefillPart {
  double start_us = 0, arithmetic = 0;
};

class ComposedPrefill final : public CostModel<MlaPrefillShape> {
 public:
  ComposedPrefill(const GpuSpec& gpu, Section& s) : gpu_(gpu), quality_(read_quality(s)) {
    parts_ = read_cards<PrefillPart>(s, [](Section& card) {
      PrefillPart p;
      p.start_us = read_us(card, "start");
      p.arithmetic = read_efficiency(card, "arithmetic_efficiency");
      return p;
    });
  }

  Prediction predict(const MlaPrefillShape& s) const override {
    SIM_ASSERT(s.sequences > 0 && s.pairs >= s.tokens && s.heads > 0);
    const double flops = 2.0 * static_cast<double>(s.pairs) * s.heads * (2 * s.kv_lora + s.rope);
    const Duration arithmetic = Flops(flops) / gpu_.bf16;
    const Duration memory =
        Duration::from_seconds(static_cast<double>(s.tokens) * (s.kv_lora + s.rope) *
                               bytes_per_element(s.kv) / gpu_.memory_bandwidth.count());
    const auto us = [&](const PrefillPart& p) {
      return p.start_us + arithmetic.us() / p.arithmetic;
    };
    return mean(parts_, us, arithmetic, memory, quality_);
  }

 private:
  GpuSpec gpu_;
  ModelQuality quality_;
  std::vector<PrefillPart> parts_;
};

const Registered<CostModelFactory<IndexerShape>> indexer(
    "composed", make_cost_model<ComposedIndexer, IndexerShape>);
const Registered<CostModelFactory<MlaDecodeShape>> decode(
    "composed", make_cost_model<ComposedDecode, MlaDecodeShape>);
const Registered<CostModelFactory<MlaPrefillShape>> prefill(
    "composed", make_cost_model<ComposedPrefill, MlaPrefillShape>);

}  // namespace
