// llm_decode_bench (local-inference-lab/rtx6kpro): `concurrency` requests hold a context each,
// share it as a cached prefix, and decode for a fixed window; the rate is that of the token stream.
// Context 0 means the bench's own prompt of 71 tokens. What the requests have decoded counts as KV:
// on average 20 s of it in the bench's window of 30 s. Leaves out: the shared prefix in the L2
// (each sequence reads its own), the ends of the window.

#include <fmt/format.h>

#include "sim/workload/workload.hpp"

namespace {

WorkloadPlan plan(Section& s) {
  constexpr std::int64_t own_prompt = 71;
  WorkloadPlan out;
  SteadyDecode d;
  const auto context =
      s.required<std::int64_t>("context", between<std::int64_t>(0, std::int64_t{1} << 32));
  d.sequences = s.required<int>("concurrency", between(1, 1 << 20));
  d.decoded_for = s.optional<Duration>("decoded_for", Duration::from_seconds(20),
                                       between(Duration(), Duration::from_seconds(86'400)));
  d.prompt = context > 0 ? context : own_prompt;
  out.expert_skew = s.optional<double>("expert_skew", 0.85, between(0.0, 5.0));
  out.passes = d;
  out.description = fmt::format("{} sequences decode behind {} tokens each (llm_decode_bench)",
                                grouped(d.sequences), grouped(d.prompt));
  return out;
}

const Registered<WorkloadKind> me("llm_decode_bench",
                                  {"steady decode at a context, no scheduler", plan});

}  // namespace
