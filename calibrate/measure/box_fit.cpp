#include "calibrate/measure/box_fit.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "calibrate/import/row_checks.hpp"
#include "sim/base/json_text.hpp"
#include "sim/report/table.hpp"

namespace {

// Medians by setting, for the classes whose tables name no kernel.
class SettingTable {
 public:
  void add(const RawPoint& p) {
    CalibrationPoint same;
    same.kernel_class = p.kernel_class;
    same.words = p.words;
    same.x = p.x;
    const auto column = static_cast<std::size_t>(
        std::find(columns_.begin(), columns_.end(), p.kernel_source) - columns_.begin());
    if (column == columns_.size()) columns_.push_back(p.kernel_source);
    const auto [at, fresh] = index_.emplace(same.key(), rows_.size());
    if (fresh) rows_.emplace_back(same.key(), std::vector<double>{});
    auto& us = rows_[at->second].second;
    us.resize(std::max(us.size(), column + 1));
    us[column] = judge(p.samples, true).median_us;
  }
  void give(BoxFit& fit) && {
    if (columns_.size() < 2) return;
    for (auto& row : rows_) row.second.resize(columns_.size());
    std::erase_if(rows_, [](const auto& row) {  // nothing to compare with
      return std::count_if(row.second.begin(), row.second.end(), [](double us) { return us > 0; }) <
             2;
    });
    fit.settings = std::move(columns_);
    fit.by_setting = std::move(rows_);
  }

