#include "sim/workload/trace_file.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "sim/base/json.hpp"
#include "sim/base/table_text.hpp"

namespace {

constexpr std::size_t errors_max = 20;  // of one file: a wrong format is wrong in each line
constexpr std::int64_t tokens_max = 100'000'000;  // of one prompt or answer

// Days since 1970-01-01 (H. Hinnant, "chrono-compatible low-level date algorithms").
std::int64_t days(std::int64_t y, int m, int d) {
  y -= m <= 2 ? 1 : 0;
  const std::int64_t era = (y >= 0 ? y : y - 399) / 400;
  const std::int64_t year = y - era * 400;
  const std::int64_t day = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
  return era * 146097 + year * 365 + year / 4 - year / 100 + day - 719468;
}

// "2023-11-16 18:17:03.9799600", with T or a space, perhaps "Z" or "+00:00" at the end.
std::optional<double> date_s(std::string_view text) {
  const auto two = [&](std::size_t at, std::size_t n, int& out) {
    if (text.size() < at + n) return false;
    out = 0;
    for (std::size_t i = at; i < at + n; ++i) {
      if (text[i] < '0' || text[i] > '9') return false;
      out = out * 10 + (text[i] - '0');
    }
    return true;
  };
  int y = 0, mo = 0, d = 0, h = 0, mi = 0, s = 0;
  if (!two(0, 4, y) || !two(5, 2, mo) || !two(8, 2, d) || !two(11, 2, h) || !two(14, 2, mi) ||
      !two(17, 2, s))
    return {};
  if (text[4] != '-' || text[7] != '-' || (text[10] != ' ' && text[10] != 'T') || text[13] != ':' ||
      text[16] != ':')
    return {};
  if (mo < 1 || mo > 12 || d < 1 || d > 31 || h > 23 || mi > 59 || s > 60) return {};
  double out = static_cast<double>(days(y, mo, d) * 86400 + h * 3600 + mi * 60 + s);
  auto rest = text.substr(19);
  if (rest.starts_with('.')) {
    const auto end = std::min(rest.find_first_not_of("0123456789", 1), rest.size());
    const auto fraction = table_number("0" + std::string(rest.substr(0, end)));
    if (end < 2 || !fraction) return {};
    out += *fraction;
    rest = rest.substr(end);
  }
  if (rest.empty() || rest == "Z") return out;
  int zone_h = 0, zone_mi = 0;
  if (rest.size() != 6 || (rest[0] != '+' && rest[0] != '-') || rest[3] != ':') return {};
  text = rest;
  if (!two(1, 2, zone_h) || !two(4, 2, zone_mi)) return {};
  const double zone = zone_h * 3600 + zone_mi * 60;
  return rest[0] == '+' ? out - zone : out + zone;
}

// Collects the rows of one file with what is wrong in them.
class Reader {
 public:
  Reader(const std::string& path, const TraceFormat& format) : path_(path), format_(format) {}

  bool full() const { return errors_.size() >= errors_max; }

  void error(int line, int column, std::string_view text, std::string message,
             std::string hint = {}) {
    if (!full())
      errors_.error(table_place(path_, line, column, text), std::move(message), std::move(hint));
  }

  /// A length from its number; nothing, with an error, when it is none.
  std::optional<std::int64_t> length(std::optional<double> value, const std::string& name,
                                     std::string_view shown, int line, int column,
                                     std::string_view text) {
    if (!value || *value != std::floor(*value) || *value > static_cast<double>(tokens_max)) {
      error(line, column, text, fmt::format("{}: '{}' is not a number of tokens", name, shown));
      return {};
    }
    if (*value < 0) {
      error(line, column, text, fmt::format("{}: '{}' is negative", name, shown));
      return {};
    }
    return static_cast<std::int64_t>(*value);
  }

  /// The first `tokens` of an earlier request's prompt, which begins one of `input` tokens.
  Content beginning(std::int64_t row, std::int64_t tokens, std::int64_t input, int line, int column,
                    std::string_view text) {
    Content out;
    if (row >= static_cast<std::int64_t>(rows_.size())) {
      error(line, column, text, fmt::format("shares_with: request {} does not come before", row),
            "the first request of the file is 0");
      return out;
    }
    const TraceRow& other = rows_[static_cast<std::size_t>(row)];
    if (const auto most = std::min(input, other.input); tokens > most) {
      error(line, column, text,
            fmt::format("{} tokens shared of {} and {}", tokens, input, other.input));
      return out;
    }
    std::int64_t told = 0;
    for (const Segment& s : other.shared.segments()) {
      out.append({s.stream, s.offset, std::min(s.tokens, tokens - told)});
      told += s.tokens;
    }
    out.append({other.line, told, tokens - told});
    return out;
  }

