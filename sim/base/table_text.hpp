#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/diagnostics.hpp"

/// The text of a table, plain or gz, without a byte order mark. Refused: what is missing, empty,
/// damaged, cut off, larger than a gigabyte or no text at all.
Expected<std::string> read_table_text(const std::string& path);

/// Where something stands in a table, with a copy of that line alone: tables are large, and a
/// diagnostic outlives its text.
Location table_place(const std::string& path, int line, int column, std::string_view line_text);

/// Walks the lines of a CSV text that are not empty, without copying: cells are views into the
/// text, trimmed of spaces, and into this object where a quote had to be undone.
class CsvReader {
 public:
  explicit CsvReader(std::string_view text) : rest_(text) {}
  CsvReader(const CsvReader&) = delete;
  CsvReader& operator=(const CsvReader&) = delete;

  /// To the next line that is not empty; false at the end.
  bool next();
  int line() const { return line_; }
  std::string_view text() const { return text_; }
  const std::vector<std::string_view>& cells() const { return cells_; }
  /// Column of the text, from 1, in which a cell starts; of the last cell where there is no such.
  int column(std::size_t cell) const;
  /// A quote that opens and does not close.
  bool quote_is_open() const { return quote_is_open_; }

 private:
  void split();
  void split_quoted();

  std::string_view rest_, text_;
  std::vector<std::string_view> cells_;
  std::vector<int> columns_;
  std::vector<std::string> unquoted_;
  int line_ = 0;
  bool quote_is_open_ = false;
};

/// A finite number that fills the whole cell.
std::optional<double> table_number(std::string_view cell);
