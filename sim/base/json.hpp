#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

struct JsonMember;

/// A JSON value that remembers where in its text it stands, so that a wrong one can be pointed at.
struct Json {
  enum class Kind { null, boolean, number, string, array, object };

  Kind kind = Kind::null;
  double number = 0;                // a boolean: 0 or 1
  std::string text;                 // of a string
  std::vector<Json> items;          // of an array
  std::vector<JsonMember> members;  // of an object
  std::size_t at = 0;               // its first byte

  bool is(Kind k) const { return kind == k; }
  /// The member `key` of an object; null when this is none or has no such key.
  const Json* find(std::string_view key) const;
  /// A finite number that is whole and fits; nothing else.
  std::optional<std::int64_t> whole() const;
};

/// One key of an object. Not a pair: clang 14 would want to know all about Json inside itself.
struct JsonMember {
  std::string key;
  Json value;
};

struct JsonError {
  std::size_t at = 0;
  std::string message;
};

/// Parses one value and nothing behind it. As Python writes it: NaN, Infinity and -Infinity are
/// numbers. Refused: a key twice in one object, more than 64 levels.
tl::expected<Json, JsonError> parse_json(std::string_view text);

/// Line and column of a byte, both from 1.
std::pair<int, int> line_and_column(std::string_view text, std::size_t at);
