// Measured collectives from nccl-tests: its text (a log with other lines around it, mpirun's tags
// in front) and its JSON (-J). Format: NVIDIA/nccl-tests @cfa8a967, src/util.cu (read 2026-12).
// The size of a row is that of the whole vector: what all_gather puts out, what reduce_scatter and
// alltoall take in. Times are averages over iterations of a stream of calls, not of one alone.
// Leaves out: bandwidths (they follow from size and time), data types, per-iteration columns.

#include "calibrate/import/nccl_tests.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "calibrate/import/topology/text_scan.hpp"
#include "sim/base/table_text.hpp"

namespace {

// Repeats of one size on a quiet box lie within a few per cent; beyond this they are not one state.
constexpr double repeat_ratio_max = 1.2;
// algbw is size / time, printed to two decimals of three or four digits.
constexpr double algbw_tolerance = 0.03;

struct Row {
  std::int64_t bytes = 0;
  double us = 0;
  std::string where;  // "file:line:column"
};

struct Run {
  std::string path, program, date, version;
  std::set<int> ranks;
  int gpus = 0;  // of a JSON, which counts them itself
  std::set<std::string> hosts, types;
  std::map<std::string, std::string> env;
  std::vector<Row> rows;
  bool has_header = false;
  bool repeats_ranks = false;
  Location where;  // of its header
};

std::string squeezed(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c != '_' && c != '-') out += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return out;
}

// "./build/all_reduce_perf" is all_reduce; what is no program of nccl-tests is empty.
std::string program_op(std::string_view word) {
  word = word.substr(word.find_last_of('/') == std::string_view::npos ? 0
                                                                      : word.find_last_of('/') + 1);
  if (word.ends_with("_mpi")) word.remove_suffix(4);
  return word.ends_with("_perf") ? std::string(word.substr(0, word.size() - 5)) : std::string();
}

std::optional<std::string> op_named(std::string_view name) {
  for (const auto& op : collective_ops()) {
    const auto plain = squeezed(op);
    if (squeezed(name) == plain) return op;
    if (op == "all_to_all" && squeezed(name) == "alltoall") return op;
  }
  return {};
}

std::optional<std::string> op_in_file_name(const std::string& path) {
  const auto name = squeezed(path.substr(path.find_last_of('/') + 1));
  for (const auto& op : collective_ops())
    if (name.find(squeezed(op)) != std::string::npos) return op;
  return {};
}

// NCCL_VERSION_CODE: two digits a part since 2.9, one before.
std::string version_of(int code) {
  if (code < 2000) return {};
  if (code < 10000) return fmt::format("{}.{}.{}", code / 1000, code / 100 % 10, code % 100);
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

// Variables that only say what to print, or which card to take.
bool changes_nothing(std::string_view name) {
  return name.starts_with("NCCL_DEBUG") || name.ends_with("_DUMP_FILE") ||
         name.starts_with("NCCL_TESTS_");
}

bool is_name(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

std::optional<std::int64_t> whole_number(std::string_view word) {
  std::int64_t out = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), out);
  if (word.empty() || error != std::errc() || end != word.data() + word.size()) return {};
  return out;
}

// Collects what both forms share: rows, and what is wrong with some.
class Collector {
 public:
  explicit Collector(const NcclTestsOptions& options) : options_(options) {}

  void reject(const std::string& reason, const std::string& where) {
    auto& entry = left_out_[reason];
    if (entry.rows++ == 0) entry.reason = reason, entry.where = where;
  }

  // One row of a run; `wrong`: values that were not what they should be, where that was checked.
  void add(Run& run, std::optional<double> size, std::optional<double> us,
           std::optional<double> algbw, std::optional<double> wrong, const std::string& where) {
    // 2^53: the largest whole numbers that a double holds.
    if (!size || *size != std::floor(*size) || *size > 9007199254740992.0 || *size < 0)
      return reject("the size is no number of bytes", where);
    if (!us) return reject("the time is no number", where);
    if (wrong.value_or(0) > 0) return reject("wrong results (#wrong)", where);
    if (*size == 0) return reject("nothing was sent (size 0)", where);
    if (*us <= 0 || *us > 600e6) return reject("no time that a collective takes", where);
    const double expected = *size / *us / 1e3;
    if (algbw && std::abs(*algbw - expected) > expected * algbw_tolerance + 0.011)
      return reject("time and algbw disagree: damaged, or another unit", where);
    run.rows.push_back({static_cast<std::int64_t>(*size), *us, where});
  }

