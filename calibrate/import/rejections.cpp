#include "calibrate/import/rejections.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "calibrate/import/row_checks.hpp"
#include "sim/base/table_text.hpp"

namespace {

// The shortest kernel of the tables takes 1.6 us, graph-replayed; the longest 4 s.
constexpr double us_min = 0.5, us_max = 600e6;
// How many and what share of a set's rows may beat any GPU. In the two tables that have such sets
// the rows below the limit are as wrong: something was not computed (h200_sxm vllm 0.19.0 and
// b200_sxm sglang 0.5.10, context_attention without a window: up to ten times faster than the next
// version).
constexpr std::size_t beating_rows_max = 3;
constexpr double beating_max = 0.0005;

}  // namespace

void Rejections::add(std::string_view reason, int line, std::size_t cell) {
  auto it = reasons_.find(reason);
  if (it == reasons_.end()) it = reasons_.emplace(reason, First{}).first;
  First& first = it->second;
  if (first.rows++ == 0 || line < first.line) first.line = line, first.cell = cell;
}

std::size_t Rejections::rows() const {
  std::size_t out = 0;
  for (const auto& [reason, first] : reasons_) out += first.rows;
  return out;
}

std::vector<Rejected> Rejections::report(const std::string& path, std::string_view text) const {
  std::vector<Rejected> out;
  for (const auto& [reason, first] : reasons_) {
    CsvReader reader(text);
    while (reader.next() && reader.line() < first.line) {
    }
    Rejected r;
    r.reason = reason;
    r.rows = first.rows;
    r.where = table_place(path, first.line, reader.column(first.cell), reader.text());
    r.first = fmt::format("{}: {}", r.where.text(), r.where.source->text);
    out.push_back(std::move(r));
  }
  return out;
}

std::size_t sift(KernelRows& set, const KernelClass& kind, std::size_t time_cell,
                 Rejections& rejections) {
  const auto leave_out = [&](std::string_view reason, const std::vector<KernelRow>& rows) {
    for (const auto& row : rows) rejections.add(reason, row.line, time_cell);
  };
  const auto impossible = [&](const KernelRow& row) {
    const char* reason = row.time_us < us_min   ? "under 0.5 us: no kernel is that short"
                         : row.time_us > us_max ? "over 10 minutes: no kernel is that long"
                                                : nullptr;
    if (reason) rejections.add(reason, row.line, time_cell);
    return reason != nullptr;
  };
  set.rows.erase(std::remove_if(set.rows.begin(), set.rows.end(), impossible), set.rows.end());
  const auto beating = beating_any_gpu(kind, set);
  if (beating.size() >= beating_rows_max &&
      static_cast<double>(beating.size()) > beating_max * static_cast<double>(set.rows.size())) {
    leave_out("of a set with many rows that are faster than the arithmetic takes on any GPU",
              set.rows);
    set.rows.clear();
    return 0;
  }
  if (!beating.empty()) {
    leave_out("faster than the arithmetic takes on any GPU", beating);
    auto next = beating.begin();  // in the order of the rows
    const auto hit = [&](const KernelRow& row) {
      if (next == beating.end() || next->line != row.line) return false;
      return ++next, true;
    };
    set.rows.erase(std::remove_if(set.rows.begin(), set.rows.end(), hit), set.rows.end());
  }
  auto merged = merge_repeats(std::move(set.rows), kind.axes.size());
  leave_out("duplicate shapes that disagree by more than 20 %", merged.rejected);
  auto checked = reject_outliers(std::move(merged.kept), kind.axes.size());
  leave_out("outlier: more than 3 times both neighbours along the last axis", checked.rejected);
  set.rows = std::move(checked.kept);
  return merged.averaged;
}
