#include "sim/base/diagnostics.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

#include <fmt/format.h>

std::string_view Source::line(int n) const {
  if (n < first_line) return {};
  std::string_view rest = text;
  for (int i = first_line; i < n; ++i) {
    const auto end = rest.find('\n');
    if (end == std::string_view::npos) return {};
    rest.remove_prefix(end + 1);
  }
  std::string_view found = rest.substr(0, rest.find('\n'));
  if (found.ends_with('\r')) found.remove_suffix(1);
  return found;
}

std::string Location::text() const {
  if (!source) return "input";
  return line == 0 ? source->name : fmt::format("{}:{}:{}", source->name, line, column);
}

void Diagnostics::error(Location where, std::string message, std::string hint) {
  list_.push_back({std::move(where), std::move(message), std::move(hint)});
}

void Diagnostics::append(const Diagnostics& other) {
  list_.insert(list_.end(), other.list_.begin(), other.list_.end());
}

std::string Diagnostics::render() const {
  std::vector<const Diagnostic*> order;
  for (const auto& d : list_) order.push_back(&d);
  // In the order of the text within one source; sources in the order in which they came up.
  std::vector<const Source*> sources;
  for (const auto& d : list_) sources.push_back(d.where.source.get());
  const auto place = [&](const Diagnostic* d) {
    const auto first = std::find(sources.begin(), sources.end(), d->where.source.get());
    return std::tuple(first - sources.begin(), d->where.line, d->where.column);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const Diagnostic* a, const Diagnostic* b) { return place(a) < place(b); });
  std::string out;
  for (const Diagnostic* d : order) {
    out += fmt::format("{}: error: {}\n", d->where.text(), d->message);
    if (d->where.source && d->where.line > 0) {
      const auto line = d->where.source->line(d->where.line);
      const auto number = fmt::format("{:>4} | ", d->where.line);
      std::string pad;
      // Tabs stay tabs and the later bytes of a character take no place, so that the caret lands
      // under its character in any terminal.
      for (int i = 0; i + 1 < d->where.column; ++i) {
        const char c = static_cast<std::size_t>(i) < line.size() ? line[i] : ' ';
        if ((static_cast<unsigned char>(c) & 0xc0) == 0x80) continue;
        pad += c == '\t' ? '\t' : ' ';
      }
      out += fmt::format("{}{}\n{:>4} | {}^\n", number, line, "", pad);
    }
    if (!d->hint.empty()) out += fmt::format("  {}\n", d->hint);
  }
  return out;
}

namespace {

// Edits (insert, delete, replace, swap of neighbours) that turn `a` into `b`.
int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> before(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    next[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replace = row[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        next[j] = std::min(next[j], before[j - 2] + 1);
    }
    before = row;
    row.swap(next);
  }
  return row[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  int best_distance = std::max<int>(1, static_cast<int>(word.size()) / 3) + 1;
  for (const auto& candidate : candidates) {
    const int d = edit_distance(word, candidate);
    if (d < best_distance) best = candidate, best_distance = d;
  }
  return best;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  if (const auto near = nearest(word, candidates); !near.empty())
    return fmt::format("did you mean '{}'?", near);
  if (candidates.empty()) return {};
  return fmt::format("known: {}", fmt::join(candidates, ", "));
}
