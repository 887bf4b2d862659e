#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

/// A text that values came from: a file, or the `--set` arguments of a command. Of a large file it
/// may hold a part, whose first line has the number `first_line`.
struct Source {
  std::string name;
  std::string text;
  int first_line = 1;
  /// Line `n` (1-based) without its line break; empty when there is none.
  std::string_view line(int n) const;
};

/// Where a value stands: file, line and column, both 1-based; line 0 means "the file as a whole".
struct Location {
  std::shared_ptr<const Source> source;
  int line = 0;
  int column = 0;
  /// "file:line:column", as compilers write it.
  std::string text() const;
};

/// One thing that is wrong with the input, where, and what to do about it.
struct Diagnostic {
  Location where;
  std::string message;
  std::string hint;  // empty when there is nothing useful to say
};

/// Everything that is wrong with the input, in the order of the text. Readers add to it and go on,
/// so that a user sees all errors at once.
class Diagnostics {
 public:
  void error(Location where, std::string message, std::string hint = {});
  void append(const Diagnostics& other);
  bool empty() const { return list_.empty(); }
  std::size_t size() const { return list_.size(); }
  const std::vector<Diagnostic>& list() const { return list_; }
  /// Compiler-style text: place, message, the line with a caret, the hint.
  std::string render() const;

 private:
  std::vector<Diagnostic> list_;
};

/// A loaded thing, or everything that was wrong with its text.
template <class T>
using Expected = tl::expected<T, Diagnostics>;

/// The candidate nearest to `word` if it is near enough to be a slip of the fingers, else "".
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// "did you mean 'x'?" or, when nothing is near, "known: a, b, c".
std::string suggestion(std::string_view word, const std::vector<std::string>& candidates);
