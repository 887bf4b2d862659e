#include "calibrate/import/topology/text_scan.hpp"

#include <algorithm>
#include <charconv>

#include "sim/base/table_text.hpp"

namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; }

// Length of the escape sequence at the start of `s` (ESC [ ... letter), 0 where there is none.
std::size_t escape_length(std::string_view s) {
  if (s.size() < 2 || s[0] != '\x1b' || s[1] != '[') return 0;
  for (std::size_t i = 2; i < s.size(); ++i)
    if (s[i] >= '@' && s[i] <= '~') return i + 1;
  return s.size();
}

}  // namespace

std::vector<Word> words_of(std::string_view line) {
  std::vector<Word> out;
  std::size_t i = 0;
  while (i < line.size()) {
    if (const auto skipped = escape_length(line.substr(i))) {
      i += skipped;
      continue;
    }
    if (is_blank(line[i])) {
      ++i;
      continue;
    }
    std::size_t end = i + 1;
    while (end < line.size() && !is_blank(line[end]) && escape_length(line.substr(end)) == 0) ++end;
    out.push_back({line.substr(i, end - i), static_cast<int>(i) + 1});
    i = end;
  }
  return out;
}

std::vector<std::string_view> text_lines(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const auto end = text.find('\n');
    auto line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    out.push_back(line);
  }
  return out;
}

Location place_in(const std::string& path, std::string_view text, std::string_view part) {
  const auto at = std::min(text.size(), static_cast<std::size_t>(std::max<std::ptrdiff_t>(
                                            0, part.data() ? part.data() - text.data() : 0)));
  const auto before = text.substr(0, at);
  const auto line = static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1;
  const auto start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return table_place(path, line, static_cast<int>(at - start) + 1,
                     text.substr(start, text.find('\n', at) - start));
}

std::optional<int> number_after(std::string_view word, std::string_view prefix) {
  if (!word.starts_with(prefix)) return {};
  word.remove_prefix(prefix.size());
  if (word.empty() || word.size() > 6) return {};
  int out = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), out);
  if (error != std::errc() || end != word.data() + word.size() || out < 0) return {};
  return out;
}

std::optional<unsigned> hex_number(std::string_view word) {
  if (word.starts_with("0x")) word.remove_prefix(2);
  unsigned out = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), out, 16);
  if (word.empty() || error != std::errc() || end != word.data() + word.size()) return {};
  return out;
}

std::string printable(std::string_view text, std::size_t length) {
  std::string out(text.substr(0, length));
  for (char& c : out)
    if (c < ' ' || c == '\x7f') c = ' ';  // also every byte beyond ASCII
  return out;
}
