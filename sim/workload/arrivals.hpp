#pragma once

#include <algorithm>

#include <fmt/format.h>

#include "sim/base/settings.hpp"
#include "sim/workload/workload.hpp"

/// The clock runs 26 days; requests may come for ten.
inline constexpr double longest_arrivals_s = 864'000;

/// A moment drawn with a logarithm, in whole nanoseconds: its last bit may differ between machines.
inline Duration whole_nanoseconds(double seconds) {
  const auto at = Duration::from_seconds(std::min(seconds, 2 * longest_arrivals_s));
  return Duration::picoseconds(at.ps() / 1000 * 1000);
}

/// Notes an error at `key` when the requests come for longer than the clock runs.
inline bool arrivals_fit(const WorkloadPlan& plan, Section& s, const char* key) {
  if (plan.last_send.seconds() <= longest_arrivals_s) return true;
  s.error(key,
          fmt::format("the requests come for longer than {:g} days", longest_arrivals_s / 86400),
          "choose a higher rate or fewer requests");
  return false;
}

/// "64 requests at 16/s: 9,166 tokens in, 7,059 out".
inline std::string describe_requests(const WorkloadPlan& plan, double per_second) {
  const auto when = per_second > 1e300 ? "all at once" : fmt::format("at {:g}/s", per_second);
  return fmt::format("{} requests {}: {} tokens in, {} out", grouped(plan.requests), when,
                     grouped(plan.input_tokens), grouped(plan.output_tokens));
}
