#pragma once

#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "sim/base/quantity.hpp"

/// Why a text is not a quantity: what is wrong, and what would be right.
struct ParseError {
  std::string message;
  std::string hint;
};

template <class T>
using Parsed = tl::expected<T, ParseError>;

/// A quantity from its text: "55 GB/s", "4 us", "96 GiB", "256", "15 %", "16 /s", "inf".
/// GB is 10^9, GiB is 2^30. A bare number is an error where a unit is needed.
template <class T>
Parsed<T> parse(std::string_view text);

template <>
Parsed<bool> parse<bool>(std::string_view text);
template <>
Parsed<int> parse<int>(std::string_view text);
template <>
Parsed<std::int64_t> parse<std::int64_t>(std::string_view text);
/// A number without a unit, or a percentage ("15 %" is 0.15).
template <>
Parsed<double> parse<double>(std::string_view text);
template <>
Parsed<std::string> parse<std::string>(std::string_view text);
template <>
Parsed<Duration> parse<Duration>(std::string_view text);
template <>
Parsed<Bytes> parse<Bytes>(std::string_view text);
template <>
Parsed<Tokens> parse<Tokens>(std::string_view text);
template <>
Parsed<Flops> parse<Flops>(std::string_view text);
template <>
Parsed<BytesPerSecond> parse<BytesPerSecond>(std::string_view text);
template <>
Parsed<FlopsPerSecond> parse<FlopsPerSecond>(std::string_view text);
template <>
Parsed<PerSecond> parse<PerSecond>(std::string_view text);
template <>
Parsed<TokensPerSecond> parse<TokensPerSecond>(std::string_view text);
template <>
Parsed<Hertz> parse<Hertz>(std::string_view text);

/// The text times a factor, its unit kept: ("22 GB/s", 2) -> "44 GB/s". Empty if the text does
/// not start with a number.
std::string scale_text(std::string_view text, double factor);

/// Short text with a fitting unit: "12 KiB", "1.50 GB/s", "4.94 us", "48.2 ms".
std::string text(Bytes b);
std::string text(BytesPerSecond r);
std::string text(Duration d);
/// 9166 -> "9,166".
std::string grouped(std::int64_t n);
