#include "sim/base/units.hpp"

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include <fmt/format.h>

namespace {

struct Unit {
  std::string_view name;
  double factor;  // to the base unit of its family
};

using Units = std::vector<Unit>;

const Units seconds = {{"s", 1},      {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9},
                       {"ps", 1e-12}, {"min", 60},  {"h", 3600}};
const Units bytes = {{"B", 1},           {"kB", 1e3},           {"MB", 1e6},
                     {"GB", 1e9},        {"TB", 1e12},          {"KiB", 1024.0},
                     {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0}};
const Units bytes_per_second = {{"B/s", 1},           {"kB/s", 1e3},          {"MB/s", 1e6},
                                {"GB/s", 1e9},        {"TB/s", 1e12},         {"KiB/s", 1024.0},
                                {"MiB/s", 1048576.0}, {"GiB/s", 1073741824.0}};
const Units flops = {{"FLOP", 1}, {"GFLOP", 1e9}, {"TFLOP", 1e12}, {"PFLOP", 1e15}};
const Units flops_per_second = {
    {"FLOP/s", 1}, {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}};
const Units per_second = {{"/s", 1}, {"/min", 1.0 / 60}, {"/h", 1.0 / 3600}};
const Units hertz = {{"MHz", 1e6}, {"GHz", 1e9}};
const Units tokens_per_second = {{"tok/s", 1}, {"tokens/s", 1}};
const Units tokens = {{"tok", 1}, {"tokens", 1}};

std::string_view trim(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

std::string names(const Units& units) {
  std::vector<std::string_view> list;
  for (const auto& u : units) list.push_back(u.name);
  return fmt::format("{}", fmt::join(list, ", "));
}

// Splits "22 GB/s" into 22 and "GB/s"; nothing when it does not start with a finite number.
struct Split {
  double number;
  std::string_view unit;
};
std::optional<Split> split(std::string_view text) {
  text = trim(text);
  const char* begin = text.data();
  if (text.starts_with('+') && !text.starts_with("+-")) ++begin;
  double number = 0;
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number)) return std::nullopt;
  return Split{number, trim(text.substr(static_cast<std::size_t>(end - text.data())))};
}

Parsed<double> with_unit(std::string_view text, const Units& units, std::string_view what,
                         std::string_view example) {
  const auto parts = split(text);
  if (!parts)
    return tl::unexpected(ParseError{fmt::format("'{}' is not {}", text, what),
                                     fmt::format("write for example '{}'", example)});
  if (parts->unit.empty())
    return tl::unexpected(ParseError{
        fmt::format("'{}' needs a unit", text),
        fmt::format("write '{} {}'; units: {}", text, units.front().name, names(units))});
  for (const auto& u : units) {
    if (u.name != parts->unit) continue;
    if (const double value = parts->number * u.factor; std::isfinite(value)) return value;
    return tl::unexpected(ParseError{fmt::format("'{}' is out of range", text), ""});
  }
  return tl::unexpected(ParseError{fmt::format("'{}' is not a unit of {}", parts->unit, what),
                                   fmt::format("units: {}", names(units))});
}

Parsed<std::int64_t> whole(double value, std::string_view text) {
  if (value != std::floor(value) || std::abs(value) > 9e15)
    return tl::unexpected(ParseError{fmt::format("'{}' is not a whole number", text), ""});
  return static_cast<std::int64_t>(value);
}

template <class Q>
Parsed<Q> real_quantity(std::string_view text, const Units& units, std::string_view what,
                        std::string_view example) {
  return with_unit(text, units, what, example).map([](double v) { return Q(v); });
}

}  // namespace

template <>
Parsed<bool> parse<bool>(std::string_view text) {
  const auto t = trim(text);
  if (t == "on" || t == "true" || t == "yes") return true;
  if (t == "off" || t == "false" || t == "no") return false;
  return tl::unexpected(
      ParseError{fmt::format("'{}' is neither on nor off", text), "write on or off"});
}

template <>
Parsed<std::int64_t> parse<std::int64_t>(std::string_view text) {
  const auto parts = split(text);
  if (!parts || !parts->unit.empty())
    return tl::unexpected(ParseError{fmt::format("'{}' is not a whole number", text), ""});
  return whole(parts->number, text);
}

template <>
Parsed<int> parse<int>(std::string_view text) {
  auto wide = parse<std::int64_t>(text);
  if (!wide) return tl::unexpected(wide.error());
  if (*wide > std::numeric_limits<int>::max() || *wide < std::numeric_limits<int>::min())
    return tl::unexpected(ParseError{fmt::format("'{}' is out of range", text), ""});
  return static_cast<int>(*wide);
}

template <>
Parsed<double> parse<double>(std::string_view text) {
  const auto parts = split(text);
  if (parts && parts->unit.empty()) return parts->number;
  if (parts && parts->unit == "%") return parts->number / 100;
  return tl::unexpected(ParseError{fmt::format("'{}' is not a plain number", text),
                                   "write a number without a unit, or a percentage"});
}

