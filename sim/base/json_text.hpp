#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

/// `text` as a JSON string: quotes, backslashes and control characters escaped, the rest as it is.
inline std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out + '"';
}
