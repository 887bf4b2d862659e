// Result files of sglang.bench_serving (v0.5.9) and of vllm bench serve (vllm/benchmarks/serve.py
// @009e6d4), turned into the workload that would make them again and what they measured. The tool
// is told by its fields. What neither file holds: the seed, the number of warm-up requests, vLLM's
// lengths, the groups of generated-shared-prefix; the snippet says so.

#include "calibrate/import/bench_results.hpp"

#include <cmath>
#include <filesystem>

#include <fmt/format.h>

#include "sim/base/json.hpp"
#include "sim/base/table_text.hpp"

namespace {

// Fields of a file and the metric that each is; the unit follows the number.
struct Measure {
  const char *field, *metric, *unit;
};
const std::vector<Measure> sglang_measures = {
    {"output_throughput", "output_throughput", "tok/s"},
    {"input_throughput", "input_throughput", "tok/s"},
    {"total_throughput", "total_throughput", "tok/s"},
    {"request_throughput", "request_throughput", "/s"},
    {"mean_ttft_ms", "ttft_ms.mean", "ms"},
    {"median_ttft_ms", "ttft_ms.p50", "ms"},
    {"p99_ttft_ms", "ttft_ms.p99", "ms"},
    {"mean_tpot_ms", "tpot_ms.mean", "ms"},
    {"median_tpot_ms", "tpot_ms.p50", "ms"},
    {"p99_tpot_ms", "tpot_ms.p99", "ms"},
    {"mean_itl_ms", "itl_ms.mean", "ms"},
    {"median_itl_ms", "itl_ms.p50", "ms"},
    {"p99_itl_ms", "itl_ms.p99", "ms"},
    {"mean_e2e_latency_ms", "e2e_ms.mean", "ms"},
    {"median_e2e_latency_ms", "e2e_ms.p50", "ms"},
    {"p99_e2e_latency_ms", "e2e_ms.p99", "ms"},
    {"concurrency", "concurrency", ""},
};
const std::vector<Measure> vllm_measures = {
    {"output_throughput", "output_throughput", "tok/s"},
    {"total_token_throughput", "total_throughput", "tok/s"},
    {"request_throughput", "request_throughput", "/s"},
    {"mean_ttft_ms", "ttft_ms.mean", "ms"},
    {"median_ttft_ms", "ttft_ms.p50", "ms"},
    {"p99_ttft_ms", "ttft_ms.p99", "ms"},
    {"mean_tpot_ms", "tpot_ms.mean", "ms"},
    {"median_tpot_ms", "tpot_ms.p50", "ms"},
    {"p99_tpot_ms", "tpot_ms.p99", "ms"},
    {"mean_itl_ms", "itl_ms.mean", "ms"},
    {"median_itl_ms", "itl_ms.p50", "ms"},
    {"p99_itl_ms", "itl_ms.p99", "ms"},
    {"mean_e2el_ms", "e2e_ms.mean", "ms"},
    {"median_e2el_ms", "e2e_ms.p50", "ms"},
    {"p99_e2el_ms", "e2e_ms.p99", "ms"},
};

// SGLang's server arguments that the engine section has.
const std::vector<std::pair<const char*, const char*>> engine_flags = {
    {"version", "version"},  // chooses the build
    {"tp_size", "tensor_parallel"},
    {"chunked_prefill_size", "chunked_prefill_size"},
    {"max_prefill_tokens", "max_prefill_tokens"},
    {"schedule_conservativeness", "schedule_conservativeness"},
    {"context_length", "context_length"},
    {"page_size", "page_size"},
    {"disable_overlap_schedule", "disable_overlap_schedule"},
    {"disable_cuda_graph", "cuda_graph"},
    {"cuda_graph_max_bs", "cuda_graph_max_bs"},
    {"disable_cuda_graph_padding", "disable_cuda_graph_padding"},
    {"mem_fraction_static", "mem_fraction_static"},
    {"max_running_requests", "max_running_requests"},
    {"kv_cache_dtype", "kv_cache_dtype"},
};

// One run under the reader's eyes.
class Reader {
 public:
  Reader(const std::string& path, std::string_view text, const Json& run, Diagnostics& errors)
      : path_(path), text_(text), run_(run), errors_(errors) {}

  void error(std::size_t at, std::string message, std::string hint = {}) {
    const auto [line, column] = line_and_column(text_, at);
    // The line begins where the last break before it ends.
    const auto start = at - static_cast<std::size_t>(column - 1);
    const auto shown = text_.substr(start, text_.find('\n', start) - start);
    errors_.error(table_place(path_, line, column, shown), std::move(message), std::move(hint));
  }

