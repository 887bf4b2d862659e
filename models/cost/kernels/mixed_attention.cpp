// Attention of a step that mixes both kinds, as an engine launches it: one prompt chunk over what
// is cached of its prompt, and decodes of equal length, in one kernel. Either part may be absent.
// Decodes are bytes of KV at a rate, another one beside a chunk (FlashAttention-2 then neither
// splits KV nor packs the query heads, and each head costs its start); the chunk is its causal
// pairs at a rate; beside it one block walks the longest sequence serially. Leaves out: several
// chunks in a step, and decodes of unequal length (attention tail).

#include <algorithm>

#include "models/cost/kernel_class.hpp"

namespace {

enum { start, bandwidth, bandwidth_mixed, arithmetic, per_head, serial };

// coordinates
enum { kv_heads, heads, chunk, past, decodes, length };

double chunk_flops(const LawContext& c, const double* x) {
  return 4 * x[heads] * c.head_dim * x[chunk] * (x[past] + (x[chunk] + 1) / 2);
}

double decode_bytes(const LawContext& c, const double* x) {
  return x[decodes] * x[kv_heads] * x[length] * c.head_dim * 2 * c.kv_bytes;
}

double law(const LawContext& c, const double* p, const double* x) {
  // Alone, decodes split their KV: nothing walks a sequence serially.
  if (x[chunk] <= 0) return p[start] + decode_bytes(c, x) / (c.bandwidth * p[bandwidth]);
  return p[start] + p[per_head] * 1e-3 * x[decodes] * x[heads] +
         p[serial] * 1e-3 * std::max(x[length], x[past] + x[chunk]) +
         decode_bytes(c, x) / (c.bandwidth * p[bandwidth_mixed]) +
         chunk_flops(c, x) / (c.peak * p[arithmetic]);
}

KernelBound bound(const LawContext& c, const double* x) {
  const double bytes = decode_bytes(c, x);
  return {chunk_flops(c, x) / c.peak, bytes > c.l2 ? (bytes - c.l2) / c.bandwidth : 0};
}

const Registered<KernelClass> me("mixed_attention",
                                 {"attention of a prompt chunk and decodes in one kernel",
                                  {"mixed_attention"},
                                  {"kernel_source", "attn_dtype", "kv_cache_dtype", "head_dim"},
                                  {{"num_key_value_heads", Between::nearest},
                                   {"num_heads", Between::nearest},
                                   {"prefill_chunk"},
                                   {"kv_prefill"},
                                   {"n_decode"},
                                   {"kv_decode"}},
                                  5,
                                  {{"start_us", 9, 1, 200},
                                   {"bandwidth_efficiency", 0.8, 0.02, 8},
                                   {"bandwidth_efficiency_mixed", 0.4, 0.01, 8},
                                   {"arithmetic_efficiency", 0.5, 0.005, 1.5},
                                   {"per_head_ns", 2, 0.001, 2000},
                                   {"serial_ns_per_token", 1, 0.0001, 500}},
                                  [](const GpuSpec& gpu,
                                     const std::map<std::string, std::string>& w) {
                                    auto c = law_context(gpu, word(w, "attn_dtype"), "bfloat16");
                                    c.kv_bytes = table_bytes_per_element(word(w, "kv_cache_dtype"));
                                    c.head_dim = word_number(w, "head_dim", 128);
                                    return c;
                                  },
                                  law,
                                  bound});

}  // namespace
