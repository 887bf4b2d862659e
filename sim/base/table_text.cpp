#include "sim/base/table_text.hpp"

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>

namespace fs = std::filesystem;

namespace {

constexpr std::size_t size_max = std::size_t{1} << 30;  // a small gz can hold any amount of zeros
constexpr std::size_t shown_max = 400;                  // of a line in a diagnostic

std::string_view trim(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t' || s.back() == '\r'))
    s.remove_suffix(1);
  return s;
}

std::vector<std::string> neighbours(const fs::path& path) {
  std::vector<std::string> out;
  std::error_code code;
  const auto folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  for (const auto& entry : fs::directory_iterator(folder, code))
    out.push_back((path.parent_path() / entry.path().filename()).string());
  std::sort(out.begin(), out.end());
  return out;
}

// What is wrong, or empty.
std::string read(const std::string& path, std::string& text) {
  const gzFile file = gzopen(path.c_str(), "rb");  // reads plain files as they are
  if (!file) return "the file cannot be opened";
  std::vector<char> buffer(1 << 18);
  int n = 0;
  while (text.size() <= size_max &&
         (n = gzread(file, buffer.data(), static_cast<unsigned>(buffer.size()))) > 0)
    text.append(buffer.data(), static_cast<std::size_t>(n));
  int code = Z_OK;
  gzerror(file, &code);
  const bool plain = gzdirect(file) == 1;
  const int closed = gzclose(file);
  if (text.size() > size_max) return "the table is larger than 1 GiB";
  if (n < 0 || code != Z_OK || closed != Z_OK)
    return plain ? "the file cannot be read" : "the gz data are damaged or cut off";
  if (plain && path.ends_with(".gz") && !text.empty())
    return "the name ends in .gz but the file holds no gz data";
  return {};
}

}  // namespace

Location table_place(const std::string& path, int line, int column, std::string_view line_text) {
  auto source = std::make_shared<Source>();
  source->name = path;
  source->text = line_text.substr(0, shown_max);
  source->first_line = line;
  return {source, line, column};
}

Expected<std::string> read_table_text(const std::string& path) {
  Diagnostics errors;
  std::error_code code;
  const auto fail = [&](const std::string& message, const std::string& hint = {}) {
    errors.error(table_place(path, 0, 0, {}), message, hint);
    return tl::unexpected(errors);
  };
  if (!fs::is_regular_file(path, code)) {
    const auto near = nearest(path, neighbours(path));
    return fail(fs::is_directory(path, code) ? "this is a folder" : "there is no such file",
                near.empty() || near == path ? "" : fmt::format("did you mean '{}'?", near));
  }
  std::string text;
  if (const auto problem = read(path, text); !problem.empty()) return fail(problem);
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
    return fail("the table is UTF-16", "save it as UTF-8");
  if (text.find('\0') != std::string::npos) return fail("this is no text");
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) return fail("the file is empty");
  return text;
}

bool CsvReader::next() {
  while (!rest_.empty()) {
    const auto end = rest_.find('\n');
    text_ = rest_.substr(0, end);
    rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
    ++line_;
    if (text_.ends_with('\r')) text_.remove_suffix(1);
    if (trim(text_).empty()) continue;
    cells_.clear();
    columns_.clear();
    quote_is_open_ = false;
    if (text_.find('"') == std::string_view::npos)
      split();
    else
      split_quoted();
    return true;
  }
  return false;
}

int CsvReader::column(std::size_t cell) const {
  return columns_.empty() ? 1 : columns_[std::min(cell, columns_.size() - 1)];
}

void CsvReader::split() {
  std::size_t from = 0;
  for (;;) {
    const auto to = text_.find(',', from);
    const auto cell = trim(text_.substr(from, to - from));
    cells_.push_back(cell);
    columns_.push_back(static_cast<int>(
        (cell.empty() ? from : static_cast<std::size_t>(cell.data() - text_.data())) + 1));
    if (to == std::string_view::npos) return;
    from = to + 1;
  }
}

// RFC 4180, without line breaks inside quotes: no table of ours has them.
void CsvReader::split_quoted() {
  unquoted_.clear();
  std::string cell;
  bool inside = false;
  std::size_t start = 0;
  for (std::size_t i = 0; i <= text_.size(); ++i) {
    if (i == text_.size() || (text_[i] == ',' && !inside)) {
      unquoted_.emplace_back(trim(cell));
      columns_.push_back(static_cast<int>(start + 1));
      cell.clear();
      start = i + 1;
    } else if (text_[i] != '"') {
      cell += text_[i];
    } else if (inside && i + 1 < text_.size() && text_[i + 1] == '"') {
      cell += text_[i++];
    } else {
      inside = !inside;
    }
  }
  quote_is_open_ = inside;
  for (const auto& c : unquoted_) cells_.emplace_back(c);
}

std::optional<double> table_number(std::string_view cell) {
  if (cell.starts_with('+')) cell.remove_prefix(1);
  double value = 0;
  const auto [end, code] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (code != std::errc() || end != cell.data() + cell.size() || !std::isfinite(value)) return {};
  return value;
}
