#include "sim/scenario/transfer_text.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/base/units.hpp"

namespace {

constexpr std::string_view blanks = " \t";

std::string trimmed(std::string text) {
  text.erase(0, std::min(text.find_first_not_of(blanks), text.size()));
  text.erase(text.find_last_not_of(blanks) + 1);
  return text;
}

// The parts between commas; an empty text has one empty part, which is then said to be wrong.
std::vector<std::string> parts(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; true;) {
    const auto comma = text.find(',', at);
    out.push_back(trimmed(text.substr(at, comma - at)));
    if (comma == std::string::npos) return out;
    at = comma + 1;
  }
}

std::optional<int> number(std::string text) {
  text = trimmed(std::move(text));
  if (text.starts_with("gpu")) text.erase(0, 3);
  // parse<int> takes "1e3" and "+4" too, which no GPU is called
  if (text.empty() || text.size() > 6 || text.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  return *parse<int>(text);
}

std::string known_gpus(int gpus) {
  return fmt::format("{}; 'host' is host memory",
                     gpus == 1 ? std::string("the machine has GPU 0 only")
                               : fmt::format("the machine has GPUs 0 to {}", gpus - 1));
}

// One end of a flow; empty after an error.
std::vector<int> parse_side(const std::string& given, int gpus, const Location& where,
                            Diagnostics& errors) {
  const std::string text = trimmed(given);
  if (text == "host") return {Copy::host};
  const auto dots = text.find("..");
  const auto first = number(text.substr(0, dots));
  const auto last = dots == std::string::npos ? first : number(text.substr(dots + 2));
  if (!first || !last) {
    errors.error(where, fmt::format("'{}' is no GPU and no range of GPUs", text), known_gpus(gpus));
    return {};
  }
  if (*last < *first) {
    errors.error(where, fmt::format("the range '{}' runs backwards", text),
                 fmt::format("write '{}..{}'", *last, *first));
    return {};
  }
  if (*last >= gpus) {
    errors.error(where, fmt::format("there is no GPU {}", *last), known_gpus(gpus));
    return {};
  }
  std::vector<int> out;
  for (int i = *first; i <= *last; ++i) out.push_back(i);
  return out;
}

void add_flows(const std::string& flow, int gpus, Bytes bytes, const Location& where,
               Diagnostics& errors, std::vector<Copy>& out) {
  if (flow == "all-to-all") {
    std::vector<int> all;
    for (int i = 0; i < gpus; ++i) all.push_back(i);
    const auto copies = each_to_each(all, all, bytes);
    if (copies.empty())
      errors.error(where, "all-to-all needs two GPUs", "write '0>host' or 'host>0'");
    out.insert(out.end(), copies.begin(), copies.end());
    return;
  }
  const auto arrow = flow.find('>');
  if (arrow == std::string::npos) {
    errors.error(
        where, fmt::format("'{}' is no flow", flow),
        "write '0>4', '0<>4', '0>host', '0..3>4..7' (pairs), '0..3>>4..7' (each to each) or "
        "'all-to-all'");
    return;
  }
  const bool both = arrow > 0 && flow[arrow - 1] == '<';
  const bool each = !both && flow.compare(arrow, 2, ">>") == 0;
  const auto from = parse_side(flow.substr(0, both ? arrow - 1 : arrow), gpus, where, errors);
  const auto to = parse_side(flow.substr(arrow + (each ? 2 : 1)), gpus, where, errors);
  if (from.empty() || to.empty()) return;
  if (each) {
    const auto copies = each_to_each(from, to, bytes);
    if (copies.empty())
      errors.error(where, fmt::format("'{}' copies to itself", flow), "name two different ends");
    out.insert(out.end(), copies.begin(), copies.end());
    return;
  }
  if (from.size() != to.size() && from.size() != 1 && to.size() != 1) {
    errors.error(
        where, fmt::format("'{}' does not pair up: {} to {} GPUs", flow, from.size(), to.size()),
        "two ranges of one length pair up, one GPU and a range go one to each; '>>' is each "
        "to each");
    return;
  }
  for (std::size_t i = 0; i < std::max(from.size(), to.size()); ++i) {
    const int a = from[from.size() == 1 ? 0 : i], b = to[to.size() == 1 ? 0 : i];
    if (a == b) {
      errors.error(where,
                   fmt::format("'{}' copies {} to itself", flow,
                               a == Copy::host ? "host memory" : fmt::format("GPU {}", a)),
                   "name two different ends; 'all-to-all' is every GPU to every other");
      continue;
    }
    out.push_back({a, b, bytes});
    if (both) out.push_back({b, a, bytes});
  }
}

constexpr std::int64_t sizes_to = std::int64_t{1} << 40;  // 1 TiB: more than any GPU holds

std::optional<Bytes> parse_size(const std::string& text, const Location& where,
                                Diagnostics& errors) {
  const auto size = parse<Bytes>(text);
  if (!size) {
    errors.error(where, size.error().message, size.error().hint);
    return std::nullopt;
  }
  if (*size < Bytes(1) || *size > Bytes(sizes_to)) {
    errors.error(where, fmt::format("'{}' must lie between 1 B and 1 TiB", text));
    return std::nullopt;
  }
  return *size;
}

}  // namespace

