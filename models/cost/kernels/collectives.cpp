// Collectives as measured on a box: start-up and bytes at a rate, the protocol segments in the
// residual table (the curve is not monotone where NCCL changes protocol).
// The size is that of nccl-tests: the full buffer of an all-gather's output, and so on.
// These are curves of one box; a machine that was not measured is priced from its graph.

#include <algorithm>

#include "models/cost/kernel_class.hpp"

namespace {

enum { start, rate, bulk_start, bulk_rate };

// latency protocol or bulk protocol, whichever is faster; the real switch is in the table
double law(const LawContext&, const double* p, const double* x) {
  return std::min(p[start] + x[0] / (p[rate] * 1e3), p[bulk_start] + x[0] / (p[bulk_rate] * 1e3));
}

KernelBound no_bound(const LawContext&, const double*) { return {}; }

LawContext context(const GpuSpec& gpu, const std::map<std::string, std::string>&) {
  return law_context(gpu, "bfloat16", "bfloat16");
}

const std::vector<LawParameter> parameters{{"start_us", 6, 0.1, 500},
                                           {"rate_gb_per_s", 10, 0.02, 2000},
                                           {"bulk_start_us", 30, 0.1, 2000},
                                           {"bulk_rate_gb_per_s", 50, 0.05, 4000}};
const std::vector<KernelAxis> axes{{"message_bytes"}};

const Registered<KernelClass> a("nccl", {"NCCL collectives",
                                         {"nccl"},
                                         {"op_name", "nccl_dtype", "num_gpus"},
                                         axes,
                                         1,
                                         parameters,
                                         context,
                                         law,
                                         no_bound});
const Registered<KernelClass> b("custom_all_reduce", {"all-reduce kernels of the engines",
                                                      {"custom_allreduce"},
                                                      {"kernel_source", "backend", "num_gpus"},
                                                      axes,
                                                      1,
                                                      parameters,
                                                      context,
                                                      law,
                                                      no_bound});

}  // namespace
