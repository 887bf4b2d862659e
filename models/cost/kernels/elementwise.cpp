// Kernels that move rows and compute next to nothing: activations, gathers, plain copies. A
// start-up and a row of k 16-bit values read and one written; what a kernel reads besides (the
// other half of gate and up) makes its rate lower. Leaves out: what fits the L2 (the residual table
// has it). No pass asks for it: a build states the start-up of its small kernels, and counts their
// bytes.

#include "models/cost/kernel_class.hpp"

namespace {

enum { start, bandwidth };

double law(const LawContext& c, const double* p, const double* x) {
  return p[start] + x[0] * x[1] * 4 / (c.bandwidth * p[bandwidth]);
}

const Registered<KernelClass> me(
    "elementwise", {"activations, gathers and copies of rows",
                    {"elementwise"},
                    {"kernel_source"},
                    {{"k"}, {"m"}},
                    1,
                    {{"start_us", 3, 0.05, 100}, {"bandwidth_efficiency", 0.8, 0.02, 20}},
                    [](const GpuSpec& gpu, const std::map<std::string, std::string>&) {
                      return law_context(gpu, "bfloat16", "bfloat16");
                    },
                    law,
                    [](const LawContext&, const double*) { return KernelBound{}; }});

}  // namespace
