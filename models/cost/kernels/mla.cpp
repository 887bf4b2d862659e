// MLA attention cores (latent of 512 + 64), and whole attention blocks of DeepSeek-V3 with their
// projections. Decode reads the latent KV once for all heads; prefill walks the causal pairs. Some
// kernels walk KV serially whatever the batch: then the serial term is the law.
// The `step` of a decode row counts past tokens. Leaves out: L2 steps (residual table).

#include <algorithm>

#include "models/cost/kernel_class.hpp"

namespace {

constexpr double latent = 576, value = 512;
enum { start, bandwidth, arithmetic, per_sequence, serial, warm, projections };

double decode_core(const LawContext& c, const double* p, const double* x) {
  const double heads = x[0], batch = x[1], length = x[2] + 1;
  const double bytes = batch * length * latent * c.kv_bytes;
  const double flops = 2 * batch * heads * length * (latent + value);
  return p[start] + p[per_sequence] * 1e-3 * batch * (1 + heads * 0.05) +
         p[serial] * 1e-3 * length +
         std::max(reread_us(c, bytes, p[bandwidth], p[warm]), flops / (c.peak * p[arithmetic]));
}

KernelBound decode_bound(const LawContext& c, const double* x) {
  const double bytes = x[1] * (x[2] + 1) * latent * c.kv_bytes;
  return {2 * x[1] * x[0] * (x[2] + 1) * (latent + value) / c.peak,
          bytes > c.l2 ? (bytes - c.l2) / c.bandwidth : 0};
}

double decode_cold(const LawContext& c, const double* p, const double* x) {
  return p[start] + x[1] * (x[2] + 1) * latent * c.kv_bytes / (c.bandwidth * p[bandwidth]);
}

double prefill_core(const LawContext& c, const double* p, const double* x) {
  const double heads = x[0], batch = x[1], length = x[2];
  const double flops = 2 * batch * heads * length * (length + 1) / 2 * (192 + 128);
  const double bytes = batch * length * (heads * 2 * 320 + latent * c.kv_bytes);
  return p[start] + p[per_sequence] * 1e-3 * batch * heads + p[serial] * 1e-3 * length +
         reread_us(c, bytes, p[bandwidth], p[warm]) + flops / (c.peak * p[arithmetic]);
}

KernelBound prefill_bound(const LawContext& c, const double* x) {
  return {x[1] * x[0] * x[2] * (x[2] + 1) * 320 / c.peak, 0};
}

// q_a, q_b, kv_a, the absorbed or expanded kv_b and o of DeepSeek-V3
double projection_weights(double heads) {
  return 7168.0 * (1536 + 576) + heads * (1536.0 * 192 + 512.0 * 256 + 128.0 * 7168);
}

double projection_us(const LawContext& c, const double* p, double heads, double tokens) {
  const double weights = projection_weights(heads);
  return std::max(weights * c.weight_bytes / c.bandwidth, 2 * tokens * weights / c.peak) /
         p[projections];
}

double decode_module(const LawContext& c, const double* p, const double* x) {
  return decode_core(c, p, x) + projection_us(c, p, x[0], x[1]);
}

double prefill_module(const LawContext& c, const double* p, const double* x) {
  return prefill_core(c, p, x) + projection_us(c, p, x[0], x[1] * x[2]);
}

std::vector<LawParameter> parameters(bool module) {
  std::vector<LawParameter> p{{"start_us", 10, 1, 2000},
                              {"bandwidth_efficiency", 0.8, 0.02, 8},
                              {"arithmetic_efficiency", 0.4, 0.005, 1.5},
                              {"per_sequence_ns", 30, 0.001, 10000},
                              {"serial_ns_per_token", 1, 0.0001, 500},
                              {"warm_efficiency", 2, 0.1, 8}};
  if (module) p.push_back({"projection_efficiency", 0.6, 0.02, 1.5});
  return p;
}

LawContext core_context(const GpuSpec& gpu, const std::map<std::string, std::string>& w) {
  auto c = law_context(gpu, word(w, "mla_dtype"), "bfloat16");
  c.kv_bytes = table_bytes_per_element(word(w, "kv_cache_dtype"));
  return c;
}

LawContext module_context(const GpuSpec& gpu, const std::map<std::string, std::string>& w) {
  auto c = law_context(gpu, word(w, "gemm_type"), word(w, "gemm_type"));
  c.kv_bytes = table_bytes_per_element(word(w, "kv_cache_dtype"));
  return c;
}

const std::vector<std::string> core_words{"kernel_source", "mla_dtype", "kv_cache_dtype"};
const std::vector<std::string> module_words{"kernel_source", "mla_dtype", "kv_cache_dtype",
                                            "gemm_type"};
const std::vector<KernelAxis> decode_axes{{"num_heads"}, {"batch_size"}, {"step"}};
const std::vector<KernelAxis> prefill_axes{{"num_heads"}, {"batch_size"}, {"isl"}};

const Registered<KernelClass> a("generation_mla", {"MLA decode core",
                                                   {"generation_mla"},
                                                   core_words,
                                                   decode_axes,
                                                   2,
                                                   parameters(false),
                                                   core_context,
                                                   decode_core,
                                                   decode_bound,
                                                   decode_cold});
const Registered<KernelClass> b("context_mla", {"MLA prefill core",
                                                {"context_mla"},
                                                core_words,
                                                prefill_axes,
                                                2,
                                                parameters(false),
                                                core_context,
                                                prefill_core,
                                                prefill_bound});
const Registered<KernelClass> d("generation_mla_module", {"MLA decode block with projections",
                                                          {"mla_generation_module"},
                                                          module_words,
                                                          decode_axes,
                                                          2,
                                                          parameters(true),
                                                          module_context,
                                                          decode_module,
                                                          decode_bound});
const Registered<KernelClass> e("context_mla_module", {"MLA prefill block with projections",
                                                       {"mla_context_module"},
                                                       module_words,
                                                       prefill_axes,
                                                       2,
                                                       parameters(true),
                                                       module_context,
                                                       prefill_module,
                                                       prefill_bound});

}  // namespace