 private:
  std::vector<std::string> columns_;
  std::map<std::string, std::size_t> index_;
  std::vector<std::pair<std::string, std::vector<double>>> rows_;
};

CollectiveTable curve_of(const KernelRows& rows) {
  CollectiveTable out;
  const auto& op = rows.words.at("op_name");
  out.op = op == "alltoall" ? "all_to_all" : op;
  out.gpus = std::atoi(rows.words.at("num_gpus").c_str());
  out.source = rows.source;
  for (const auto& row : rows.rows)
    out.points.push_back({static_cast<std::int64_t>(row.x[0] + 0.5), row.time_us});
  std::sort(out.points.begin(), out.points.end(),
            [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  return out;
}

// Copies and launches as their laws. Within the card's memory each byte is read and written.
std::vector<BoxFit::Probe> probes_of(const BoxFit& fit, const GpuSpec& gpu) {
  std::vector<BoxFit::Probe> out;
  for (const auto* kernel_class : {"elementwise", "copy", "launch"}) {
    const auto sets = fit.sets.find(kernel_class);
    if (sets == fit.sets.end()) continue;
    for (const auto& set : sets->second) {
      BoxFit::Probe probe{kernel_class, set.parameters[0], set.parameters[1], "GB/s", 0};
      for (const auto& [id, value] : set.words) probe.what += " " + value;
      if (sets->first == "launch") probe.unit = "us each";
      if (sets->first == "elementwise") {
        if (set.words.at("kernel_source") != "stream_copy") continue;
        probe.line_rate_part = probe.rate;
        probe.rate *= gpu.memory_bandwidth.count() * 1e-9;
      }
      out.push_back(std::move(probe));
    }
  }
  return out;
}

}  // namespace

Expected<BoxFit> fit_raw(const std::vector<RawFile>& files, const GpuSpec& gpu) {
  BoxFit out;
  // In the order of the plan: the first kernel of a class is the one that a run takes.
  std::vector<KernelRows> groups;
  std::map<std::pair<std::string, std::map<std::string, std::string>>, std::size_t> index;
  std::map<std::string, std::string> first_source;
  SettingTable settings;
  for (const auto& file : files)
    for (const auto& p : file.points) {
      if (!fittable(p.state)) {
        ++out.left_out[std::string(name(p.state))];
        continue;
      }
      const KernelClass& kind = *KernelClasses::find(p.kernel_class);
      auto words = p.words;
      if (std::find(kind.words.begin(), kind.words.end(), "kernel_source") != kind.words.end())
        words["kernel_source"] = p.kernel_source;
      else {
        settings.add(p);
        if (first_source.emplace(p.kernel_class, p.kernel_source).first->second != p.kernel_source)
          continue;
      }
      const auto [at, fresh] = index.emplace(std::pair(p.kernel_class, words), groups.size());
      if (fresh) groups.emplace_back();
      KernelRows& rows = groups[at->second];
      rows.kernel_class = p.kernel_class;
      rows.engine = box_engine;
      rows.version = file.header.version;
      rows.words = words;
      rows.gpu = gpu.id;
      rows.source = fmt::format("ceiling calibrate, {}, driver {}", file.header.device.device,
                                file.header.device.driver);
      rows.rows.push_back({p.x, judge(p.samples, true).median_us, p.line});
    }
  std::move(settings).give(out);
  std::vector<KernelRows> all;
  for (auto& rows : groups) {
    auto checked =
        merge_repeats(std::move(rows.rows), KernelClasses::find(rows.kernel_class)->axes.size());
    if (!checked.rejected.empty())
      out.left_out["measured twice, more than 20 % apart"] += checked.rejected.size();
    rows.rows = std::move(checked.kept);
    if (const auto bad = drop_faster_than(gpu, rows); bad > 0)
      out.left_out["faster than this card can be"] += bad;
    if (!rows.rows.empty()) all.push_back(std::move(rows));
  }
  Diagnostics errors;
  if (all.empty()) {
    std::string why;
    for (const auto& [reason, count] : out.left_out)
      why += fmt::format("{}{} {}", why.empty() ? "" : ", ", count, reason);
    errors.error({}, fmt::format("no point can be fitted{}{}", why.empty() ? "" : ": ", why),
                 "ceiling calibrate run measures points");
    return tl::unexpected(errors);
  }
  KernelFitOptions options;
  options.whole_curves = true;  // the plan chose its sizes; all are wanted
  for (const auto& rows : all) {
    std::vector<double> cross;
    out.points += rows.rows.size();
    if (rows.kernel_class == "nccl") out.collectives.push_back(curve_of(rows));
    out.sets[rows.kernel_class].push_back(
        fit_kernel_set(rows, gpu, options, &cross, siblings_of(rows, all)));
  }
  out.probes = probes_of(out, gpu);
  return out;
}

std::string render_fit(const BoxFit& fit) {
  Table table({"kernel class", "kernel", "rows", "median", "p90"});
  table.left(1);
  for (const auto& [kernel_class, sets] : fit.sets)
    for (const auto& set : sets) {
      std::string words;
      for (const auto& [id, value] : set.words) words += (words.empty() ? "" : " ") + value;
      table.row({kernel_class, words, fmt::format("{}", set.rows_measured),
                 percent(set.error_median), percent(set.error_p90)});
    }
  std::string out = "errors on shapes left out of the fit\n\n" + table.text() + "\n";
  if (!fit.probes.empty()) {
    Table probes({"memory, links and host", "start", "then"});
    for (const auto& p : fit.probes) {
      std::string then = fmt::format("{} {}", figure(p.rate), p.unit);
      if (p.line_rate_part > 0)
        then += fmt::format(", {:.0f} % of the line rate", p.line_rate_part * 100);
      probes.row({p.what, fmt::format("{:.2f} us", p.start_us), then});
    }
    out += probes.text() + "\n";
  }
  if (!fit.settings.empty()) {
    std::vector<std::string> head{"us by setting; the first is fitted"};
    head.insert(head.end(), fit.settings.begin(), fit.settings.end());
    Table times(head);
    for (const auto& [point, us] : fit.by_setting) {
      std::vector<std::string> row{point};
      for (const double t : us) row.push_back(t > 0 ? fmt::format("{:.1f}", t) : "-");
      times.row(row);
    }
    out += times.text() + "\n";
  }
  out += fmt::format("  {} points fitted\n", fit.points);
  for (const auto& [reason, count] : fit.left_out)
    out += fmt::format("  {} points left out: {}\n", count, reason);
  return out;
}

RawComparison compare_raw(const RawFile& before, const RawFile& after) {
  RawComparison out;
  for (const auto& a : before.points) {
    const RawPoint* b = after.find(a.key);
    if (!b) {
      ++out.only_before;
      continue;
    }
    if (a.state != b->state)
      out.states.push_back(fmt::format("{}: {}, was {}", a.key, name(b->state), name(a.state)));
    if (!fittable(a.state) || !fittable(b->state)) continue;
    const Judgement x = judge(a.samples, true), y = judge(b->samples, true);
    // Both medians are known to a 95 % interval; what lies outside their sum moved.
    const double noise = x.half_width * x.median_us + y.half_width * y.median_us;
    out.points.push_back(
        {a.key, x.median_us, y.median_us, std::abs(y.median_us - x.median_us) > noise});
  }
  for (const auto& b : after.points) out.only_after += !before.find(b.key);
  std::stable_sort(out.points.begin(), out.points.end(), [](const auto& a, const auto& b) {
    const auto moved = [](const PointChange& c) { return std::abs(c.after_us / c.before_us - 1); };
    return moved(a) > moved(b);
  });
  return out;
}

std::string render_comparison(const RawFile& before, const RawFile& after, const RawComparison& c) {
  std::string out;
  for (const auto& change : device_changes(before.header.device, after.header.device))
    out += fmt::format("  {}\n", change);
  Table table({"point", "before us", "after us", "change"});
  std::size_t moved = 0;
  constexpr std::size_t shown = 20;
  for (const auto& p : c.points)
    if (p.beyond_noise && moved++ < shown)
      table.row({p.key, figure(p.before_us), figure(p.after_us),
                 percent_error(p.after_us / p.before_us - 1)});
  if (moved > 0) out += table.text() + "\n";
  out += fmt::format("  {} of {} points moved beyond noise{}\n", moved, c.points.size(),
                     moved > shown ? fmt::format("; the {} largest are shown", shown) : "");
  for (std::size_t i = 0; i < std::min(shown, c.states.size()); ++i)
    out += fmt::format("  {}\n", c.states[i]);
  if (c.states.size() > shown) out += fmt::format("  and {} more\n", c.states.size() - shown);
  if (c.only_before + c.only_after > 0)
    out += fmt::format("  {} points only before, {} only after\n", c.only_before, c.only_after);
  return out;
}

std::string comparison_to_json(const RawComparison& c) {
  std::string out = "{\"schema\":1,\"points\":[";
  for (const auto& p : c.points)
    out += fmt::format("{}\n{{\"point\":{},\"before_us\":{},\"after_us\":{},\"beyond_noise\":{}}}",
                       &p == c.points.data() ? "" : ",", json_text(p.key), p.before_us, p.after_us,
                       p.beyond_noise);
  out += "],\n\"states\":[";
  for (const auto& s : c.states)
    out += fmt::format("{}{}", &s == c.states.data() ? "" : ",", json_text(s));
  return out +
         fmt::format("],\"only_before\":{},\"only_after\":{}}}\n", c.only_before, c.only_after);
}
