#include "sim/report/build_table.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "sim/base/statistics.hpp"
#include "sim/report/table.hpp"

namespace {

double absolute_percentile(std::vector<double> errors, double p) {
  for (double& e : errors) e = std::abs(e);
  std::sort(errors.begin(), errors.end());
  return errors.empty() ? 0 : percentile(errors, p);
}

std::string size_label(RunKind kind, std::int64_t size) {
  if (kind == RunKind::steady_decode) return fmt::format("c{}", size);
  return size % 1024 == 0 ? fmt::format("{}k", size / 1024) : fmt::format("{}", size);
}

std::string in_percent(double error, int digits) {
  return fmt::format("{:+.{}f}", error * 100, digits);
}

}  // namespace

double step_error(const ExpectResult& e) {
  return e.metric == "output_throughput" ? e.measured / e.predicted - 1 : e.error;
}

double BuildErrors::bias() const { return errors.empty() ? 0 : mean(errors); }
double BuildErrors::median() const { return absolute_percentile(errors, 50); }
double BuildErrors::p90() const { return absolute_percentile(errors, 90); }

std::vector<BuildErrors> errors_by_build(const std::vector<RunReport>& reports) {
  std::vector<BuildErrors> out;
  const auto entry = [](std::vector<BuildErrors>& list, const std::string& build,
                        RunKind kind) -> BuildErrors& {
    for (auto& b : list)
      if (b.build == build && b.kind == kind) return b;
    BuildErrors fresh;
    fresh.build = build;
    fresh.kind = kind;
    return list.emplace_back(std::move(fresh));
  };
  std::vector<BuildErrors> all;
  std::map<RunKind, std::set<std::string>> builds;
  for (const RunReport& r : reports) {
    if (r.kind == RunKind::serving) continue;
    const std::int64_t size = r.kind == RunKind::steady_decode ? r.sequences : r.kv_tokens_each;
    for (const ExpectResult& e : r.expect) {
      builds[r.kind].insert(r.build);
      for (BuildErrors* b : {&entry(out, r.build, r.kind), &entry(all, "all", r.kind)}) {
        for (const auto& defect : r.known_defects)
          if (std::find(b->known_defects.begin(), b->known_defects.end(), defect) ==
              b->known_defects.end())
            b->known_defects.push_back(defect);
        if (!e.left_out.empty()) {
          ++b->left_out;
          continue;
        }
        const double error = step_error(e);
        b->errors.push_back(error);
        b->by_size[size].push_back(error);
      }
    }
  }
  for (auto& b : all)
    if (builds[b.kind].size() > 1) out.push_back(std::move(b));
  return out;
}

std::string render_build_table(const std::vector<BuildErrors>& builds) {
  std::string out;
  for (const RunKind kind : {RunKind::steady_decode, RunKind::cold_prefill}) {
    std::set<std::int64_t> sizes;
    for (const auto& b : builds)
      if (b.kind == kind)
        for (const auto& [size, errors] : b.by_size) sizes.insert(size);
    if (sizes.empty()) continue;
    std::vector<std::string> header = {"", "rows", "bias", "median", "p90"};
    for (const auto size : sizes) header.push_back(size_label(kind, size));
    Table table(header, 2);
    std::vector<std::string> notes;
    for (const auto& b : builds) {
      if (b.kind != kind) continue;
      std::vector<std::string> row = {
          b.build, fmt::format("{}", b.errors.size()), in_percent(b.bias(), 1),
          fmt::format("{:.1f}", b.median() * 100), fmt::format("{:.1f}", b.p90() * 100)};
      for (const auto size : sizes) {
        const auto it = b.by_size.find(size);
        row.push_back(it == b.by_size.end() ? "" : in_percent(mean(it->second), 0));
      }
      table.row(std::move(row));
      if (b.build == "all") continue;
      if (b.left_out > 0)
        notes.push_back(fmt::format("{}: {} row{} left out, reasons above", b.build, b.left_out,
                                    b.left_out == 1 ? "" : "s"));
      for (const auto& defect : b.known_defects)
        notes.push_back(fmt::format("{}: known defect: {}", b.build, defect));
    }
    out += kind == RunKind::steady_decode
               ? "  decode: error of the step time in %, by build and requests\n"
               : "  cold prefill: error of the rate in %, by build and prompt tokens\n";
    out += table.text();
    for (const auto& note : notes) out += wrapped(note, 4);
    out += "\n";
  }
  return out;
}
