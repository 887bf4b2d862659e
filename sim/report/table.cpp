#include "sim/report/table.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/base/units.hpp"

Table::Table(std::vector<std::string> header, int indent) : left_(header.size()), indent_(indent) {
  left_[0] = true;
  rows_.push_back(std::move(header));
}

Table& Table::left(std::size_t column) { return left_[column] = true, *this; }

void Table::row(std::vector<std::string> cells) {
  cells.resize(rows_.front().size());
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<std::size_t> width(rows_.front().size());
  for (const auto& row : rows_)
    for (std::size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  std::string out;
  for (const auto& row : rows_) {
    std::string line(static_cast<std::size_t>(indent_), ' ');
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (c > 0) line += "  ";
      line += left_[c] ? fmt::format("{:<{}}", row[c], width[c])
                       : fmt::format("{:>{}}", row[c], width[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    if (!line.empty()) out += line + "\n";
  }
  return out;
}

std::string percent_error(double relative) {
  const double p = relative * 100;
  return std::abs(p) < 9.95 ? fmt::format("{:+.1f} %", p) : fmt::format("{:+.0f} %", p);
}

std::string percent(double share) {
  const double p = share * 100;
  return p < 9.95 ? fmt::format("{:.1f} %", p) : fmt::format("{:.0f} %", p);
}

std::string figure(double value) {
  const double size = std::abs(value);
  if (size >= 1000) return grouped(std::llround(value));
  if (size >= 99.95) return fmt::format("{:.0f}", value);
  if (size >= 9.995) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2f}", value);
}

std::string wrapped(const std::string& text, int indent, int width) {
  const std::string pad(static_cast<std::size_t>(indent), ' ');
  std::string out, line;
  std::size_t at = 0;
  while (at < text.size()) {
    const auto space = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, space - at);
    const bool unit = word.starts_with('%');  // stays with its number
    if (!line.empty() && !unit &&
        static_cast<int>(pad.size() + line.size() + 1 + word.size()) > width) {
      out += pad + line + "\n";
      line.clear();
    }
    line += (line.empty() || word.empty() ? "" : " ") + word;
    at = space + 1;
  }
  return line.empty() ? out : out + pad + line + "\n";
}
