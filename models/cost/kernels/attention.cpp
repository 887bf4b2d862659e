// Attention cores with grouped queries: `context` over new prompts (causal, nothing cached) and
// `generation` of one token per sequence over a paged cache. Decode is bytes of KV at a rate, a
// part per sequence and head, and a serial walk along the sequence where the kernel does not split
// it; prefill is the causal pairs at a rate and a walk along the longest prompt. Leaves out:
// unequal lengths in a batch (attention tail) and kernels that mix both kinds.

#include <algorithm>

#include "models/cost/kernel_class.hpp"

namespace {

double seen(const LawContext& c, double length) {
  return c.window > 0 ? std::min(length, c.window) : length;
}

// causal pairs of one sequence of `n` tokens under the window
double pairs(const LawContext& c, double n) {
  if (c.window <= 0 || n <= c.window) return n * (n + 1) / 2;
  return c.window * (c.window + 1) / 2 + (n - c.window) * c.window;
}

enum { start, bandwidth, arithmetic, per_head, serial, extra };

double generation(const LawContext& c, const double* p, const double* x) {
  const double kv_heads = x[0], heads = x[1], batch = x[2], length = seen(c, x[3] + 1);
  const double bytes = batch * kv_heads * length * c.head_dim * 2 * c.kv_bytes;
  const double flops = 4 * batch * heads * length * c.head_dim;
  const double traffic =
      overlapped(reread_us(c, bytes, p[bandwidth], p[extra]), flops / (c.peak * p[arithmetic]));
  return p[start] + p[serial] * 1e-3 * length +
         overlapped(traffic, p[per_head] * 1e-3 * batch * heads);
}

KernelBound generation_bound(const LawContext& c, const double* x) {
  const double length = seen(c, x[3] + 1);
  const double bytes = x[2] * x[0] * length * c.head_dim * 2 * c.kv_bytes;
  return {4 * x[2] * x[1] * length * c.head_dim / c.peak,
          bytes > c.l2 ? (bytes - c.l2) / c.bandwidth : 0};
}

// KV beyond the L2 was measured cold.
double generation_cold(const LawContext& c, const double* p, const double* x) {
  const double bytes = x[2] * x[0] * seen(c, x[3] + 1) * c.head_dim * 2 * c.kv_bytes;
  if (bytes > c.l2) return p[start];
  return p[start] + bytes / (c.bandwidth * p[bandwidth]);
}

double context(const LawContext& c, const double* p, const double* x) {
  const double kv_heads = x[0], heads = x[1], batch = x[2], length = x[3];
  // kernels that do not skip all that the window hides work on a share of it
  const double all = length * (length + 1) / 2, inside = pairs(c, length);
  const double flops = 4 * batch * heads * (inside + p[extra] * (all - inside)) * c.head_dim;
  const double bytes = batch * length * c.head_dim * (2 * 2 * heads + 2 * kv_heads * c.kv_bytes);
  return p[start] + p[per_head] * 1e-3 * batch * heads + p[serial] * 1e-3 * seen(c, length) +
         bytes / (c.bandwidth * p[bandwidth]) + flops / (c.peak * p[arithmetic]);
}

KernelBound context_bound(const LawContext& c, const double* x) {
  return {4 * x[2] * x[1] * pairs(c, x[3]) * c.head_dim / c.peak, 0};
}

std::vector<LawParameter> parameters(LawParameter last) {
  return {{"start_us", 8, 1, 200},
          {"bandwidth_efficiency", 0.8, 0.02, 8},
          {"arithmetic_efficiency", 0.5, 0.005, 1.5},
          {"per_head_ns", 2, 0.001, 2000},
          {"serial_ns_per_token", 1, 0.0001, 500},
          std::move(last)};
}

LawContext attention_context(const GpuSpec& gpu, const std::map<std::string, std::string>& w) {
  // a cache in fp8 may be multiplied as it is, whatever the queries came as
  const auto kv = word(w, "kv_cache_dtype");
  auto c = law_context(gpu, kv == "fp8" ? kv : word(w, "attn_dtype"), "bfloat16");
  c.kv_bytes = table_bytes_per_element(word(w, "kv_cache_dtype"));
  c.head_dim = word_number(w, "head_dim", 128);
  c.window = word_number(w, "window_size", 0);
  return c;
}

const std::vector<std::string> words{"kernel_source", "attn_dtype", "kv_cache_dtype", "head_dim",
                                     "window_size"};
const std::vector<KernelAxis> decode_axes{
    {"num_key_value_heads"}, {"num_heads"}, {"batch_size"}, {"step"}};
const std::vector<KernelAxis> prefill_axes{
    {"num_key_value_heads"}, {"num_heads"}, {"batch_size"}, {"isl"}};

const Registered<KernelClass> decode("generation_attention",
                                     {"decode attention with grouped queries",
                                      {"generation_attention"},
                                      words,
                                      decode_axes,
                                      3,
                                      parameters({"warm_efficiency", 2, 0.1, 8}),
                                      attention_context,
                                      generation,
                                      generation_bound,
                                      generation_cold});
const Registered<KernelClass> prefill("context_attention",
                                      {"prefill attention with grouped queries",
                                       {"context_attention"},
                                       words,
                                       prefill_axes,
                                       3,
                                       parameters({"hidden_share", 0.1, 0.0001, 1}),
                                       attention_context,
                                       context,
                                       context_bound});

}  // namespace