  const Json* field(const char* key) { return run_.find(key); }

  /// A number that must be there.
  double number(const char* key) {
    const Json* value = run_.find(key);
    if (!value)
      error(run_.at, fmt::format("the run has no '{}'", key),
            "a file of another version of the tool? v0.5.9 of sglang, vLLM of 2026 are known");
    else if (!value->is(Json::Kind::number))
      error(value->at, fmt::format("'{}' is not a number", key));
    else
      return value->number;
    return 0;
  }

  /// A whole number where there is one.
  std::optional<std::int64_t> count(const char* key) {
    const Json* value = run_.find(key);
    if (!value || value->is(Json::Kind::null)) return {};
    const auto n = value->whole();
    if (!n || *n < 0) error(value->at, fmt::format("'{}' is not a count", key));
    return n;
  }

  std::string text(const char* key) {
    const Json* value = run_.find(key);
    return value && value->is(Json::Kind::string) ? value->text : std::string();
  }

  /// "16 /s" or "inf", from a number or the word "inf".
  std::string rate(const char* key) {
    const Json* value = run_.find(key);
    if (value && value->text == "inf") return "inf";
    const double r = number(key);
    if (std::isinf(r)) return "inf";
    if (value && value->is(Json::Kind::number) && r <= 0)
      error(value->at, fmt::format("'{}' is not a rate", key));
    return fmt::format("{} /s", r);
  }

  void measures(const std::vector<Measure>& list, BenchRun& out) {
    for (const auto& m : list) {
      const Json* value = run_.find(m.field);
      if (!value || value->is(Json::Kind::null)) continue;
      if (!value->is(Json::Kind::number) || !std::isfinite(value->number))
        error(value->at, fmt::format("'{}' is not a number", m.field));
      else if (value->number > 0)
        out.measured.emplace_back(m.metric, *m.unit ? fmt::format("{} {}", value->number, m.unit)
                                                    : fmt::format("{}", value->number));
    }
  }

