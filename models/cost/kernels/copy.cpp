// Copies between memories, as a box's own: a latency and a bandwidth. `path` says from where to
// where and how (host_to_device, device_to_host, peer, staged, staged_chunked, host_flag), `which`
// how many at once (one, pair_both_ways, all). Leaves out: where a driver changes its way with the
// size (the residual table has it). No step is priced from them: they check a machine file.

#include "models/cost/kernel_class.hpp"

namespace {

enum { latency, bandwidth };

double law(const LawContext&, const double* p, const double* x) {
  return p[latency] + x[0] / (p[bandwidth] * 1e3);
}

const Registered<KernelClass> me(
    "copy", {"copies between GPUs and the host",
             {"copy"},
             {"path", "which"},
             {{"bytes"}},
             1,
             {{"latency_us", 5, 0.05, 2000}, {"bandwidth_gb_per_s", 25, 0.02, 10000}},
             [](const GpuSpec& gpu, const std::map<std::string, std::string>&) {
               return law_context(gpu, "bfloat16", "bfloat16");
             },
             law,
             [](const LawContext&, const double*) { return KernelBound{}; }});

}  // namespace
