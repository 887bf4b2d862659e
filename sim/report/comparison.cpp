#include <fmt/format.h>

#include "sim/base/assert.hpp"
#include "sim/report/run_report.hpp"
#include "sim/report/table.hpp"

namespace {

// What changed in a step, in words: where its time went, and what holds the run now.
std::string reason(const RunReport& base, const RunReport& other) {
  const BreakdownRow none;
  const auto find = [&](const RunReport& r, const std::string& operators) -> const BreakdownRow& {
    for (const auto& row : r.breakdown)
      if (row.operators == operators) return row;
    return none;
  };
  std::string largest;
  double change = 0;
  for (const RunReport* r : {&base, &other})
    for (const auto& row : r->breakdown) {
      const double c = find(other, row.operators).ms - find(base, row.operators).ms;
      if (c * c > change * change) change = c, largest = row.operators;
    }
  std::string out;
  if (other.step_batch != base.step_batch)
    out += fmt::format("at most {} requests run together instead of {}; ", other.step_batch,
                       base.step_batch);
  if (change * change < 0.05 * base.step_ms * 0.05 * base.step_ms) {
    out += fmt::format("the step stays at {} ms, set by the {}", figure(other.step_ms),
                       other.step_device_ms >= other.step_host_ms ? "GPUs" : "host");
  } else {
    const auto& before = find(base, largest);
    const auto& after = find(other, largest);
    out += fmt::format("{} {} from {} to {} ms a step", largest, change < 0 ? "falls" : "grows",
                       figure(before.ms), figure(after.ms));
    if ((before.via != after.via || before.link != after.link) && !before.via.empty() &&
        !after.via.empty())
      out += fmt::format(" ({} over {} -> {} over {})", before.via, before.link, after.via,
                         after.link);
    else if (!after.via.empty())
      out += fmt::format(" ({} over {})", after.via, after.link);
  }
  if (!other.ceilings.empty()) out += fmt::format("; {} holds it", other.ceilings.front().resource);
  return out;
}

}  // namespace

std::string render_comparison(const std::vector<RunReport>& reports) {
  SIM_ASSERT(!reports.empty());
  const RunReport& base = reports.front();
  std::string out = wrapped(base.title, 0) + wrapped(base.workload, 0) + "\n";
  Table table({"", base.kind == RunKind::cold_prefill ? "prefill tok/s" : "output tok/s", "ratio",
               "90 % range", "TTFT p99", "TPOT mean", "step", "GPU / host"},
              2);
  for (const auto& r : reports) {
    const double ratio = r.throughput() / base.throughput();
    const Interval* i = r.interval(r.headline());
    table.row({r.name, figure(r.throughput()), fmt::format("{:.2f} x", ratio),
               i ? fmt::format("{} to {}", figure(i->low), figure(i->high)) : "",
               figure(r.metrics.ttft_ms.p99),
               base.kind == RunKind::cold_prefill ? "" : figure(r.metrics.tpot_ms.mean),
               figure(r.step_ms),
               fmt::format("{} / {}", figure(r.step_device_ms), figure(r.step_host_ms))});
  }
  out += table.text();
  out +=
      base.kind == RunKind::cold_prefill
          ? "  (times in ms; step: all passes of the prompt)\n\n"
          : fmt::format(
                "  (times in ms; step: decode of the largest batch, {} requests in the base)\n\n",
                base.step_batch);
  for (std::size_t i = 1; i < reports.size(); ++i) {
    const double ratio = reports[i].throughput() / base.throughput();
    out += wrapped(fmt::format("{}: {:.2f} times the base; {}.", reports[i].name, ratio,
                               reason(base, reports[i])),
                   2);
  }
  return out;
}