  std::size_t rows_read = 0;
  std::vector<Run> runs;
  Diagnostics errors;
  std::vector<std::string> notes;
  std::map<std::string, LeftOutRows> left_out_;
  const NcclTestsOptions& options_;
};

class TextReader {
  static constexpr std::size_t npos = std::string::npos;

 public:
  TextReader(const std::string& path, std::string_view text, Collector& to)
      : path_(path), text_(text), to_(to) {
    run_.path = path;
  }

  void read() {
    for (auto line : text_lines(text_)) {
      ++line_;
      // mpirun --tag-output: "[1,0]<stdout>:"
      const auto tag = line.find(">:");
      tag_length_ = line.starts_with('[') && tag < 32 ? static_cast<int>(tag) + 2 : 0;
      line.remove_prefix(static_cast<std::size_t>(tag_length_));
      const auto words = words_of(line);
      if (words.empty()) continue;
      if (line.starts_with('#'))
        read_comment(line, words);
      else if (run_.has_header && whole_number(words[0].text))
        read_row(words);
      else
        read_other(line, words);
    }
    if (!any_header_)
      to_.errors.error(table_place(path_, 0, 0, {}), "there is no table of nccl-tests in this file",
                       "a header as '#  size  count  type  redop  root  time  algbw  busbw' is "
                       "wanted, or the JSON of -J");
    else if (!closed_)
      to_.notes.push_back(
          fmt::format("{}: the output ends without its closing lines: it may be cut off", path_));
    finish();
  }

 private:
  Location place(std::string_view part) const { return place_in(path_, text_, part); }

  void finish() {
    if (run_.has_header) to_.runs.push_back(std::move(run_));
    run_ = Run();
    run_.path = path_;
  }

  void read_comment(std::string_view line, const std::vector<Word>& words) {
    const auto says = [&](std::string_view what) { return line.find(what) != std::string::npos; };
    if (is_header(words)) {
      if (run_.has_header && !run_.rows.empty()) finish_keeping_context();
      run_.has_header = any_header_ = true;
      run_.where = place(line);
      closed_ = false;
      return;
    }
    if (says("# nccl-tests version") || says("Collective test starting") || says("# nThread")) {
      if (run_.has_header) finish();
    }
    if (says("Using devices")) {
      if (run_.has_header) finish();
      run_.ranks.clear();
      run_.hosts.clear();
    }
    if (says("Avg bus bandwidth") || says("Out of bounds values")) closed_ = true;
    for (const auto& w : words) {
      if (const auto op = program_op(w.text); !op.empty()) run_.program = op;
      constexpr std::string_view library = "nccl-library=";
      if (w.text.starts_with(library))
        if (const auto code = number_after(w.text, library)) run_.version = version_of(*code);
    }
    // "#  Rank  0 Group  0 Pid 6899 on host device  0 [0000:04:00] NVIDIA H100 80GB HBM3"
    const std::size_t at = words[0].text == "#" ? 1 : 0;
    if (words.size() > at + 1 && words[at].text == "Rank")
      if (const auto rank = number_after(words[at + 1].text, "")) {
        run_.repeats_ranks |= !run_.ranks.insert(*rank).second;
        for (std::size_t i = at; i + 2 < words.size(); ++i)
          if (words[i].text == "on" && words[i + 2].text == "device")
            run_.hosts.insert(std::string(words[i + 1].text));
      }
  }

  bool is_header(const std::vector<Word>& words) {
    std::vector<std::string> columns;
    for (const auto& w : words) {
      auto name = w.text;
      if (columns.empty() && name.starts_with('#')) name.remove_prefix(1);
      if (!name.empty()) columns.emplace_back(name);
    }
    if (columns.empty() || columns[0] != "size") return false;
    if (std::none_of(columns.begin(), columns.end(),
                     [](const auto& c) { return c == "time" || c == "cputime"; }))
      return false;
    columns_ = std::move(columns);
    return true;
  }

