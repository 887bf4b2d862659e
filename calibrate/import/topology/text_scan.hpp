#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/diagnostics.hpp"

/// A word of a line and the column, from 1, in which it starts.
struct Word {
  std::string_view text;
  int column = 0;
};

/// The words of a line: what stands between blanks, tabs and terminal escape sequences
/// (`nvidia-smi topo` underlines its header).
std::vector<Word> words_of(std::string_view line);

/// The lines of a text without their line breaks.
std::vector<std::string_view> text_lines(std::string_view text);

/// The place of a part of `text`, which must point into it.
Location place_in(const std::string& path, std::string_view text, std::string_view part);

/// A whole number of at most six digits that fills the word after `prefix` ("GPU7"); else nothing.
std::optional<int> number_after(std::string_view word, std::string_view prefix);
/// A number in base 16 that fills the word, with or without 0x.
std::optional<unsigned> hex_number(std::string_view word);

/// `text` with every character that a terminal or a YAML comment could take amiss made a blank, at
/// most `length` characters of it.
std::string printable(std::string_view text, std::size_t length = 80);
