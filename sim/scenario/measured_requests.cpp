#include "sim/scenario/measured_requests.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "sim/base/table_text.hpp"
#include "sim/scenario/experiment.hpp"

namespace {

constexpr const char* parts[] = {"ttft_ms", "tpot_ms", "latency_ms"};

double& part(RequestLatencies& l, std::size_t i) {
  return i == 0 ? l.ttft_ms : i == 1 ? l.tpot_ms : l.e2e_ms;
}

struct Sum {
  double measured = 0, predicted = 0, apart = 0;
  std::size_t n = 0;
  void add(double m, double p) {
    if (m <= 0) return;
    measured += m;
    predicted += p;
    apart += std::abs(p / m - 1);
    ++n;
  }
  LatencyErrors errors() const {
    if (n == 0) return {};
    const auto count = static_cast<double>(n);
    return {measured / count, predicted / count, predicted / measured - 1, apart / count};
  }
};

template <class Predicted>
RequestErrors errors_of(const std::string& run, const std::string& who,
                        const std::vector<MeasuredRequest>& log, Predicted predicted) {
  Sum ttft, tpot, e2e;
  RequestErrors out{run, who, 0, {}, {}, {}};
  for (std::size_t i = 0; i < log.size(); ++i) {
    const RequestLatencies* p = predicted(i);
    if (!p) continue;
    ++out.requests;
    ttft.add(log[i].measured.ttft_ms, p->ttft_ms);
    tpot.add(log[i].measured.tpot_ms, p->tpot_ms);
    e2e.add(log[i].measured.e2e_ms, p->e2e_ms);
  }
  out.ttft = ttft.errors();
  out.tpot = tpot.errors();
  out.e2e = e2e.errors();
  return out;
}

}  // namespace

Expected<std::map<std::string, std::vector<MeasuredRequest>>> load_measured_requests(
    const std::string& path) {
  const auto text = read_table_text(path);
  if (!text) return tl::unexpected(text.error());
  Diagnostics errors;
  CsvReader csv(*text);
  csv.next();
  std::vector<std::string> header;
  for (const auto cell : csv.cells()) header.emplace_back(cell);
  const auto column = [&](const std::string& name) -> std::optional<std::size_t> {
    const auto it = std::find(header.begin(), header.end(), name);
    if (it == header.end()) return std::nullopt;
    return static_cast<std::size_t>(it - header.begin());
  };
  for (const char* needed : {"input_tokens", "output_tokens", "ttft_ms", "tpot_ms", "latency_ms"})
    if (!column(needed))
      errors.error(table_place(path, 1, 1, csv.text()), fmt::format("no column '{}'", needed),
                   "a request log has input_tokens, output_tokens, ttft_ms, tpot_ms, latency_ms");
  if (!errors.empty()) return tl::unexpected(errors);
  std::vector<std::string> others;
  constexpr std::string_view tail = "_pred_ttft_ms";
  for (const auto& name : header)
    if (name.size() > tail.size() && name.ends_with(tail))
      others.push_back(name.substr(0, name.size() - tail.size()));
  const auto run = column("run");

  std::map<std::string, std::vector<MeasuredRequest>> out;
  while (csv.next()) {
    if (csv.cells().size() != header.size()) {
      errors.error(table_place(path, csv.line(), 1, csv.text()),
                   fmt::format("{} cells under a header of {}", csv.cells().size(), header.size()));
      if (errors.size() >= 20) break;
      continue;
    }
    const auto number = [&](const std::string& name) {
      const std::size_t c = *column(name);
      const auto value = table_number(csv.cells()[c]);
      if (value && *value >= 0) return *value;
      errors.error(table_place(path, csv.line(), csv.column(c), csv.text()),
                   fmt::format("'{}' is no {}", csv.cells()[c], name));
      return 0.0;
    };
    MeasuredRequest r;
    r.input = static_cast<std::int64_t>(number("input_tokens"));
    r.output = static_cast<std::int64_t>(number("output_tokens"));
    for (std::size_t i = 0; i < 3; ++i) part(r.measured, i) = number(parts[i]);
    for (const auto& who : others) {
      RequestLatencies l;
      bool all = true;
      for (std::size_t i = 0; i < 3; ++i) {
        const std::string name = who + "_pred_" + parts[i];
        all = all && column(name) && !csv.cells()[*column(name)].empty();
        if (all) part(l, i) = number(name);
      }
      if (all) r.predicted_by[who] = l;
    }
    out[run ? std::string(csv.cells()[*run]) : std::string()].push_back(std::move(r));
    if (errors.size() >= 20) break;
  }
  if (errors.empty() && out.empty())
    errors.error(table_place(path, 1, 1, ""), "a log without requests");
  if (!errors.empty()) return tl::unexpected(errors);
  return out;
}

