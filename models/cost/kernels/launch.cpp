// What starting work and waiting for it costs, as measured with empty kernels: a part per call and
// a part per launch or node. `what`: eager and graph_launch are the host's time for `count`
// launches or a graph of `count` nodes, graph_node the GPU's; stream_sync, event_sync and read_back
// are `count` launches and one wait. `ranks`: "1", or "all" that share a model at once. No step is
// priced from them: they check the host of a machine file.

#include "models/cost/kernel_class.hpp"

namespace {

enum { once, each };

double law(const LawContext&, const double* p, const double* x) { return p[once] + p[each] * x[0]; }

const Registered<KernelClass> me("launch",
                                 {"launches and waits",
                                  {"launch"},
                                  {"what", "ranks"},
                                  {{"count"}},
                                  1,
                                  {{"once_us", 5, 0.02, 1000}, {"each_us", 2, 0.005, 200}},
                                  [](const GpuSpec& gpu,
                                     const std::map<std::string, std::string>&) {
                                    return law_context(gpu, "bfloat16", "bfloat16");
                                  },
                                  law,
                                  [](const LawContext&, const double*) { return KernelBound{}; }});

}  // namespace