 private:
  const std::string& path_;
  std::string_view text_;
  const Json& run_;
  Diagnostics& errors_;
};

bool have_details(const Json* inputs, const Json* outputs) {
  return inputs && outputs && inputs->items.size() == outputs->items.size() &&
         !inputs->items.empty();
}

// "[[in, out], ...]" of the requests that were answered.
std::string given_lengths(const Json& inputs, const Json& outputs, Reader& r) {
  std::string list;
  for (std::size_t i = 0; i < inputs.items.size(); ++i) {
    const auto in = inputs.items[i].whole(), made = outputs.items[i].whole();
    if (!in || !made || *in < 0 || *made < 0)
      r.error(inputs.items[i].at, "input_lens and output_lens must be counts");
    else if (*in > 0 && *made > 0)
      list += fmt::format("{}[{}, {}]", list.empty() ? "" : ", ", *in, *made);
  }
  return "[" + list + "]";
}

BenchRun read_sglang(Reader& r) {
  BenchRun out;
  out.tool = "sglang";
  out.name = r.text("tag");
  const auto put = [&](const char* key, std::string value) {
    out.workload.emplace_back(key, std::move(value));
  };
  put("kind", "bench_serving");
  const auto dataset = r.text("dataset_name");
  const auto completed = static_cast<std::int64_t>(r.number("completed"));
  const Json *inputs = r.field("input_lens"), *outputs = r.field("output_lens");
  const bool details = have_details(inputs, outputs);
  if (dataset == "random" || dataset == "random-ids") {
    put("dataset", dataset);
    put("input_tokens", fmt::format("{}", r.number("random_input_len")));
    put("output_tokens", fmt::format("{}", r.number("random_output_len")));
    put("range_ratio", fmt::format("{}", r.number("random_range_ratio")));
    put("requests",
        fmt::format("{}", details ? static_cast<std::int64_t>(inputs->items.size()) : completed));
    if (dataset == "random-ids") {
      put("vocab_size", "1");
      out.notes.emplace_back("vocab_size is unknown: set the model's, it moves the arrivals");
    }
  } else if (dataset == "generated-shared-prefix") {
    put("dataset", dataset);
    out.notes.emplace_back(
        "the gsp_* options are not in the file: the tool's defaults are assumed");
  } else if (details) {
    put("dataset", "lengths");
    put("lengths", given_lengths(*inputs, *outputs, r));
    out.notes.push_back(
        fmt::format("dataset '{}': its lengths, without what its prompts share", dataset));
  } else {
    const Json* value = r.field("dataset_name");
    r.error(value ? value->at : 0,
            value ? fmt::format("dataset '{}' cannot be played again from this file", dataset)
                  : "the run has no 'dataset_name'",
            "run the benchmark with --output-details, which writes the lengths");
  }
  put("request_rate", r.rate("request_rate"));
  if (const auto c = r.count("max_concurrency"); c && *c > 0)
    put("max_concurrency", fmt::format("{}", *c));
  out.notes.emplace_back(
      "seed and warmup_requests are not in the file: the tool's defaults, 1 and 1");
  if (const Json* info = r.field("server_info"); info && info->is(Json::Kind::object)) {
    for (const auto& [flag, ours] : engine_flags) {
      const Json* value = info->find(flag);
      if (!value) continue;
      const std::string key = ours;
      if (value->is(Json::Kind::boolean))
        out.engine.emplace_back(key, (value->number != 0) != (key == "cuda_graph") ? "on" : "off");
      else if (value->is(Json::Kind::number))
        out.engine.emplace_back(key, fmt::format("{}", value->number));
      else if (value->is(Json::Kind::string) && value->text != "auto")
        out.engine.emplace_back(key, value->text.starts_with("fp8") ? "fp8" : value->text);
    }
    if (const Json* model = info->find("model_path"); model && model->is(Json::Kind::string))
      out.model = model->text;
  }
  r.measures(sglang_measures, out);
  return out;
}

BenchRun read_vllm(Reader& r) {
  BenchRun out;
  out.tool = "vllm";
  out.name = r.text("label");
  out.model = r.text("model_id");
  const auto put = [&](const char* key, std::string value) {
    out.workload.emplace_back(key, std::move(value));
  };
  put("kind", "vllm_bench");
  const auto completed = r.number("completed");
  if (const Json* inputs = r.field("input_lens"), *outputs = r.field("output_lens");
      have_details(inputs, outputs)) {
    put("dataset", "lengths");
    put("lengths", given_lengths(*inputs, *outputs, r));
    out.notes.emplace_back("the lengths of the file, without what its prompts share");
  } else {
    put("num_prompts", fmt::format("{}", r.number("num_prompts")));
    const auto mean = [&](const char* total) {
      const double sum = r.number(total);
      return completed > 0 ? std::max(1.0, std::round(sum / completed)) : 1.0;
    };
    put("random_input_len", fmt::format("{}", mean("total_input_tokens")));
    put("random_output_len", fmt::format("{}", mean("total_output_tokens")));
    out.notes.emplace_back(
        "lengths are means of the run: save it with --save-detailed to have each");
  }
  const bool ramp = !r.text("ramp_up_strategy").empty();
  if (ramp) {
    put("ramp_up_strategy", r.text("ramp_up_strategy"));
    put("ramp_up_start_rps", r.rate("ramp_up_start_rps"));
    put("ramp_up_end_rps", r.rate("ramp_up_end_rps"));
  } else {
    put("request_rate", r.rate("request_rate"));
  }
  const double burstiness = r.number("burstiness");
  if (burstiness != 1) put("burstiness", fmt::format("{}", burstiness));
  if (const auto c = r.count("max_concurrency"); c && *c > 0)
    put("max_concurrency", fmt::format("{}", *c));
  out.notes.emplace_back("seed and num_warmups are not in the file: the tool's defaults, 0 and 0");
  r.measures(vllm_measures, out);
  return out;
}

std::string dataset_of(const BenchRun& run) {
  for (const auto& [key, value] : run.workload)
    if (key == "dataset") return value;
  return {};
}

}  // namespace

