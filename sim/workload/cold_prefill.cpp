// One unique prompt on an idle server, answered with one token: prompt tokens over the time to it.
// Chunks follow each other, the last may be short; a prompt of exactly one chunk is one pass.
// Leaves out: the tokenizer and the way of the request, the first token's sampling wait.

#include <fmt/format.h>

#include "sim/workload/workload.hpp"

namespace {

WorkloadPlan plan(Section& s) {
  WorkloadPlan out;
  ColdPrefill p;
  p.prompt = s.required<std::int64_t>("prompt", between<std::int64_t>(1, 1 << 26));
  p.chunk = s.optional<int>("chunk", 0, between(0, 1 << 24));
  out.expert_skew = s.optional<double>("expert_skew", 0.85, between(0.0, 5.0));
  if (p.chunk > 0 && p.prompt / p.chunk > 100'000)
    s.error("chunk", "more than 100,000 passes for one prompt", "choose a larger chunk");
  out.passes = p;
  out.description = fmt::format("one cold prompt of {} tokens", grouped(p.prompt));
  return out;
}

const Registered<WorkloadKind> me("cold_prefill", {"one cold prompt, no scheduler", plan});

}  // namespace