  void add(TraceRow row, int time_column, int blocks_column, std::string_view text) {
    if (!rows_.empty() && row.at_s < rows_.back().at_s)
      error(row.line, time_column, text,
            fmt::format("time runs backwards: {:.9g} s after {:.9g} s in line {}", row.at_s,
                        rows_.back().at_s, rows_.back().line),
            "sort the trace by time");
    if (blocks_column > 0) {
      const std::int64_t blocks = (row.input + format_.block_tokens - 1) / format_.block_tokens;
      // The last block of some traces is told only when it is full.
      const auto told = static_cast<std::int64_t>(row.blocks.size());
      if (told != blocks && told != row.input / format_.block_tokens)
        error(row.line, blocks_column, text,
              fmt::format("{} hash_ids of {} tokens do not fit {} input tokens, which have {}",
                          row.blocks.size(), format_.block_tokens, row.input, blocks),
              "set block_tokens where the blocks have another size");
    }
    rows_.push_back(std::move(row));
  }

  Expected<std::vector<TraceRow>> done() {
    if (errors_.empty() && rows_.empty())
      errors_.error(table_place(path_, 0, 0, {}), "the trace holds no requests");
    if (!errors_.empty()) return tl::unexpected(errors_);
    return std::move(rows_);
  }

 private:
  const std::string& path_;
  const TraceFormat& format_;
  Diagnostics errors_;
  std::vector<TraceRow> rows_;
};

std::optional<std::size_t> column_of(const std::vector<std::string_view>& header,
                                     std::string_view name) {
  const auto it = std::find(header.begin(), header.end(), name);
  if (it == header.end()) return {};
  return static_cast<std::size_t>(it - header.begin());
}

Expected<std::vector<TraceRow>> read_csv(const std::string& path, std::string_view text,
                                         const TraceFormat& format) {
  Reader out(path, format);
  CsvReader csv(text);
  csv.next();
  std::vector<std::string> names;
  for (const auto name : csv.cells()) names.emplace_back(name);
  const auto find = [&](const std::string& name) {
    const auto found = column_of(csv.cells(), name);
    if (!found)
      out.error(csv.line(), 1, csv.text(), fmt::format("there is no column '{}'", name),
                suggestion(name, names));
    return found;
  };
  const auto time = find(format.time), input = find(format.input), output = find(format.output);
  if (!time || !input || !output) return out.done();
  std::size_t with = names.size(), shared = names.size();  // where there are such columns
  if (format.shares && column_of(csv.cells(), "shares_with")) {
    with = *column_of(csv.cells(), "shares_with");
    shared = find("shared_length").value_or(names.size());
  }
  while (!out.full() && csv.next()) {
    const auto& cells = csv.cells();
    if (cells.size() != names.size()) {
      out.error(csv.line(), 1, csv.text(),
                fmt::format("{} cells where the header has {}", cells.size(), names.size()));
      continue;
    }
    const auto place = [&](std::size_t c) { return csv.column(c); };
    auto at = format.dates ? date_s(cells[*time]) : table_number(cells[*time]);
    if (!at)
      out.error(csv.line(), place(*time), csv.text(),
                fmt::format("{}: '{}' is not a {}", format.time, cells[*time],
                            format.dates ? "date" : "time"),
                format.dates ? "write it as 2023-11-16 18:17:03.98" : "");
    const auto tokens = [&](std::size_t c, const std::string& name) {
      return out.length(table_number(cells[c]), name, cells[c], csv.line(), place(c), csv.text());
    };
    const auto in = tokens(*input, format.input), made = tokens(*output, format.output);
    Content prefix;
    if (shared < names.size() && in && !(cells[with].empty() && cells[shared].empty())) {
      const auto earlier = out.length(table_number(cells[with]), "shares_with", cells[with],
                                      csv.line(), place(with), csv.text());
      const auto n = tokens(shared, "shared_length");
      if (earlier && n)
        prefix = out.beginning(*earlier, *n, *in, csv.line(), place(with), csv.text());
    }
    if (at && in && made)
      out.add({*at * format.time_unit_s, *in, *made, {}, std::move(prefix), csv.line()},
              place(*time), 0, csv.text());
  }
  return out.done();
}

Expected<std::vector<TraceRow>> read_json_lines(const std::string& path, std::string_view text,
                                                const TraceFormat& format) {
  Reader out(path, format);
  int number = 0;
  while (!text.empty() && !out.full()) {
    const auto end = text.find('\n');
    const auto line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const auto place = [&](std::size_t at) { return static_cast<int>(at) + 1; };
    const auto parsed = parse_json(line);
    if (!parsed) {
      out.error(number, place(parsed.error().at), line, parsed.error().message,
                "one JSON object a line is wanted");
      continue;
    }
    const auto get = [&](const std::string& key) -> const Json* {
      const Json* value = parsed->find(key);
      if (value && value->is(Json::Kind::number)) return value;
      out.error(number, place(value ? value->at : parsed->at), line,
                value ? fmt::format("{} is not a number", key)
                      : fmt::format("there is no key '{}'", key));
      return nullptr;
    };
    const Json *time = get(format.time), *input = get(format.input), *output = get(format.output);
    if (!time || !input || !output) continue;
    const auto tokens = [&](const Json& value, const std::string& name) {
      return out.length(value.number, name, fmt::format("{:g}", value.number), number,
                        place(value.at), line);
    };
    const auto in = tokens(*input, format.input), made = tokens(*output, format.output);
    if (!std::isfinite(time->number)) {
      out.error(number, place(time->at), line, fmt::format("{} is not a time", format.time));
      continue;
    }
    if (!in || !made) continue;
    TraceRow row{time->number * format.time_unit_s, *in, *made, {}, {}, number};
    const Json* blocks = format.block_tokens > 0 ? parsed->find("hash_ids") : nullptr;
    if (blocks)
      for (const auto& id : blocks->items) {
        const auto whole = id.whole();
        // Block ids become offsets in one stream of tokens.
        if (!whole || *whole < 0 || *whole > std::int64_t{1} << 40)
          out.error(number, place(id.at), line, "hash_ids must be whole numbers below 2^40");
        else
          row.blocks.push_back(*whole);
      }
    out.add(std::move(row), place(time->at), blocks ? place(blocks->at) : 0, line);
  }
  return out.done();
}

}  // namespace

