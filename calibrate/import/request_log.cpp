// Logs of requests: vLLM's per-request times as benchmarks save them, client logs with the time of
// every chunk, and the detailed arrays of `vllm bench serve`.

#include "calibrate/import/request_log.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/table_text.hpp"

namespace {

using nlohmann::json;

struct Role {
  const char* name;
  bool time;
  std::vector<std::string> known;  // without the unit
};
const std::vector<Role>& roles() {
  static const std::vector<Role> all = {
      {"run", false, {"run"}},
      {"id", false, {"request", "request_id", "req_id", "id", "rid"}},
      {"input",
       false,
       {"input_tokens", "server_input_tokens", "prompt_tokens", "num_prompt_tokens", "prompt_len",
        "input_len"}},
      {"output",
       false,
       {"output_tokens", "generation_tokens", "num_generation_tokens", "completion_tokens",
        "output_len"}},
      {"preemptions", false, {"preemptions", "num_preemptions", "preempted"}},
      {"queued", true, {"queued", "queued_ts", "queued_time"}},
      {"scheduled", true, {"scheduled", "scheduled_ts", "scheduled_time"}},
      {"first", true, {"first_token", "first_token_ts", "first_token_time", "first_chunk"}},
      {"last", true, {"last_token", "last_token_ts", "last_token_time", "last_chunk"}},
      {"time", true, {"chunk", "chunk_time", "chunk_times", "chunks", "time", "t"}}};
  return all;
}

// Seconds in the unit at the end of a name.
double unit_of(const std::string& name) {
  for (const auto& [tail, seconds] : {std::pair{"_ms", 1e-3}, {"_us", 1e-6}, {"_ns", 1e-9}})
    if (name.ends_with(tail)) return seconds;
  return 1;
}

/// Which name of a file has which role.
using Names = std::map<std::string, std::string>;

Names find_names(const std::vector<std::string>& present, const RequestLogOptions& options,
                 const Location& where, Diagnostics& errors) {
  Names out;
  for (const auto& [role, name] : options.columns) {
    if (std::find(present.begin(), present.end(), name) == present.end())
      errors.error(where, fmt::format("there is no column '{}'", name), suggestion(name, present));
    else
      out[role] = name;
  }
  for (const Role& role : roles())
    for (const auto& known : role.known)
      for (const char* unit : {"", "_s", "_ms", "_us", "_ns"})
        if ((role.time || !*unit) && !out.contains(role.name) &&
            std::find(present.begin(), present.end(), known + unit) != present.end())
          out[role.name] = known + unit;
  return out;
}

/// One row, whatever the file: texts by role.
struct Row {
  Location where;
  std::function<std::optional<std::string>(const std::string& role)> text;
};

class Collector {
 public:
  Collector(const RequestLogOptions& options) : options_(options) {}

  // One place a kind of error is enough to see the many.
  void error(const Location& where, const std::string& message, const std::string& hint = {}) {
    constexpr std::size_t shown = 20;
    if (errors.size() < shown) errors.error(where, message, hint);
  }

  void add(const Row& row, const Names& names) {
    if (const auto run = row.text("run")) {
      runs.insert(*run);
      if (!options_.run.empty() && *run != options_.run) return;
    }
    const auto id = row.text("id");
    if (names.contains("time") && !names.contains("first")) {
      const auto t = time(row, names, "time");
      if (!id || id->empty()) return error(row.where, "this chunk names no request");
      if (!t) return;
      LoggedRequest& r = by_id(*id);
      r.chunks.push_back(*t);
      if (const auto n = count(row, "input", false)) r.input_tokens = *n;
      return;
    }
    const auto first = row.text("first"), last = row.text("last");
    if (!first || first->empty() || !last || last->empty()) {
      ++log.unfinished;
      return;
    }
    LoggedRequest r;
    r.id = id ? *id : fmt::format("{}", log.requests.size());
    const auto a = time(row, names, "first"), b = time(row, names, "last");
    const auto output = count(row, "output", true);
    if (!a || !b || !output) return;
    r.first_token = *a;
    r.last_token = *b;
    r.output_tokens = *output;
    r.input_tokens = count(row, "input", false).value_or(0);
    r.preempted = count(row, "preemptions", false).value_or(0) > 0;
    if (filled(row, "queued")) r.queued = time(row, names, "queued");
    if (filled(row, "scheduled")) r.scheduled = time(row, names, "scheduled");
    if (r.output_tokens == 0) {
      ++log.unfinished;
      return;
    }
    if (r.last_token < r.first_token)
      return error(row.where, "the last token comes before the first");
    if (r.scheduled && *r.scheduled > r.first_token)
      return error(row.where, "the first token comes before it was scheduled");
    log.requests.push_back(std::move(r));
  }

  LoggedRequest& by_id(const std::string& id) {
    const auto [it, fresh] = index_.emplace(id, log.requests.size());
    if (fresh) {
      log.requests.emplace_back();
      log.requests.back().id = id;
    }
    return log.requests[it->second];
  }

