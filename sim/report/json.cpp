#include <nlohmann/json.hpp>

#include "sim/base/statistics.hpp"
#include "sim/report/build_table.hpp"
#include "sim/report/run_report.hpp"

using Json = nlohmann::ordered_json;

namespace {

Json metrics(const RunMetrics& m) {
  Json out;
  for (const auto& [path, value] : m.all()) {
    // "ttft_ms.p99" nests
    const auto dot = path.find('.');
    if (dot == std::string::npos)
      out[path] = value;
    else
      out[path.substr(0, dot)][path.substr(dot + 1)] = value;
  }
  for (const char* count : {"completed", "rejected", "input_tokens", "output_tokens",
                            "in_flight_max", "batch_max", "retractions"})
    out[count] = static_cast<std::int64_t>(out[count].get<double>());
  return out;
}

Json build_errors(const BuildErrors& b) {
  Json by_size = Json::array();
  for (const auto& [size, errors] : b.by_size)
    by_size.push_back({{b.kind == RunKind::steady_decode ? "concurrency" : "prompt", size},
                       {"rows", errors.size()},
                       {"bias", mean(errors)}});
  return {{"build", b.build},
          {"workload", b.kind == RunKind::steady_decode ? "llm_decode_bench" : "cold_prefill"},
          {"rows", b.errors.size()},
          {"left_out", b.left_out},
          {"bias", b.bias()},
          {"median_error", b.median()},
          {"p90_error", b.p90()},
          {"by_size", by_size},
          {"known_defects", b.known_defects}};
}

Json result(const RunReport& r) {
  Json out;
  out["name"] = r.name;
  out["title"] = r.title;
  out["workload"] = r.workload;
  out["build"] = r.build;
  if (r.kind != RunKind::serving) {
    out["sequences"] = r.sequences;
    out["kv_tokens_each"] = r.kv_tokens_each;
  }
  if (!r.known_defects.empty()) out["known_defects"] = r.known_defects;
  out["scenario_file"] = r.context.scenario_file;
  out["scenario_hash"] = r.context.scenario_hash;
  out["files"] = r.context.files;
  Json settings = Json::object();
  for (const auto& v : r.values) settings[v.path] = {{"value", v.value}, {"origin", v.origin}};
  out["settings"] = settings;
  out["notes"] = r.notes;
  out["metrics"] = metrics(r.metrics);
  Json intervals = Json::array();
  for (const auto& i : r.intervals)
    intervals.push_back(
        {{"metric", i.metric}, {"value", i.value}, {"low", i.low}, {"high", i.high}});
  out["intervals"] = intervals;
  Json drivers = Json::array();
  for (const auto& [label, effect] : r.drivers)
    drivers.push_back({{"constant", label}, {"effect", effect}});
  out["drivers"] = drivers;
  out["step"] = {{"batch", r.step_batch},
                 {"kv_tokens_mean", r.step_kv_mean},
                 {"ms", r.step_ms},
                 {"device_ms", r.step_device_ms},
                 {"host_ms", r.step_host_ms}};
  Json breakdown = Json::array();
  for (const auto& b : r.breakdown)
    breakdown.push_back({{"operator", b.operators},
                         {"via", b.via},
                         {"link", b.link},
                         {"resource", b.resource},
                         {"ms", b.ms},
                         {"share", b.share},
                         {"provenance", name(b.provenance)},
                         {"rests_on", b.rests_on}});
  out["breakdown"] = breakdown;
  Json shares = Json::object();
  for (const auto& [provenance, share] : r.provenance_shares)
    shares[std::string(name(provenance))] = share;
  out["provenance"] = shares;
  Json ceilings = Json::array();
  for (const auto& c : r.ceilings)
    ceilings.push_back({{"resource", c.resource}, {r.headline(), c.throughput}});
  out["ceilings"] = ceilings;
  out["verdict"] = r.verdict;
  Json what_ifs = Json::array();
  for (const auto& w : r.what_ifs)
    what_ifs.push_back({{"change", w.change}, {r.headline(), w.throughput}, {"ratio", w.ratio}});
  out["what_ifs"] = what_ifs;
  Json expect = Json::array();
  for (const auto& e : r.expect) {
    Json one = {{"metric", e.metric},
                {"measured", e.measured},
                {"predicted", e.predicted},
                {"error", e.error}};
    if (e.within) one["within"] = *e.within, one["failed"] = e.failed();
    one["source"] = e.source;
    if (!e.left_out.empty()) one["left_out"] = e.left_out;
    expect.push_back(one);
  }
  out["expect"] = expect;
  out["checks"] = {{"littles_law_holds", r.little_holds},
                   {"requests_and_pages_conserved", r.conserved}};
  out["kv_tokens"] = r.kv_tokens.count();
  out["warnings"] = r.warnings;
  out["next"] = r.next;
  return out;
}

}  // namespace

std::string to_json(const std::vector<RunReport>& reports) {
  Json out;
  out["schema"] = 1;
  if (!reports.empty()) {
    const auto& c = reports.front().context;
    out["context"] = {{"version", c.version}, {"commit", c.commit}};
    // Of the first result; each has its own as well.
    out["context"]["scenario_hash"] = c.scenario_hash;
    out["context"]["seed"] = c.seed;
    out["context"]["tables"] = Json::array();
    for (const auto& file : c.files)
      if (file.find("hardware/tables/") != std::string::npos)
        out["context"]["tables"].push_back(file);
  }
  Json results = Json::array();
  for (const auto& r : reports) results.push_back(result(r));
  out["results"] = results;
  const auto builds = errors_by_build(reports);
  if (!builds.empty()) {
    Json list = Json::array();
    for (const auto& b : builds) list.push_back(build_errors(b));
    out["builds"] = list;
  }
  return out.dump(1) + "\n";
}