Expected<std::vector<RequestErrors>> compare_requests(const std::vector<Scenario>& scenarios,
                                                      const std::string& path) {
  const auto log = load_measured_requests(path);
  if (!log) return tl::unexpected(log.error());
  Diagnostics errors;
  std::vector<RequestErrors> out;
  for (const Scenario& scenario : scenarios) {
    // A point is named after the run, or after its beginning up to a slash.
    auto it = std::find_if(log->begin(), log->end(), [&](const auto& run) {
      return !run.first.empty() &&
             (scenario.name.ends_with("[" + run.first + "]") ||
              scenario.name.ends_with("[" + run.first.substr(0, run.first.find('/')) + "]"));
    });
    if (it == log->end() && log->size() == 1 && log->begin()->first.empty()) it = log->begin();
    if (it == log->end()) {
      std::vector<std::string> runs;
      for (const auto& [name, requests] : *log) runs.push_back(name);
      errors.error(scenario.tree.where(), fmt::format("'{}' is no run of the log", scenario.name),
                   fmt::format("name the point after one: {}", fmt::join(runs, ", ")));
      continue;
    }
    const auto& measured = it->second;
    const auto in = resolve(scenario);
    if (!in) {
      errors.append(in.error());
      continue;
    }
    auto made = Experiment::make(*in);
    if (!made) {
      errors.append(made.error());
      continue;
    }
    const Experiment& e = **made;
    if (!e.workload().needs_scheduler() ||
        e.workload().requests != static_cast<std::int64_t>(measured.size())) {
      errors.error(scenario.tree.find("workload")->where(),
                   fmt::format("this workload has {} requests, the run {}", e.workload().requests,
                               measured.size()),
                   "replay the run's own list: workload.kind trace");
      continue;
    }
    std::vector<RequestRecord> records;
    (*made)->run(Only::everything, &records);
    std::vector<std::optional<RequestLatencies>> predicted(measured.size());
    for (const RequestRecord& r : records) {
      if (r.rejected) continue;  // none is predicted for it
      const auto i = static_cast<std::size_t>(r.index);
      if (measured[i].input != r.input || measured[i].output != r.output) {
        errors.error(scenario.tree.find("workload")->where(),
                     fmt::format("request {} has {} tokens in and {} out, in the log {} and {}", i,
                                 r.input, r.output, measured[i].input, measured[i].output),
                     "replay the run's own list: workload.kind trace");
        break;
      }
      RequestLatencies l;
      l.ttft_ms = (r.first - r.queued).ms();
      l.e2e_ms = (r.last - r.queued).ms();
      if (r.output > 1) l.tpot_ms = (r.last - r.first).ms() / static_cast<double>(r.output - 1);
      predicted[i] = l;
    }
    out.push_back(errors_of(it->first, "ceiling", measured, [&](std::size_t i) {
      return predicted[i] ? &*predicted[i] : nullptr;
    }));
    std::vector<std::string> others;
    for (const auto& r : measured)
      for (const auto& [who, l] : r.predicted_by)
        if (std::find(others.begin(), others.end(), who) == others.end()) others.push_back(who);
    for (const auto& who : others)
      out.push_back(errors_of(it->first, who, measured, [&](std::size_t i) {
        const auto found = measured[i].predicted_by.find(who);
        return found == measured[i].predicted_by.end() ? nullptr : &found->second;
      }));
  }
  if (!errors.empty()) return tl::unexpected(errors);
  return out;
}
