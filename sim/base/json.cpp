#include "sim/base/json.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>

#include <fmt/format.h>

namespace {

struct Failed {
  JsonError error;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Json document() {
    Json out = value(0);
    space();
    if (at_ < text_.size()) fail("something stands behind the value");
    return out;
  }

 private:
  [[noreturn]] void fail(std::string message) const { throw Failed{{at_, std::move(message)}}; }

  void space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
      ++at_;
  }
  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  Json value(int depth) {
    space();
    if (depth > 64) fail("more than 64 levels");
    if (at_ == text_.size()) fail("the text ends where a value is wanted");
    Json out;
    out.at = at_;
    const auto constant = [&](std::string_view word, Json::Kind kind, double number) {
      if (!take(word)) return false;
      out.kind = kind;
      out.number = number;
      return true;
    };
    constexpr double inf = std::numeric_limits<double>::infinity();
    if (text_[at_] == '{')
      object(out, depth);
    else if (text_[at_] == '[')
      array(out, depth);
    else if (text_[at_] == '"')
      out.kind = Json::Kind::string, out.text = string();
    else if (!constant("null", Json::Kind::null, 0) && !constant("true", Json::Kind::boolean, 1) &&
             !constant("false", Json::Kind::boolean, 0) &&
             !constant("NaN", Json::Kind::number, std::numeric_limits<double>::quiet_NaN()) &&
             !constant("Infinity", Json::Kind::number, inf) &&
             !constant("-Infinity", Json::Kind::number, -inf))
      number(out);
    return out;
  }

  void number(Json& out) {
    const char* end_of_text = text_.data() + text_.size();
    // from_chars reads words ("nan") that JSON does not have
    const char first = text_[at_];
    if (first != '-' && (first < '0' || first > '9')) fail("this is no JSON value");
    const auto [end, code] = std::from_chars(text_.data() + at_, end_of_text, out.number);
    if (code != std::errc()) fail("this is no number");
    out.kind = Json::Kind::number;
    at_ = static_cast<std::size_t>(end - text_.data());
  }

  void array(Json& out, int depth) {
    out.kind = Json::Kind::array;
    ++at_;
    space();
    if (take("]")) return;
    for (;;) {
      out.items.push_back(value(depth + 1));
      space();
      if (take("]")) return;
      if (!take(",")) fail("',' or ']' is wanted here");
    }
  }

  void object(Json& out, int depth) {
    out.kind = Json::Kind::object;
    ++at_;
    space();
    if (take("}")) return;
    for (;;) {
      space();
      if (at_ == text_.size() || text_[at_] != '"') fail("a key in quotes is wanted here");
      const std::size_t start = at_;
      std::string key = string();
      if (out.find(key)) {
        at_ = start;
        fail(fmt::format("key '{}' appears twice", key));
      }
      space();
      if (!take(":")) fail("':' is wanted here");
      out.members.push_back({std::move(key), value(depth + 1)});
      space();
      if (take("}")) return;
      if (!take(",")) fail("',' or '}' is wanted here");
    }
  }

  unsigned hex4() {
    unsigned code = 0;
    const auto digits = text_.substr(at_, 4);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (error != std::errc() || end != digits.data() + 4)
      fail("four hexadecimal digits are wanted");
    at_ += 4;
    return code;
  }

  static void append_utf8(std::string& out, unsigned c) {
    const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((c >> shift) & 0x3f)); };
    if (c < 0x80) {
      out += static_cast<char>(c);
    } else if (c < 0x800) {
      out += static_cast<char>(0xc0 | (c >> 6)), tail(0);
    } else if (c < 0x10000) {
      out += static_cast<char>(0xe0 | (c >> 12)), tail(6), tail(0);
    } else {
      out += static_cast<char>(0xf0 | (c >> 18)), tail(12), tail(6), tail(0);
    }
  }

  std::string string() {
    std::string out;
    ++at_;
    for (;;) {
      if (at_ == text_.size()) fail("the text ends inside a string");
      const char c = text_[at_];
      if (c == '"') return ++at_, out;
      if (static_cast<unsigned char>(c) < 0x20) fail("a control character inside a string");
      ++at_;
      if (c != '\\') {
        out += c;
        continue;
      }
      if (at_ == text_.size()) fail("the text ends inside a string");
      constexpr std::string_view escapes = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
      const char e = text_[at_];
      if (const auto i = escapes.find(e); i != std::string_view::npos) {
        out += meanings[i];
        ++at_;
      } else if (e == 'u') {
        ++at_;
        unsigned code = hex4();
        if (code >= 0xd800 && code < 0xdc00 && take("\\u"))
          code = 0x10000 + ((code - 0xd800) << 10) + ((hex4() - 0xdc00) & 0x3ff);
        append_utf8(out, code);
      } else {
        fail("JSON has no such escape");
      }
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

const Json* Json::find(std::string_view key) const {
  for (const auto& [name, value] : members)
    if (name == key) return &value;
  return nullptr;
}

std::optional<std::int64_t> Json::whole() const {
  if (kind != Kind::number || number != std::floor(number) || std::abs(number) > 9e15) return {};
  return static_cast<std::int64_t>(number);
}

tl::expected<Json, JsonError> parse_json(std::string_view text) {
  try {
    return Parser(text).document();
  } catch (const Failed& failed) {
    return tl::unexpected(failed.error);
  }
}

std::pair<int, int> line_and_column(std::string_view text, std::size_t at) {
  const auto before = text.substr(0, at);
  const auto line = std::count(before.begin(), before.end(), '\n');
  const auto start = before.rfind('\n');
  return {static_cast<int>(line) + 1,
          static_cast<int>(before.size() - (start == std::string_view::npos ? 0 : start + 1)) + 1};
}