  Diagnostics errors;
  RequestLog log;
  std::set<std::string> runs;

 private:
  static bool filled(const Row& row, const std::string& role) {
    const auto text = row.text(role);
    return text && !text->empty();
  }
  std::optional<double> time(const Row& row, const Names& names, const std::string& role) {
    const auto text = row.text(role);
    const auto number = text ? table_number(*text) : std::nullopt;
    if (!number || std::abs(*number) > 1e19) {
      error(row.where, fmt::format("{} is no time: '{}'", role, text.value_or("")));
      return std::nullopt;
    }
    return *number * unit_of(names.at(role));
  }
  std::optional<std::int64_t> count(const Row& row, const std::string& role, bool needed) {
    const auto text = row.text(role);
    if (!needed && (!text || text->empty())) return std::nullopt;
    const auto number = text ? table_number(*text) : std::nullopt;
    // a prompt or an answer of 100 million tokens is none
    if (!number || *number < 0 || *number > 1e8 || *number != std::floor(*number)) {
      error(row.where, fmt::format("{} is no number of tokens: '{}'", role, text.value_or("")));
      return std::nullopt;
    }
    return static_cast<std::int64_t>(*number);
  }

  const RequestLogOptions& options_;
  std::map<std::string, std::size_t> index_;
};

bool usable(const Names& names, const Location& where, Diagnostics& errors) {
  if (names.contains("time") && names.contains("id")) return true;
  std::vector<std::string> missing;
  for (const char* role : {"first", "last", "output"})
    if (!names.contains(role)) missing.push_back(role);
  if (missing.empty()) return true;
  errors.error(
      where,
      fmt::format("no column gives {}: neither requests nor chunks", fmt::join(missing, ", ")),
      "name them: --columns first=..., last=..., output=..., or id=... and time=... for "
      "chunks");
  return false;
}

void read_csv_log(const std::string& path, std::string_view text, const RequestLogOptions& options,
                  Collector& to) {
  CsvReader csv(text);
  if (!csv.next()) return to.error(table_place(path, 0, 0, {}), "the file is empty");
  std::vector<std::string> header;
  for (const auto cell : csv.cells()) header.emplace_back(cell);
  const auto head = table_place(path, csv.line(), 1, csv.text());
  const Names names = find_names(header, options, head, to.errors);
  if (!to.errors.empty() || !usable(names, head, to.errors)) return;
  std::map<std::string, std::size_t> column;
  for (const auto& [role, name] : names)
    column[role] =
        static_cast<std::size_t>(std::find(header.begin(), header.end(), name) - header.begin());
  while (csv.next()) {
    const auto where = table_place(path, csv.line(), 1, csv.text());
    if (csv.cells().size() != header.size()) {
      to.error(where, fmt::format("this line has {} cells, the first line {}", csv.cells().size(),
                                  header.size()));
      continue;
    }
    to.add({where,
            [&](const std::string& role) -> std::optional<std::string> {
              const auto it = column.find(role);
              if (it == column.end()) return std::nullopt;
              return std::string(csv.cells()[it->second]);
            }},
           names);
  }
}

std::string scalar(const json& v) {
  if (v.is_string()) return v.get<std::string>();
  if (v.is_null()) return {};
  if (v.is_boolean()) return v.get<bool>() ? "1" : "0";
  return v.dump(-1, ' ', false, json::error_handler_t::replace);
}

// ttfts[i], itls[i][...], start_times[i]
void read_bench(const std::string& path, const json& run, Collector& to) {
  const auto where = table_place(path, 0, 0, {});
  const auto list = [&](const char* key) -> const json* {
    const auto it = run.find(key);
    return it != run.end() && it->is_array() ? &*it : nullptr;
  };
  const json *ttfts = list("ttfts"), *itls = list("itls"), *starts = list("start_times"),
             *inputs = list("input_lens");
  if (!ttfts || !itls) return to.error(where, "there are no arrays ttfts and itls");
  if (!starts)
    return to.error(where, "there are no start_times: the steps of requests cannot be joined",
                    "record with vllm bench serve --save-result --save-detailed");
  if (itls->size() != ttfts->size() || starts->size() != ttfts->size())
    return to.error(where, "ttfts, itls and start_times differ in length");
  const auto number = [&](const json& v) -> std::optional<double> {
    if (!v.is_number()) return std::nullopt;
    const double d = v.get<double>();
    return std::isfinite(d) && std::abs(d) < 1e19 ? std::optional(d) : std::nullopt;
  };
  for (std::size_t i = 0; i < ttfts->size(); ++i) {
    const auto start = number((*starts)[i]), ttft = number((*ttfts)[i]);
    if (!start || !ttft || !(*itls)[i].is_array()) {
      to.error(where, fmt::format("request {} has no times", i));
      continue;
    }
    if (*ttft <= 0) {  // it failed
      ++to.log.unfinished;
      continue;
    }
    LoggedRequest r;
    r.id = std::to_string(i);
    double at = *start + *ttft;
    r.chunks.push_back(at);
    for (const auto& gap : (*itls)[i]) {
      const auto g = number(gap);
      if (!g || *g < 0) {
        to.error(where, fmt::format("request {} has a gap between tokens that is no time", i));
        break;
      }
      r.chunks.push_back(at += *g);
    }
    if (inputs && i < inputs->size() && (*inputs)[i].is_number_unsigned())
      r.input_tokens = (*inputs)[i].get<std::int64_t>();
    to.log.requests.push_back(std::move(r));
  }
}

void read_json_log(const std::string& path, std::string_view text, const RequestLogOptions& options,
                   Collector& to) {
  const json whole = json::parse(text, nullptr, false);
  if (whole.is_object() && whole.contains("ttfts")) {
    to.log.form = "bench arrays";
    return read_bench(path, whole, to);
  }
  int line = 0;
  Names names;
  std::size_t benches = 0;
  while (!text.empty()) {
    const auto end = text.find('\n');
    const auto one = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++line;
    if (one.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const auto where = table_place(path, line, 1, one);
    const json object = json::parse(one, nullptr, false);
    if (!object.is_object()) {
      to.error(where, "this line is no JSON object");
      continue;
    }
    if (object.contains("ttfts")) {  // a run of a bench; the last one counts
      ++benches;
      to.log.requests.clear();
      to.log.form = "bench arrays";
      read_bench(path, object, to);
      continue;
    }
    std::vector<std::string> keys;
    for (const auto& [key, value] : object.items()) keys.push_back(key);
    Diagnostics here;
    names = find_names(keys, options, where, here);
    if (!here.empty() || !usable(names, where, here)) {
      if (to.errors.size() < 20) to.errors.append(here);
      continue;
    }
    const auto value = [&](const std::string& role) -> const json* {
      const auto it = names.find(role);
      return it == names.end() ? nullptr : &object[it->second];
    };
    // one line a request, with all its chunks
    const json* id = value("id");
    if (const json* times = value("time"); id && times && times->is_array()) {
      LoggedRequest& r = to.by_id(scalar(*id));
      for (const auto& t : *times)
        if (t.is_number())
          r.chunks.push_back(t.get<double>() * unit_of(names["time"]));
        else
          to.error(where, "a chunk time is no number");
      if (const json* n = value("input"); n && n->is_number_unsigned())
        r.input_tokens = n->get<std::int64_t>();
      continue;
    }
    to.add({where,
            [&](const std::string& role) -> std::optional<std::string> {
              const json* v = value(role);
              if (!v) return std::nullopt;
              return scalar(*v);
            }},
           names);
  }
  if (benches > 1)
    to.log.notes.push_back(fmt::format("the file holds {} runs; the last one is read", benches));
}

}  // namespace

const std::vector<std::string>& request_log_roles() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const Role& role : roles()) out.push_back(role.name);
    return out;
  }();
  return names;
}