template <>
Parsed<std::string> parse<std::string>(std::string_view text) {
  return std::string(text);
}

template <>
Parsed<Duration> parse<Duration>(std::string_view text) {
  auto v = with_unit(text, seconds, "a time", "4 us");
  if (!v) return tl::unexpected(v.error());
  if (std::abs(*v) > 1e6)
    return tl::unexpected(ParseError{fmt::format("'{}' is longer than the clock runs", text), ""});
  return Duration::from_seconds(*v);
}

template <>
Parsed<Bytes> parse<Bytes>(std::string_view text) {
  auto v = with_unit(text, bytes, "an amount of memory", "96 GiB");
  if (!v) return tl::unexpected(v.error());
  return whole(std::round(*v), text).map([](std::int64_t n) { return Bytes(n); });
}

template <>
Parsed<Tokens> parse<Tokens>(std::string_view text) {
  const auto parts = split(text);
  if (parts && parts->unit.empty())
    return whole(parts->number, text).map([](std::int64_t n) { return Tokens(n); });
  auto v = with_unit(text, tokens, "a number of tokens", "4096");
  if (!v) return tl::unexpected(v.error());
  return whole(*v, text).map([](std::int64_t n) { return Tokens(n); });
}

template <>
Parsed<Flops> parse<Flops>(std::string_view text) {
  return real_quantity<Flops>(text, flops, "an amount of arithmetic", "1.2 TFLOP");
}
template <>
Parsed<BytesPerSecond> parse<BytesPerSecond>(std::string_view text) {
  return real_quantity<BytesPerSecond>(text, bytes_per_second, "a bandwidth", "55 GB/s");
}
template <>
Parsed<FlopsPerSecond> parse<FlopsPerSecond>(std::string_view text) {
  return real_quantity<FlopsPerSecond>(text, flops_per_second, "an arithmetic rate",
                                       "467.8 TFLOP/s");
}
template <>
Parsed<TokensPerSecond> parse<TokensPerSecond>(std::string_view text) {
  return real_quantity<TokensPerSecond>(text, tokens_per_second, "a throughput", "196 tok/s");
}
template <>
Parsed<Hertz> parse<Hertz>(std::string_view text) {
  return real_quantity<Hertz>(text, hertz, "a clock", "2430 MHz");
}

template <>
Parsed<PerSecond> parse<PerSecond>(std::string_view text) {
  if (trim(text) == "inf") return PerSecond(std::numeric_limits<double>::infinity());
  const auto parts = split(text);
  if (parts && parts->unit.empty())
    return tl::unexpected(ParseError{fmt::format("'{}' needs a unit", text),
                                     fmt::format("write '{} /s' or 'inf'", text)});
  return real_quantity<PerSecond>(text, per_second, "a rate", "16 /s");
}

std::string scale_text(std::string_view text, double factor) {
  const auto parts = split(text);
  if (!parts) return {};
  const auto number = fmt::format("{:.17g}", parts->number * factor);
  return parts->unit.empty() ? number : fmt::format("{} {}", number, parts->unit);
}

std::string text(Bytes b) {
  const double n = b.real();
  if (std::abs(n) < 1024) return fmt::format("{} B", b.count());
  if (std::abs(n) < 1048576) return fmt::format("{:.4g} KiB", n / 1024);
  if (std::abs(n) < 1073741824) return fmt::format("{:.4g} MiB", n / 1048576);
  return fmt::format("{:.1f} GiB", n / 1073741824);
}

std::string text(BytesPerSecond r) {
  const double n = r.count();
  if (n < 999.5e6) return fmt::format("{:.3g} MB/s", n / 1e6);
  return n < 9999.5e9 ? fmt::format("{:.4g} GB/s", n / 1e9) : fmt::format("{:.0f} GB/s", n / 1e9);
}

std::string text(Duration d) {
  // The next unit takes over where three digits would round up to 1e+03.
  const double us = d.us(), size = std::abs(us);
  if (size < 0.9995) return fmt::format("{:.3g} ns", us * 1e3);
  if (size < 999.5) return fmt::format("{:.3g} us", us);
  if (size < 999.5e3) return fmt::format("{:.3g} ms", us * 1e-3);
  return size < 9999.5e6 ? fmt::format("{:.4g} s", us * 1e-6) : fmt::format("{:.0f} s", us * 1e-6);
}

std::string grouped(std::int64_t n) {
  std::string digits = fmt::format("{}", n);
  const std::ptrdiff_t first = n < 0 ? 1 : 0;
  for (auto i = static_cast<std::ptrdiff_t>(digits.size()) - 3; i > first; i -= 3)
    digits.insert(static_cast<std::size_t>(i), ",");
  return digits;
}