  void finish_keeping_context() {
    Run next = run_;
    next.rows.clear();
    next.has_header = false;
    to_.runs.push_back(std::move(run_));
    run_ = std::move(next);
  }

  // Index of the first column of one of these names, from `from` on; npos where there is none.
  std::size_t column(std::initializer_list<std::string_view> names, std::size_t from) const {
    for (std::size_t i = from; i < columns_.size(); ++i)
      if (std::find(names.begin(), names.end(), columns_[i]) != names.end()) return i;
    return npos;
  }

  void read_row(std::vector<Word> words) {
    ++to_.rows_read;
    const auto where = [&](const Word& w) {
      return fmt::format("{}:{}:{}", path_, line_, w.column + tag_length_);
    };
    // A time stamp (-T) is two words under one name.
    if (columns_.back() == "timestamp" && words.size() > columns_.size()) words.pop_back();
    // Before 2.10 operations without a reduction left redop and root blank.
    std::size_t blank = 0;
    const auto redop = column({"redop", "op"}, 0);
    if (words.size() < columns_.size() && redop < words.size() && table_number(words[redop].text))
      blank = columns_.size() - words.size();
    if (blank > 2 || words.size() + blank < columns_.size())
      return to_.reject("the line is cut off", where(words.back()));
    if (words.size() + blank > columns_.size())
      return to_.reject("the line has more cells than its header", where(words[columns_.size()]));
    const auto cell = [&](std::size_t i) {
      return words[blank > 0 && i > redop ? i - blank : i].text;
    };
    auto time = column({"time", "cputime"}, 0);
    if (to_.options_.in_place) time = column({"time", "cputime"}, time + 1);
    if (time == npos) return to_.reject("there is no in-place time", where(words[0]));
    const auto end = std::min(column({"time", "cputime"}, time + 1), columns_.size());
    const auto number = [&](std::size_t i) {
      return i < end ? table_number(cell(i)) : std::nullopt;
    };
    if (const auto type = column({"type"}, 0); type != npos)
      run_.types.insert(printable(cell(type), 20));
    // `error` of old builds is the largest deviation, rounding mostly; #wrong is a count.
    to_.add(run_, table_number(cell(0)), number(time), number(column({"algbw"}, time)),
            number(column({"#wrong"}, time)), where(words[0]));
  }

  // Lines of the shell, of mpirun and of NCCL itself.
  void read_other(std::string_view line, const std::vector<Word>& words) {
    const bool of_nccl = line.find("NCCL INFO") != std::string_view::npos;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const auto word = words[i].text;
      if (const auto op = program_op(word); !op.empty() && !of_nccl) {
        if (run_.has_header) finish();
        run_.program = op;
      }
      // "NCCL version 2.27.7+cuda12.9"
      if (word == "version" && i > 0 && words[i - 1].text == "NCCL" && i + 1 < words.size()) {
        const auto text = words[i + 1].text.substr(0, words[i + 1].text.find('+'));
        if (!text.empty() && text[0] >= '0' && text[0] <= '9') run_.version = printable(text, 20);
      }
      // "NCCL_P2P_DISABLE set by environment to 1."
      if (is_name(word) && word.starts_with("NCCL_") && i + 5 < words.size() &&
          words[i + 1].text == "set" && words[i + 4].text == "to") {
        auto value = words[i + 5].text;
        if (value.ends_with('.')) value.remove_suffix(1);
        set(word, value);
      }
    }
    // "NCCL_P2P_DISABLE=1 ./all_reduce_perf", "-x NCCL_PROTO=LL"
    if (!of_nccl)
      for (const auto& w : words)
        if (const auto equals = w.text.find('='); w.text.starts_with("NCCL_") &&
                                                  equals != std::string_view::npos &&
                                                  is_name(w.text.substr(0, equals)))
          set(w.text.substr(0, equals), w.text.substr(equals + 1));
  }

  void set(std::string_view name, std::string_view value) {
    if (!changes_nothing(name)) run_.env[std::string(name)] = printable(value, 200);
  }

  const std::string& path_;
  std::string_view text_;
  Collector& to_;
  Run run_;
  std::vector<std::string> columns_;
  bool any_header_ = false, closed_ = false;
  int line_ = 0, tag_length_ = 0;
};