Expected<RequestLog> read_request_log(const std::string& path, const RequestLogOptions& options) {
  Collector to(options);
  for (const auto& [role, name] : options.columns)
    if (std::find(request_log_roles().begin(), request_log_roles().end(), role) ==
        request_log_roles().end())
      to.error({}, fmt::format("there is no role '{}'", role),
               suggestion(role, request_log_roles()));
  if (!to.errors.empty()) return tl::unexpected(to.errors);
  const auto text = read_table_text(path);
  if (!text) return tl::unexpected(text.error());
  const auto begin = text->find_first_not_of(" \t\r\n");
  if (begin != std::string::npos && (*text)[begin] == '{')
    read_json_log(path, *text, options, to);
  else
    read_csv_log(path, *text, options, to);
  const auto whole = table_place(path, 0, 0, {});
  if (to.errors.empty() && !options.run.empty() && !to.runs.contains(options.run))
    to.error(whole, fmt::format("there is no run '{}'", options.run),
             suggestion(options.run, {to.runs.begin(), to.runs.end()}));
  if (to.errors.empty() && options.run.empty() && to.runs.size() > 1)
    to.error(whole, fmt::format("the file holds {} runs", to.runs.size()),
             fmt::format("choose one with --run: {}", fmt::join(to.runs, ", ")));
  if (to.errors.empty() && to.log.requests.empty())
    to.error(whole, "no request of this file has a first and a last token");
  if (!to.errors.empty()) return tl::unexpected(to.errors);
  const bool chunks = std::any_of(to.log.requests.begin(), to.log.requests.end(),
                                  [](const auto& r) { return !r.chunks.empty(); });
  if (to.log.form.empty()) to.log.form = chunks ? "chunk times" : "request times";
  if (chunks)
    for (auto& r : to.log.requests) {
      std::sort(r.chunks.begin(), r.chunks.end());
      if (r.chunks.empty()) continue;
      r.first_token = r.chunks.front();
      r.last_token = r.chunks.back();
      r.output_tokens = static_cast<std::int64_t>(r.chunks.size());
    }
  to.log.run = !options.run.empty() ? options.run
               : to.runs.empty()    ? std::string()
                                    : *to.runs.begin();
  return std::move(to.log);
}
