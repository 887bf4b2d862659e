// The routed experts of one layer on the most loaded rank: top-k select, quantise, both grouped
// GEMMs, activation, combine. Start-up, the weights of every expert that is touched, the
// arithmetic, and the traffic of the routed rows. How many experts the tokens touch: all as early
// as possible
// (`balanced`), else a saturating share whose speed is fitted with the skew of the routing.
// Leaves out: tile edges per expert and kernel switches between 4 and 64 rows (residual table).

#include <algorithm>
#include <cmath>

#include "models/cost/kernel_class.hpp"

namespace {

enum { start, bandwidth, arithmetic, rows, saturation, wave, skew, warm };

// experts of the rank that the tokens reach
double touched_experts(const LawContext& c, const double* p, const double* x) {
  const double experts = x[1], per_expert = x[6] * x[0] / experts;
  const double touched =
      c.spread_out ? std::min(1.0, per_expert) : per_expert / (per_expert + p[saturation]);
  return std::max(1.0, experts / x[4] * touched);
}

double law(const LawContext& c, const double* p, const double* x) {
  const double topk = x[0], hidden = x[2], inter = x[3] / x[5], ep = x[4], tokens = x[6];
  const double local = touched_experts(c, p, x);
  // the most loaded rank of several gets more than its share, the more the fewer experts it has
  const double share = c.spread_out ? 1 : 1 + p[skew] * (1 - 1 / ep);
  const double routed = std::max(1.0, tokens * topk / ep * share);
  const double bytes = local * 3 * hidden * inter * c.weight_bytes;
  const double flops = 6 * routed * hidden * inter;
  // every expert fills whole tiles; tiles run in waves that each walk the inner size
  const double tile_rows = std::ceil(routed / local / 128) * local;
  const double tile_us = 2.0 * 128 * 128 / (c.peak / c.sms) / p[wave];
  const double waves = std::ceil(tile_rows * std::ceil(2 * inter / 128) / c.sms) * hidden +
                       std::ceil(tile_rows * std::ceil(hidden / 128) / c.sms) * inter;
  return p[start] +
         overlapped(reread_us(c, bytes, p[bandwidth], p[warm]),
                    overlapped(waves * tile_us, flops / (c.peak * p[arithmetic]))) +
         routed * 2 * (2 * hidden + 3 * inter) / (c.bandwidth * p[rows]);
}

KernelBound bound(const LawContext& c, const double* x) {
  const double topk = x[0], hidden = x[2], inter = x[3] / x[5], ep = x[4], tokens = x[6];
  const double flops = 4 * tokens * topk / ep * hidden * inter;  // two matrices at least
  return {flops / c.peak, 0};
}

double cold(const LawContext& c, const double* p, const double* x) {
  const double bytes = touched_experts(c, p, x) * 3 * x[2] * x[3] / x[5] * c.weight_bytes;
  return p[start] + bytes / (c.bandwidth * p[bandwidth]);
}

const Registered<KernelClass> me(
    "moe", {"routed experts",
            {"moe"},
            {"kernel_source", "moe_dtype", "distribution"},
            {{"topk", Between::nearest},
             {"num_experts", Between::nearest},
             {"hidden_size"},
             {"inter_size"},
             {"moe_ep_size"},
             {"moe_tp_size"},
             {"num_tokens"}},
            6,
            {{"start_us", 40, 2, 400},
             {"bandwidth_efficiency", 0.7, 0.05, 1.5},
             {"arithmetic_efficiency", 0.5, 0.01, 1.2},
             {"row_efficiency", 0.7, 0.02, 50},
             {"saturation", 0.8, 0.05, 5},
             {"wave_efficiency", 0.5, 0.01, 20},
             {"skew", 0.3, 0.001, 10},
             {"warm_efficiency", 1, 0.1, 8}},
            [](const GpuSpec& gpu, const std::map<std::string, std::string>& words) {
              const auto& dtype = word(words, "moe_dtype");
              // 16-bit activations with 4-bit weights compute in bf16
              auto c = law_context(gpu, dtype.rfind("w4a8", 0) == 0 ? "fp8" : dtype, dtype);
              c.spread_out = word(words, "distribution") == "balanced";
              return c;
            },
            law,
            bound,
            cold});

}  // namespace
