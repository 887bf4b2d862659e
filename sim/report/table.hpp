#pragma once

#include <string>
#include <vector>

/// An aligned text table: the first column to the left, the others to the right unless told
/// otherwise. Reads the same without colour.
class Table {
 public:
  explicit Table(std::vector<std::string> header, int indent = 2);
  Table& left(std::size_t column);
  void row(std::vector<std::string> cells);
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<bool> left_;
  int indent_;
};

/// "+6.1 %", "-12 %".
std::string percent_error(double relative);
/// "34 %", "3.2 %".
std::string percent(double share);
/// Three significant digits, thousands grouped: "196", "1.24", "20,482".
std::string figure(double value);

/// Text broken at spaces to `width` columns, each line after `indent` spaces.
std::string wrapped(const std::string& text, int indent, int width = 96);
