// Absorbed MLA projections as batched GEMMs, and the quantisers that a static or dynamic scale
// needs: start-up and bytes or arithmetic.
// Leaves out: widths other than DeepSeek's 128 and 512 (scaled by bytes where a model needs them).

#include <algorithm>

#include "models/cost/kernel_class.hpp"

namespace {

enum { start, bandwidth, arithmetic };

double bmm(const LawContext& c, const double* p, const double* x) {
  const double heads = x[0], tokens = x[1];
  const double bytes = heads * (128.0 * 512 * c.weight_bytes + tokens * 640 * 2);
  const double flops = 2 * heads * tokens * 128 * 512;
  return p[start] +
         std::max(bytes / (c.bandwidth * p[bandwidth]), flops / (c.peak * p[arithmetic]));
}

KernelBound bmm_bound(const LawContext& c, const double* x) {
  return {2 * x[0] * x[1] * 128 * 512 / c.peak, 0};
}

const Registered<KernelClass> a("mla_bmm", {"absorbed MLA projections",
                                            {"mla_bmm"},
                                            {"op_name", "kernel_source", "bmm_dtype"},
                                            {{"num_heads"}, {"num_tokens"}},
                                            1,
                                            {{"start_us", 4, 0.3, 100},
                                             {"bandwidth_efficiency", 0.8, 0.02, 8},
                                             {"arithmetic_efficiency", 0.5, 0.005, 1.5}},
                                            [](const GpuSpec& gpu,
                                               const std::map<std::string, std::string>& w) {
                                              return law_context(gpu, word(w, "bmm_dtype"),
                                                                 word(w, "bmm_dtype"));
                                            },
                                            bmm,
                                            bmm_bound});

double quantise(const LawContext& c, const double* p, const double* x) {
  const double k = x[0], m = x[1];
  return p[start] + m * k * 3 / (c.bandwidth * p[bandwidth]);
}

KernelBound no_bound(const LawContext&, const double*) { return {}; }

const std::vector<LawParameter> quantise_parameters{{"start_us", 3, 0.05, 100},
                                                    {"bandwidth_efficiency", 0.8, 0.02, 20}};
const std::vector<std::string> quantise_words{"kernel_source", "quant_dtype"};

LawContext quantise_context(const GpuSpec& gpu, const std::map<std::string, std::string>&) {
  return law_context(gpu, "bfloat16", "bfloat16");
}

const Registered<KernelClass> b("quantise_dynamic",
                                {"what a dynamic scale costs beside a static one",
                                 {"computescale"},
                                 quantise_words,
                                 {{"k"}, {"m"}},
                                 1,
                                 quantise_parameters,
                                 quantise_context,
                                 quantise,
                                 no_bound});
const Registered<KernelClass> d("quantise_static", {"quantisation with a static scale",
                                                    {"scale_matrix"},
                                                    quantise_words,
                                                    {{"k"}, {"m"}},
                                                    1,
                                                    quantise_parameters,
                                                    quantise_context,
                                                    quantise,
                                                    no_bound});

}  // namespace
