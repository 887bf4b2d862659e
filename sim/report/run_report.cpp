#include "sim/report/run_report.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/report/table.hpp"

std::string RunReport::headline() const {
  return kind == RunKind::cold_prefill ? "prefill_throughput" : "output_throughput";
}

const Interval* RunReport::interval(const std::string& metric) const {
  for (const auto& i : intervals)
    if (i.metric == metric) return &i;
  return nullptr;
}

bool RunReport::failed() const {
  return std::any_of(expect.begin(), expect.end(), [](const auto& e) { return e.failed(); });
}

namespace {

const ExpectResult* expected(const RunReport& r, const std::string& metric) {
  for (const auto& e : r.expect)
    if (e.metric == metric) return &e;
  return nullptr;
}

std::string latency(const LatencySummary& s) {
  return fmt::format("{} / {} / {}", figure(s.mean), figure(s.p50), figure(s.p99));
}

void metric_rows(const RunReport& r, Table& table) {
  const auto row = [&](const std::string& label, const std::string& metric) {
    const double value = *r.metrics.find(metric);
    const Interval* i = r.interval(metric);
    const ExpectResult* e = expected(r, metric);
    table.row({label, figure(value),
               i ? fmt::format("{} to {}", figure(i->low), figure(i->high)) : "",
               e ? figure(e->measured) : "",
               e ? percent_error(e->error) + (e->failed() ? " MISS"
                                              : e->within ? ""
                                                          : ", not judged")
                 : ""});
  };
  if (r.kind == RunKind::steady_decode) {
    row("output tok/s", "output_throughput");
    row("TPOT ms", "tpot_ms.mean");
  } else if (r.kind == RunKind::cold_prefill) {
    row("prefill tok/s", "prefill_throughput");
    row("TTFT ms", "ttft_ms.mean");
  }
  if (r.kind != RunKind::serving) return;
  row("output tok/s", "output_throughput");
  row("total tok/s", "total_throughput");
  row("requests/s", "request_throughput");
  row("duration s", "duration_s");
  table.row({"TTFT ms  mean / p50 / p99", latency(r.metrics.ttft_ms)});
  table.row({"TPOT ms  mean / p50 / p99", latency(r.metrics.tpot_ms)});
  table.row({"ITL ms   mean / p50 / p99", latency(r.metrics.itl_ms)});
  table.row({"E2E ms   mean / p50 / p99", latency(r.metrics.e2e_ms)});
  row("concurrency", "concurrency");
  // Only SGLang logs so.
  if (r.metrics.server_decode_throughput_peak > 0)
    row("decode log peak tok/s", "server_decode_throughput_peak");
  for (const auto& e : r.expect) {
    static const std::vector<std::string> shown = {
        "output_throughput", "total_throughput", "request_throughput",
        "duration_s",        "concurrency",      "server_decode_throughput_peak"};
    if (std::find(shown.begin(), shown.end(), e.metric) == shown.end()) row(e.metric, e.metric);
  }
}

// Sums below the breakdown: by resource, and by what the time rests on.
std::string shares_line(const RunReport& r) {
  std::vector<std::pair<std::string, double>> resources;
  for (const auto& row : r.breakdown) {
    const auto it = std::find_if(resources.begin(), resources.end(),
                                 [&](const auto& known) { return known.first == row.resource; });
    if (it == resources.end())
      resources.emplace_back(row.resource, row.share);
    else
      it->second += row.share;
  }
  std::stable_sort(resources.begin(), resources.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string by_resource, by_basis;
  for (const auto& [resource, share] : resources)
    by_resource +=
        fmt::format("{}{} {}", by_resource.empty() ? "" : ", ", resource, percent(share));
  for (const auto& [provenance, share] : r.provenance_shares)
    by_basis +=
        fmt::format("{}{} {}", by_basis.empty() ? "" : ", ", percent(share), name(provenance));
  return wrapped("by resource: " + by_resource, 4) +
         wrapped(fmt::format("rests on: {}; GPU {} ms, host {} ms to issue it", by_basis,
                             figure(r.step_device_ms), figure(r.step_host_ms)),
                 4);
}

}  // namespace

std::string render(const RunReport& r) {
  std::string out = wrapped(r.title, 0) + wrapped(r.workload, 0);
  out += fmt::format("ceiling {}, scenario {}, seed {}\n", r.context.version,
                     r.context.scenario_hash, r.context.seed);
  for (const auto& note : r.notes) out += wrapped("note: " + note, 0);
  out += "\n";

  Table metrics({"", "predicted", r.intervals.empty() ? "" : "90 % interval",
                 r.expect.empty() ? "" : "measured", r.expect.empty() ? "" : "error"});
  metric_rows(r, metrics);
  out += metrics.text();

  const RunMetrics& m = r.metrics;
  if (r.kind == RunKind::serving)
    out +=
        "\n" +
        wrapped(
            fmt::format(
                "reached   {} in flight, batch {}, KV at most {} of {} tokens; {} completed, {} "
                "rejected, "
                "{} retracted; Little's law {} ({:.2f} = {:.3f}/s x {:.2f} s), requests and KV "
                "pages {}; "
                "GPUs busy {}, with prefill {}",
                m.in_flight_max, m.batch_max, percent(m.kv_use_max), grouped(r.kv_tokens.count()),
                m.completed, m.rejected, m.retractions, r.little_holds ? "holds" : "IS BROKEN",
                r.little_l, r.little_rate, r.little_w, r.conserved ? "conserved" : "NOT CONSERVED",
                percent(m.gpu_busy), percent(m.time_in_prefill)),
            2);

  if (!r.breakdown.empty()) {
    if (r.kind == RunKind::cold_prefill)
      out += fmt::format("\n  the prefill of {} tokens in {} passes takes {} ms\n",
                         grouped(r.step_kv_mean), m.passes, figure(r.step_ms));
    else
      out += fmt::format("\n  a decode step of {} requests at {} KV tokens each takes {} ms\n",
                         r.step_batch, grouped(r.step_kv_mean), figure(r.step_ms));
    Table table({"", "ms", "share", "bound by", "rests on"}, 4);
    table.left(3).left(4);
    for (const auto& row : r.breakdown)
      table.row({row.via.empty() ? row.operators : row.operators + " (" + row.via + ")",
                 figure(row.ms), percent(row.share), row.resource, row.rests_on});
    out += table.text();
    out += shares_line(r);
    for (const auto& note : r.breakdown_notes) out += wrapped(note, 4);
  }
  if (!r.ceilings.empty()) {
    std::string line = fmt::format("ceilings, {} tok/s if only one counted: ",
                                   r.kind == RunKind::cold_prefill ? "prefill" : "output");
    for (const auto& c : r.ceilings)
      line += fmt::format("{}{} {}", &c == &r.ceilings.front() ? "" : " | ", c.resource,
                          figure(c.throughput));
    out += '\n' + wrapped(line, 2);
  }
  if (!r.drivers.empty()) {
    std::string line = "the interval comes from:";
    for (std::size_t i = 0; i < r.drivers.size() && i < 4; ++i)
      line += fmt::format("{} {} ({})", i ? "," : "", r.drivers[i].first,
                          percent_error(r.drivers[i].second));
    out += wrapped(line, 2);
  }
  for (const auto& warning : r.warnings) out += "\n" + wrapped("warning: " + warning, 2);
  if (!r.verdict.empty()) out += "\n" + wrapped(r.verdict, 2);
  if (!r.what_ifs.empty()) {
    Table table({"try", "output tok/s", "ratio"}, 2);
    for (const auto& w : r.what_ifs)
      table.row({w.change, figure(w.throughput), fmt::format("{:.2f} x", w.ratio)});
    out += table.text();
    std::string command = fmt::format("ceiling compare {}", r.context.scenario_file);
    for (const auto& w : r.what_ifs)
      if (w.change.find(' ') == std::string::npos) command += " +" + w.change;
    out += fmt::format("  {}\n", command);
  }
  if (!r.next.empty()) out += wrapped(r.next, 2);
  return out;
}