void read_json(const std::string& path, std::string_view text, Collector& to) {
  using nlohmann::json;
  json root;
  try {
    root = json::parse(text);
  } catch (const json::parse_error& e) {
    const auto at = std::min(text.size(), e.byte == 0 ? 0 : e.byte - 1);
    to.errors.error(place_in(path, text, text.substr(at)), "this is no whole JSON",
                    "the output of -J was cut off, or is none");
    return;
  }
  const auto fail = [&](const std::string& what) {
    to.errors.error(table_place(path, 0, 0, {}), what,
                    "this is not what nccl-tests writes with -J");
  };
  if (!root.is_object() || !root.contains("results") || !root["results"].is_array())
    return fail("there is no list 'results'");
  const auto number = [](const json& at, const char* key) -> std::optional<double> {
    if (!at.is_object() || !at.contains(key) || !at[key].is_number()) return {};
    return at[key].get<double>();
  };
  Run run;
  run.path = path;
  run.has_header = true;
  run.where = table_place(path, 0, 0, {});
  if (root.contains("start_time") && root["start_time"].is_string())
    run.date = printable(root["start_time"].get<std::string>(), 10);
  if (root.contains("args") && root["args"].is_array() && !root["args"].empty() &&
      root["args"][0].is_string())
    run.program = program_op(root["args"][0].get<std::string>());
  if (const auto code = number(root, "nccl_version"); code && *code > 0 && *code < 1e6)
    run.version = version_of(static_cast<int>(*code));
  // Of the whole environment only what NCCL reads: the rest is nobody's business.
  if (root.contains("env") && root["env"].is_array())
    for (const auto& entry : root["env"]) {
      const auto set = entry.is_string() ? entry.get<std::string>() : std::string();
      const auto equals = set.find('=');
      if (!set.starts_with("NCCL_") || equals == std::string::npos) continue;
      const auto name = set.substr(0, equals);
      if (is_name(name) && !changes_nothing(name))
        run.env[name] = printable(set.substr(equals + 1), 200);
    }
  if (root.contains("config")) {
    // `devices` has one entry a process, whatever its GPUs.
    const auto& config = root["config"];
    std::size_t processes = 0;
    if (config.is_object() && config.contains("devices") && config["devices"].is_array())
      for (const auto& device : config["devices"]) {
        ++processes;
        if (device.is_object() && device.contains("hostname") && device["hostname"].is_string())
          run.hosts.insert(device["hostname"].get<std::string>());
      }
    const auto threads = number(config, "nthreads"), each = number(config, "ngpus");
    const auto gpus = static_cast<double>(processes) * threads.value_or(0) * each.value_or(0);
    if (gpus >= 1 && gpus < 1e6) run.gpus = static_cast<int>(gpus);
  }
  std::size_t index = 0;
  for (const auto& row : root["results"]) {
    ++to.rows_read;
    const auto where = fmt::format("{}: results[{}]", path, index++);
    const char* which = to.options_.in_place ? "in_place" : "out_of_place";
    if (!row.is_object() || !row.contains(which) || !row[which].is_object()) {
      to.reject(
          to.options_.in_place ? "there is no in-place time" : "there is no out-of-place time",
          where);
      continue;
    }
    const auto& times = row[which];
    const auto time = number(times, "time");
    to.add(run, number(row, "size"), time ? time : number(times, "cpu_time"),
           number(times, "alg_bw"), number(times, "nwrong"), where);
    if (row.contains("type") && row["type"].is_string())
      run.types.insert(printable(row["type"].get<std::string>(), 20));
  }
  to.runs.push_back(std::move(run));
}

// ---- runs to tables ----

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  const auto half = v.size() / 2;
  return v.size() % 2 ? v[half] : (v[half - 1] + v[half]) / 2;
}

struct Pool {
  CollectiveTable table;
  std::vector<std::string> sources;
  std::map<std::int64_t, std::vector<Row>> rows;
  std::set<std::string> types;
};