Expected<std::vector<BenchRun>> import_bench(const std::string& path) {
  const auto text = read_table_text(path);
  if (!text) return tl::unexpected(text.error());
  Diagnostics errors;
  std::vector<BenchRun> runs;
  const auto one = [&](const Json& json, std::string_view shown, int first_line) {
    Diagnostics own;
    Reader r(path, shown, json, own);
    const bool sglang = json.find("dataset_name") && json.find("output_throughput");
    const bool vllm = json.find("num_prompts") && json.find("total_token_throughput");
    if (!sglang && !vllm) {
      r.error(json.at, "this is a result of neither sglang.bench_serving nor vllm bench serve",
              "sglang writes dataset_name and output_throughput, vllm num_prompts and "
              "total_token_throughput");
    } else {
      BenchRun run = vllm ? read_vllm(r) : read_sglang(r);
      const auto line = first_line + line_and_column(shown, json.at).first - 1;
      run.line = line;
      if (r.number("completed") <= 0 && own.empty())
        r.error(json.at, "no request of this run was finished");
      if (!runs.empty() && run.tool != runs.front().tool)
        r.error(json.at, "runs of both tools in one file", "import them one by one");
      else if (!runs.empty() && dataset_of(run) != dataset_of(runs.front()))
        r.error(json.at, "runs of different datasets in one file", "import them one by one");
      runs.push_back(std::move(run));
    }
    for (const auto& d : own.list()) {
      auto where = d.where;
      const auto source = std::make_shared<Source>(*where.source);
      where.line += first_line - 1;
      source->first_line = where.line;
      errors.error({source, where.line, where.column}, d.message, d.hint);
    }
  };
  if (const auto whole = parse_json(*text); whole && whole->is(Json::Kind::object)) {
    one(*whole, *text, 1);
  } else {
    std::string_view rest = *text;
    for (int number = 1; !rest.empty(); ++number) {
      const auto end = rest.find('\n');
      const auto line = rest.substr(0, end);
      rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
      if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      const auto parsed = parse_json(line);
      if (parsed)
        one(*parsed, line, number);
      else
        errors.error(table_place(path, number, static_cast<int>(parsed.error().at) + 1, line),
                     parsed.error().message, "a JSON object, or one a line, is wanted");
    }
  }
  if (!errors.empty()) return tl::unexpected(errors);
  return runs;
}

std::string bench_scenario(const std::string& path, const std::vector<BenchRun>& runs) {
  const auto file = std::filesystem::path(path).filename().string();
  const BenchRun& first = runs.front();
  const auto quoted = [](const std::string& s) {
    std::string out = "'";
    for (const char c : s) out += c == '\'' ? std::string("''") : std::string(1, c);
    return out + "'";
  };
  const auto expect = [&](const BenchRun& run, const std::string& indent) {
    std::string out;
    for (const auto& [metric, value] : run.measured)
      out += fmt::format(
          "{}{}: {{ value: {}, source: {} }}\n", indent, metric, value,
          quoted(fmt::format("{}, {}:{}",
                             run.tool == "vllm" ? "vllm bench serve" : "sglang.bench_serving", file,
                             run.line)));
    return out;
  };
  const auto value_in = [](const auto& list, const std::string& key) -> const std::string* {
    for (const auto& [k, v] : list)
      if (k == key) return &v;
    return nullptr;
  };

  std::string out = "schema: 1\n";
  out += fmt::format("# machine: what {} ran on\n", file);
  out += first.model.empty() ? "# model: not in the file\n"
                             : fmt::format("# model: the file says {}\n", first.model);
  if (!first.name.empty()) out += fmt::format("name: {}\n", quoted(first.name));
  if (!first.engine.empty()) {
    out += "engine:\n  kind: sglang\n";
    for (const auto& [key, value] : first.engine) out += fmt::format("  {}: {}\n", key, value);
  } else {
    out += fmt::format("# engine: {{ kind: {}, ... }}\n", first.tool);
  }
  out += "workload:\n";
  for (const auto& note : first.notes) out += fmt::format("  # {}\n", note);
  for (const auto& [key, value] : first.workload) out += fmt::format("  {}: {}\n", key, value);
  out += "expect:\n" + expect(first, "  ");
  if (runs.size() > 1) out += "points:\n";
  for (std::size_t i = 1; i < runs.size(); ++i) {
    const BenchRun& run = runs[i];
    std::string name = run.name.empty() ? fmt::format("line {}", run.line) : run.name;
    out += fmt::format("  - name: {}\n", quoted(name));
    for (const auto& [key, value] : run.workload)
      if (const auto* before = value_in(first.workload, key); !before || *before != value)
        out += fmt::format("    workload.{}: {}\n", key, value);
    // A point can change a value but not take it away; a semaphore wide enough for all is none.
    if (value_in(first.workload, "max_concurrency") && !value_in(run.workload, "max_concurrency"))
      out += "    workload.max_concurrency: 10000000\n";
    for (const auto& [key, value] : run.engine)
      if (const auto* before = value_in(first.engine, key); !before || *before != value)
        out += fmt::format("    engine.{}: {}\n", key, value);
    out += "    expect:\n" + expect(run, "      ");
  }
  return out;
}
