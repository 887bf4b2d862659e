#include "calibrate/import/row_checks.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace {

constexpr double repeats_differ_max = 1.20;
// Some kernels that are listed as bfloat16 compute in fp8 at part of its peak.
constexpr double peak_margin = 1.5;
// Medians of the 182 tables of aiconfigurator @095f58a5 that have a class lie between 1/5 and 16
// times the law; a wrong unit is a factor of 1000.
constexpr double over_law_max = 60;

bool same(const KernelRow& a, const KernelRow& b, std::size_t axes) {
  return std::equal(a.x.begin(), a.x.begin() + static_cast<std::ptrdiff_t>(axes), b.x.begin());
}

// A card in the middle of those with tables: an H100 with NVFP4 that computes like FP8.
GpuSpec middle_card() {
  GpuSpec gpu;
  gpu.sm_count = 132;
  gpu.l2 = 50_MiB;
  gpu.memory_bandwidth = BytesPerSecond(3e12);
  gpu.bf16 = FlopsPerSecond(1e15);
  gpu.fp8 = gpu.nvfp4 = FlopsPerSecond(2e15);
  return gpu;
}

// B300: 2.5, 5 and 15 PFLOP/s dense (NVIDIA, 2025); no card of 2026 is faster.
GpuSpec fastest() {
  GpuSpec gpu = middle_card();
  gpu.bf16 = FlopsPerSecond(2.5e15);
  gpu.fp8 = FlopsPerSecond(5e15);
  gpu.nvfp4 = FlopsPerSecond(15e15);
  return gpu;
}

bool all_known(const KernelClass& kind, const std::map<std::string, std::string>& words) {
  return std::all_of(kind.words.begin(), kind.words.end(),
                     [&](const std::string& word) { return words.count(word) > 0; });
}

}  // namespace

CheckedRows merge_repeats(std::vector<KernelRow> rows, std::size_t axes) {
  // By time within a shape, so that the sum of a mean does not depend on the order of the file.
  std::sort(rows.begin(), rows.end(), [&](const KernelRow& a, const KernelRow& b) {
    for (std::size_t i = 0; i < axes; ++i)
      if (a.x[i] != b.x[i]) return a.x[i] < b.x[i];
    return a.time_us != b.time_us ? a.time_us < b.time_us : a.line < b.line;
  });
  CheckedRows out;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < rows.size();) {
    std::size_t end = i + 1;
    double sum = rows[i].time_us;
    int line = rows[i].line;
    for (; end < rows.size() && same(rows[i], rows[end], axes); ++end) {
      sum += rows[end].time_us;
      line = std::min(line, rows[end].line);
    }
    if (rows[end - 1].time_us > repeats_differ_max * rows[i].time_us) {
      out.rejected.insert(out.rejected.end(), rows.begin() + static_cast<std::ptrdiff_t>(i),
                          rows.begin() + static_cast<std::ptrdiff_t>(end));
    } else {
      KernelRow row = rows[i];
      row.time_us = sum / static_cast<double>(end - i);
      row.line = line;
      rows[kept++] = row;
      out.averaged += end - i - 1;
    }
    i = end;
  }
  rows.resize(kept);
  out.kept = std::move(rows);
  return out;
}

CheckedRows reject_outliers(std::vector<KernelRow> rows, std::size_t axes, double factor) {
  CheckedRows out;
  const auto above = [&](const KernelRow& row, const KernelRow& other) {
    return same(row, other, axes - 1) && row.time_us > factor * other.time_us;
  };
  std::vector<std::size_t> bad;
  for (std::size_t i = 1; i + 1 < rows.size(); ++i)
    if (above(rows[i], rows[i - 1]) && above(rows[i], rows[i + 1])) bad.push_back(i);
  if (!bad.empty()) {
    std::size_t kept = 0;
    auto next = bad.begin();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (next != bad.end() && *next == i)
        out.rejected.push_back(rows[i]), ++next;
      else
        rows[kept++] = rows[i];
    }
    rows.resize(kept);
  }
  out.kept = std::move(rows);
  return out;
}

double median_over_law(const KernelClass& kind, const std::vector<KernelRows>& sets) {
  std::vector<double> guesses, ratios;
  for (const auto& p : kind.parameters) guesses.push_back(p.guess);
  const GpuSpec gpu = middle_card();
  for (const auto& set : sets) {
    // A wrong guess of an unknown word is far from a factor of 1000.
    auto words = set.words;
    for (const auto& word : kind.words)
      words.emplace(word, word == "head_dim"      ? "128"
                          : word == "window_size" ? "0"
                          : word == "num_gpus"    ? "8"
                                                  : "bfloat16");
    const LawContext context = kind.context(gpu, words);
    for (const auto& row : set.rows) {
      const double law = kind.law(context, guesses.data(), row.x.data());
      if (law > 0) ratios.push_back(row.time_us / law);
    }
  }
  if (ratios.empty()) return 1;
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::nth_element(ratios.begin(), middle, ratios.end());
  return *middle;
}

std::optional<UnitProblem> unit_problem(double over_law, std::string_view unit) {
  if (over_law <= over_law_max && over_law >= 1 / over_law_max) return {};
  const auto factor = over_law > 1 ? fmt::format("{:.0f} times", over_law)
                                   : fmt::format("1/{:.0f} of", 1 / over_law);
  return UnitProblem{
      fmt::format("times cannot be {}: their median is {} what such kernels take", unit, factor),
      over_law > 1 ? "they look a thousand times too long: write them in that unit"
                   : "they look a thousand times too short: write them in that unit"};
}

std::vector<KernelRow> beating_any_gpu(const KernelClass& kind, const KernelRows& set) {
  std::vector<KernelRow> out;
  if (!all_known(kind, set.words)) return out;
  const LawContext card = kind.context(fastest(), set.words);
  for (const auto& row : set.rows)
    if (peak_margin * row.time_us < kind.bound(card, row.x.data()).arithmetic_us)
      out.push_back(row);
  return out;
}

std::size_t drop_faster_than(const GpuSpec& gpu, KernelRows& set) {
  const KernelClass& kind = *KernelClasses::find(set.kernel_class);
  auto words = set.words;
  words.emplace("window_size", "0");  // older collectors knew no windows
  if (!all_known(kind, words)) return 0;
  const LawContext card = kind.context(gpu, words);
  const auto impossible = [&](const KernelRow& row) {
    return 2.2 * row.time_us < kind.bound(card, row.x.data()).arithmetic_us;
  };
  const auto before = set.rows.size();
  const auto bad =
      static_cast<std::size_t>(std::count_if(set.rows.begin(), set.rows.end(), impossible));
  if (50 * bad > before)
    set.rows.clear();
  else
    std::erase_if(set.rows, impossible);
  return before - set.rows.size();
}