void pool_run(Run& run, Collector& to, std::map<std::string, Pool>& pools) {
  const auto& options = to.options_;
  std::optional<std::string> op;
  if (!run.program.empty()) {
    op = op_named(run.program);
    if (!op)
      to.errors.error(run.where,
                      fmt::format("a table cannot hold '{}'", printable(run.program, 40)),
                      fmt::format("known: {}", fmt::join(collective_ops(), ", ")));
    else if (!options.op.empty() && options.op != *op)
      to.errors.error(run.where, fmt::format("this run says {}, --op says {}", *op, options.op),
                      "leave --op out");
    if (!op) return;
  }
  if (!op && !options.op.empty()) op = options.op;
  if (!op) op = op_in_file_name(run.path);
  if (!op)
    to.errors.error(run.where, "neither the output nor the file name says which operation this is",
                    fmt::format("add --op; known: {}", fmt::join(collective_ops(), ", ")));
  int gpus = run.gpus > 0 ? run.gpus : static_cast<int>(run.ranks.size());
  if (run.repeats_ranks)
    to.errors.error(run.where, "a rank is listed twice: outputs of several processes are mixed",
                    "build nccl-tests with MPI=1 to run one process a GPU");
  if (gpus > 0 && options.gpus > 0 && gpus != options.gpus)
    to.errors.error(run.where,
                    fmt::format("this run has {} ranks, --gpus says {}", gpus, options.gpus),
                    "leave --gpus out");
  if (gpus == 0) gpus = options.gpus;
  if (gpus == 0)
    to.errors.error(run.where, "there are no '# Rank' lines: the number of GPUs is unknown",
                    "add --gpus N");
  if (!op || gpus == 0) return;
  const auto name = printable(run.path.substr(run.path.find_last_of('/') + 1));
  if (gpus == 1) to.notes.push_back(fmt::format("{}: one GPU: this times a copy inside it", name));
  if (run.hosts.size() > 1)
    to.notes.push_back(
        fmt::format("{}: ranks on {} hosts: these are times of a network, not of a "
                    "box",
                    name, run.hosts.size()));
  if (run.version.empty()) to.notes.push_back(fmt::format("{}: the NCCL version is unknown", name));
  std::string key = fmt::format("{} {:06} {}", *op, gpus, run.version);
  for (const auto& [variable, value] : run.env) key += " " + variable + "=" + value;
  auto& pool = pools[key];
  pool.table.op = *op;
  pool.table.gpus = gpus;
  pool.table.version = run.version;
  pool.table.env = run.env;
  pool.table.in_place = options.in_place;
  const auto source = run.date.empty() ? name : fmt::format("{} ({})", name, run.date);
  if (std::find(pool.sources.begin(), pool.sources.end(), source) == pool.sources.end())
    pool.sources.push_back(source);
  for (auto& row : run.rows) pool.rows[row.bytes].push_back(std::move(row));
  pool.types.insert(run.types.begin(), run.types.end());
}

void close_pool(Pool& pool, NcclTestsImport& out) {
  for (const auto& [bytes, rows] : pool.rows) {
    std::vector<double> times;
    for (const auto& row : rows) times.push_back(row.us);
    const auto [low, high] = std::minmax_element(
        rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.us < b.us; });
    if (high->us > low->us * repeat_ratio_max)
      out.notes.push_back(fmt::format(
          "{} of {} bytes on {} GPUs took {} us ({}) and {} us ({}): clocks, other load, or "
          "another "
          "set-up; their median is kept",
          pool.table.op, bytes, pool.table.gpus, low->us, low->where, high->us, high->where));
    // Four decimals: a tenth of a nanosecond.
    pool.table.points.push_back({bytes, std::round(median(times) * 1e4) / 1e4});
    out.rows_kept += rows.size();
  }
  if (pool.types.size() > 1)
    out.notes.push_back(fmt::format("{} on {} GPUs mixes data types: {}", pool.table.op,
                                    pool.table.gpus, fmt::join(pool.types, ", ")));
  pool.table.source = fmt::format("{}", fmt::join(pool.sources, ", "));
  if (!pool.table.points.empty()) out.tables.push_back(std::move(pool.table));
}

std::string size_text(std::int64_t bytes) {
  constexpr std::pair<std::int64_t, const char*> units[] = {
      {std::int64_t{1} << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}};
  for (const auto& [unit, word] : units)
    if (bytes % unit == 0) return fmt::format("{} {}", bytes / unit, word);
  return fmt::format("{} B", bytes);
}