const std::vector<TraceFormat>& trace_formats() {
  static const std::vector<TraceFormat> formats = {
      {"azure", "Azure LLM inference traces 2023 and 2024", false, "TIMESTAMP", "ContextTokens",
       "GeneratedTokens", true, 1, 0},
      {"burstgpt", "BurstGPT", false, "Timestamp", "Request tokens", "Response tokens", false, 1,
       0},
      {"mooncake", "Mooncake, FAST 2025", true, "timestamp", "input_length", "output_length", false,
       1e-3, 512},
      {"qwen_bailian", "Qwen-Bailian", true, "timestamp", "input_length", "output_length", false, 1,
       16},
      {"csv", "any CSV with timestamp (s), input_length, output_length", false, "timestamp",
       "input_length", "output_length", false, 1, 0, true},
      {"jsonl", "JSON lines with timestamp (s), input_length, output_length", true, "timestamp",
       "input_length", "output_length", false, 1, 512}};
  return formats;
}

const TraceFormat* find_trace_format(const std::string& name) {
  for (const auto& f : trace_formats())
    if (f.name == name) return &f;
  return nullptr;
}

Expected<std::vector<TraceRow>> read_trace(const std::string& path, const TraceFormat& format) {
  const auto text = read_table_text(path);
  if (!text) return tl::unexpected(text.error());
  return format.json ? read_json_lines(path, *text, format) : read_csv(path, *text, format);
}

Expected<std::vector<TraceRow>> read_lengths(const std::string& path) {
  const auto text = read_table_text(path);
  if (!text) return tl::unexpected(text.error());
  const TraceFormat none;
  Reader out(path, none);
  CsvReader csv(*text);
  std::size_t input = 0, output = 1, width = 0;
  bool first = true;
  while (!out.full() && csv.next()) {
    const auto& cells = csv.cells();
    if (first) {
      first = false;
      width = cells.size();
      if (width < 2 || !table_number(cells[0]) || !table_number(cells[1])) {
        const auto any = [&](const std::vector<std::string>& names) {
          for (const auto& name : names)
            if (const auto c = column_of(cells, name)) return c;
          out.error(csv.line(), 1, csv.text(), fmt::format("there is no column '{}'", names[0]),
                    fmt::format("also known: {}", fmt::join(names.begin() + 1, names.end(), ", ")));
          return std::optional<std::size_t>();
        };
        const auto i = any({"input_length", "input_tokens", "num_prefill_tokens", "ContextTokens",
                            "Request tokens"});
        const auto o = any({"output_length", "output_tokens", "num_decode_tokens",
                            "GeneratedTokens", "Response tokens"});
        if (!i || !o) break;
        input = *i;
        output = *o;
        continue;
      }
    }
    if (cells.size() != width) {
      out.error(csv.line(), 1, csv.text(),
                fmt::format("{} cells where the first line has {}", cells.size(), width));
      continue;
    }
    const auto tokens = [&](std::size_t c, const char* name) {
      auto n =
          out.length(table_number(cells[c]), name, cells[c], csv.line(), csv.column(c), csv.text());
      if (n && *n == 0) {
        out.error(csv.line(), csv.column(c), csv.text(),
                  fmt::format("{} must be at least 1", name));
        n.reset();
      }
      return n;
    };
    const auto in = tokens(input, "input"), made = tokens(output, "output");
    if (in && made) out.add({0, *in, *made, {}, {}, csv.line()}, 0, 0, csv.text());
  }
  return out.done();
}

std::string beside(const Location& wanted_by, const std::string& name) {
  namespace fs = std::filesystem;
  if (!wanted_by.source || wanted_by.line == 0 || fs::path(name).is_absolute()) return name;
  const auto near = fs::path(wanted_by.source->name).parent_path() / name;
  std::error_code code;
  return fs::is_regular_file(near, code) || !fs::is_regular_file(name, code) ? near.string() : name;
}