std::vector<Copy> parse_copies(const std::string& flows, int gpus, Bytes bytes,
                               const Location& where, Diagnostics& errors) {
  std::vector<Copy> out;
  for (const auto& flow : parts(flows)) add_flows(flow, gpus, bytes, where, errors, out);
  return out;
}

std::string text(const std::vector<Copy>& copies) {
  const auto end = [](int gpu) {
    return gpu == Copy::host ? std::string("host") : fmt::format("{}", gpu);
  };
  std::string out;
  for (const Copy& copy : copies)
    out += fmt::format("{}{}>{}", out.empty() ? "" : ",", end(copy.from), end(copy.to));
  return out;
}

std::vector<Bytes> parse_sizes(const std::string& sizes, const Location& where,
                               Diagnostics& errors) {
  std::vector<Bytes> out;
  for (const auto& part : parts(sizes)) {
    const auto dots = part.find("..");
    const auto first = parse_size(trimmed(part.substr(0, dots)), where, errors);
    if (dots == std::string::npos) {
      if (first) out.push_back(*first);
      continue;
    }
    const auto last = parse_size(trimmed(part.substr(dots + 2)), where, errors);
    if (!first || !last) continue;
    const auto before = out.size();
    for (std::int64_t size = 1; size <= last->count(); size *= 2)
      if (Bytes(size) >= *first) out.emplace_back(size);
    if (out.size() == before)
      errors.error(where, fmt::format("no power of two lies in '{}'", part),
                   "write '4KiB..64MiB', or the sizes themselves with commas");
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::string text(const std::vector<Bytes>& sizes) {
  std::string out;
  for (const Bytes size : sizes) {
    std::int64_t n = size.count();
    const char* unit = "B";
    for (const char* larger : {"KiB", "MiB", "GiB"}) {
      if (n == 0 || n % 1024 != 0) break;
      n /= 1024;
      unit = larger;
    }
    out += fmt::format("{}{}{}", out.empty() ? "" : ",", n, unit);
  }
  return out;
}

std::optional<int> parse_end(std::string text, const Topology& topology, const Location& where,
                             Diagnostics& errors) {
  text = trimmed(std::move(text));
  if (text == "host") return Copy::host;
  std::vector<std::string> names;
  for (const DeviceId gpu : topology.gpus())
    names.push_back(topology.devices()[static_cast<std::size_t>(gpu)].name);
  const auto it = std::find(names.begin(), names.end(), text);
  if (it != names.end()) return static_cast<int>(it - names.begin());
  if (const auto rank = number(text); rank && *rank < static_cast<int>(names.size())) return rank;
  names.emplace_back("host");
  errors.error(where, fmt::format("there is no GPU '{}'", text), suggestion(text, names));
  return std::nullopt;
}