std::string time_text(double us) {
  auto out = fmt::format("{:.4f}", us);
  while (out.ends_with('0')) out.pop_back();
  if (out.ends_with('.')) out.pop_back();
  return out + " us";
}

std::string scalar(const std::string& text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '.';
  });
  if (plain) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + "\"";
}

}  // namespace

const std::vector<std::string>& collective_ops() {
  static const std::vector<std::string> ops = {"all_reduce", "all_gather", "reduce_scatter",
                                               "all_to_all", "broadcast",  "send_recv"};
  return ops;
}

Expected<NcclTestsImport> import_nccl_tests(const std::vector<std::string>& paths,
                                            const NcclTestsOptions& options) {
  Collector to(options);
  for (const auto& path : paths) {
    const auto text = read_table_text(path);
    if (!text) {
      to.errors.append(text.error());
      continue;
    }
    const auto first = text->find_first_not_of(" \t\r\n");
    const auto runs = to.runs.size();
    const auto errors = to.errors.size();
    if ((*text)[first] == '{')
      read_json(path, *text, to);
    else
      TextReader(path, *text, to).read();
    std::size_t rows = 0;
    for (std::size_t i = runs; i < to.runs.size(); ++i) rows += to.runs[i].rows.size();
    if (rows == 0 && to.errors.size() == errors) {
      std::string why;
      for (const auto& [reason, left] : to.left_out_)
        why += fmt::format("{}{} ({})", why.empty() ? "" : "; ", reason, left.where);
      to.errors.error(table_place(path, 0, 0, {}), "no row of this file can be used",
                      why.empty() ? "the table has no rows: the output was cut off" : why);
    }
  }
  std::map<std::string, Pool> pools;
  for (auto& run : to.runs)
    if (!run.rows.empty()) pool_run(run, to, pools);
  if (!to.errors.empty()) return tl::unexpected(to.errors);
  NcclTestsImport out;
  out.rows_read = to.rows_read;
  out.notes = std::move(to.notes);
  for (auto& [reason, left] : to.left_out_) out.left_out.push_back(std::move(left));
  for (auto& [key, pool] : pools) close_pool(pool, out);
  return out;
}

std::string collectives_text(const NcclTestsImport& import) {
  return collectives_text(import.tables,
                          "# Written by 'ceiling import nccl-tests'. Sizes are those of the whole "
                          "vector; times are means\n# over a stream of calls.\n");
}

std::string collectives_text(const std::vector<CollectiveTable>& tables, const std::string& head) {
  std::string out = head + "schema: 1\ncollectives:\n";
  for (const auto& t : tables) {
    out += fmt::format("  - op: {}\n    kernel: nccl\n    gpus: {}\n", t.op, t.gpus);
    if (!t.version.empty()) out += fmt::format("    version: {}\n", scalar(t.version));
    out += fmt::format("    source: {}\n    in_place: {}\n", scalar(t.source), t.in_place);
    if (!t.env.empty()) {
      std::string env;
      for (const auto& [name, value] : t.env)
        env += fmt::format("{}{}: {}", env.empty() ? "" : ", ", name, scalar(value));
      out += fmt::format("    env: {{{}}}\n", env);
    }
    out += "    points:\n";
    for (const auto& p : t.points)
      out += fmt::format("      - [{}, {}]\n", size_text(p.bytes), time_text(p.us));
  }
  return out;
}

std::string summarise(const NcclTestsImport& import) {
  std::string out = fmt::format("{} rows read, {} kept\n", import.rows_read, import.rows_kept);
  for (const auto& t : import.tables) {
    out += fmt::format("  {} on {} GPUs, NCCL {}, {}: {} sizes, {} to {}\n", t.op, t.gpus,
                       t.version.empty() ? "unknown" : t.version,
                       t.in_place ? "in place" : "out of place", t.points.size(),
                       size_text(t.points.front().bytes), size_text(t.points.back().bytes));
    for (const auto& [name, value] : t.env) out += fmt::format("    {}={}\n", name, value);
  }
  for (const auto& left : import.left_out)
    out += fmt::format("  left out  {} {} ({})\n", left.rows, left.reason, left.where);
  return out;
}
