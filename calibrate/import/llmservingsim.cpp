// LLMServingSim's profile of vLLM layers (casys-kaist/LLMServingSim 2), flattened to one CSV. Dense
// layers become GEMMs with the shapes of the models' public configurations, attention becomes
// mixed_attention. Times are microseconds, averaged over eager launches: a graph may run another
// kernel at the same size (between 33 and 64 sequences the served graphs were 5 to 10 % slower).
// Leaves out: MoE (measured by the number of experts that are touched, which no class takes),
// norms, rotary embedding, activation, embedding and sampler (no class), and what the profile does
// not say: kernels, clocks, KV data type, which edition of a card.

#include <algorithm>
#include <cctype>
#include <filesystem>

#include <fmt/format.h>

#include "calibrate/import/rejections.hpp"
#include "calibrate/import/row_checks.hpp"
#include "sim/base/table_text.hpp"

namespace {

namespace fs = std::filesystem;

// From config.json of each model on Hugging Face (2024 to 2025); vocabularies are multiples of 64
// per GPU, so vLLM pads nothing.
struct ModelShape {
  std::string_view name;
  double hidden, heads, kv_heads, head_dim, inter, vocab;
};
constexpr ModelShape models[] = {
    {"meta-llama/Llama-3.1-8B", 4096, 32, 8, 128, 14336, 128256},
    {"Qwen/Qwen3-32B", 5120, 64, 8, 128, 25600, 151936},
    {"Qwen/Qwen3-30B-A3B-Instruct-2507", 2048, 32, 4, 128, 0, 151936},
};

enum Column {
  gpu,
  model,
  dtype,
  tp,
  table,
  layer,
  tokens,
  experts,
  sequences,
  chunk,
  kv_prefill,
  n_decode,
  kv_decode,
  time_us
};
const std::vector<std::string> columns{
    "gpu",       "model",         "dtype",      "tp",
    "table",     "layer",         "tokens",     "activated_experts",
    "sequences", "prefill_chunk", "kv_prefill", "n_decode",
    "kv_decode", "time_us"};

// n and k of a dense layer on one of `ranks` GPUs; {0, 0} for a layer that is no GEMM.
std::pair<double, double> gemm_of(const ModelShape& m, std::string_view name, double ranks) {
  if (name == "qkv_proj") return {(m.heads + 2 * m.kv_heads) * m.head_dim / ranks, m.hidden};
  if (name == "o_proj") return {m.hidden, m.heads * m.head_dim / ranks};
  if (name == "gate_up_proj") return {2 * m.inter / ranks, m.hidden};
  if (name == "down_proj") return {m.hidden, m.inter / ranks};
  if (name == "lm_head") return {m.vocab / ranks, m.hidden};
  return {0, 0};
}

// "sm120_vllm019_profile.csv.gz" -> vllm, 0.19
struct Engine {
  std::string name, version;
};
std::optional<Engine> engine_of(const std::string& path) {
  const std::string file = fs::path(path).filename().string();
  const auto end = file.find("_profile.csv");
  if (end == std::string::npos) return {};
  std::string word = file.substr(0, end);
  word = word.substr(word.rfind('_') + 1);  // npos + 1 is 0
  const auto digits = word.find_first_of("0123456789");
  if (digits == std::string::npos || digits == 0 || word.size() < digits + 2) return {};
  return Engine{word.substr(0, digits),
                fmt::format("{}.{}", word[digits], word.substr(digits + 1))};
}

std::string known_dtype(std::string_view name) {
  return std::string(name == "bf16" ? "bfloat16" : name == "fp16" ? "float16" : name);
}

class Profile {
 public:
  Profile(const Engine& engine, std::string source, const std::vector<std::size_t>& cells,
          Rejections& rejections)
      : engine_(engine), source_(std::move(source)), cells_(cells), rejections_(rejections) {}

  void read(const CsvReader& line) {
    line_ = &line;
    const auto us = table_number(cell(time_us));
    if (!us) return reject("time is not a number", time_us);
    if (*us <= 0)
      return reject(*us < 0 ? "negative time" : "time zero: the kernel did not run", time_us);
    const auto ranks = count(tp);
    if (!ranks || *ranks < 1) return reject("'tp' is not a count", tp);
    const auto shape = std::find_if(std::begin(models), std::end(models),
                                    [&](const ModelShape& m) { return m.name == cell(model); });
    if (shape == std::end(models)) return reject("the shapes of the model are unknown", model);
    KernelRow row;
    row.line = line.line();
    row.time_us = *us;
    if (cell(table) == "attention")
      attention(*shape, *ranks, row);
    else if (cell(table) == "dense" || cell(table) == "per_sequence")
      gemm(*shape, *ranks, row);
    else
      reject(fmt::format("no kernel class covers table '{}'", cell(table)), table);
  }

  std::map<std::string, KernelRows>& sets() { return sets_; }

 private:
  std::string_view cell(Column c) const { return line_->cells()[cells_[c]]; }
  std::optional<double> count(Column c) const {
    const auto value = table_number(cell(c));
    if (!value || *value < 0 || *value > 1e12) return {};
    return value;
  }
  void reject(const std::string& reason, Column c) {
    rejections_.add(reason, line_->line(), cells_[c]);
  }

  void gemm(const ModelShape& m, double ranks, KernelRow& row) {
    const auto [n, k] = gemm_of(m, cell(layer), ranks);
    if (n <= 0 || k <= 0)
      return reject(fmt::format("no kernel class covers layer '{}'", cell(layer)), layer);
    const Column size = cell(table) == "dense" ? tokens : sequences;
    const auto rows = count(size);
    if (!rows || *rows < 1) return reject(fmt::format("'{}' is not a count", columns[size]), size);
    row.x = {n, k, *rows};
    set("gemm", {{"gemm_dtype", known_dtype(cell(dtype))}}).rows.push_back(row);
  }

  void attention(const ModelShape& m, double ranks, KernelRow& row) {
    // Below one KV head a rank vLLM repeats it.
    row.x = {std::max(1.0, m.kv_heads / ranks), m.heads / ranks};
    std::size_t i = 2;
    for (const Column c : {chunk, kv_prefill, n_decode, kv_decode}) {
      const auto value = count(c);
      if (!value) return reject(fmt::format("'{}' is not a count", columns[c]), c);
      row.x[i++] = *value;
    }
    set("mixed_attention",
        {{"attn_dtype", known_dtype(cell(dtype))}, {"head_dim", fmt::format("{}", m.head_dim)}})
        .rows.push_back(row);
  }

  KernelRows& set(const std::string& kernel_class, std::map<std::string, std::string> words) {
    std::string key = kernel_class;
    for (const auto& [word, value] : words) key += '\x1f' + value;
    key += '\x1f' + std::string(cell(gpu));
    const auto [it, fresh] = sets_.try_emplace(key);
    if (fresh) {
      it->second.kernel_class = kernel_class;
      it->second.engine = engine_.name;
      it->second.version = engine_.version;
      it->second.words = std::move(words);
      it->second.source = source_;
      it->second.gpu = cell(gpu);
    }
    return it->second;
  }

  const Engine& engine_;
  std::string source_;
  const std::vector<std::size_t>& cells_;
  Rejections& rejections_;
  const CsvReader* line_ = nullptr;
  std::map<std::string, KernelRows> sets_;
};

}  // namespace

Expected<KernelImport> import_llmservingsim(const std::string& path) {
  Diagnostics errors;
  const auto engine = engine_of(path);
  if (!engine) {
    errors.error(table_place(path, 0, 0, {}),
                 "the file name does not say which engine was measured",
                 "let it end in ENGINE, VERSION and _profile.csv, as sm120_vllm019_profile.csv.gz");
    return tl::unexpected(errors);
  }
  const auto text = read_table_text(path);
  if (!text) return tl::unexpected(text.error());
  CsvReader reader(*text);
  reader.next();
  const std::vector<std::string> header(reader.cells().begin(), reader.cells().end());
  std::vector<std::size_t> cells;
  for (const auto& name : columns) {
    const auto it = std::find(header.begin(), header.end(), name);
    cells.push_back(static_cast<std::size_t>(it - header.begin()));
    if (it != header.end()) continue;
    std::vector<std::string> strange;
    for (const auto& have : header)
      if (std::find(columns.begin(), columns.end(), have) == columns.end()) strange.push_back(have);
    const auto near = nearest(name, strange);
    const auto at =
        static_cast<std::size_t>(std::find(header.begin(), header.end(), near) - header.begin());
    errors.error(
        table_place(path, reader.line(), near.empty() ? 1 : reader.column(at), reader.text()),
        near.empty() ? fmt::format("column '{}' is missing", name)
                     : fmt::format("unknown column '{}'", near),
        near.empty() ? "" : fmt::format("did you mean '{}'?", name));
  }
  if (!errors.empty()) return tl::unexpected(errors);
  const Location times =
      table_place(path, reader.line(), reader.column(cells[time_us]), reader.text());

  KernelImport out;
  Rejections rejections;
  Profile profile(*engine, fs::path(path).filename().string() + ", casys-kaist/LLMServingSim",
                  cells, rejections);
  while (reader.next()) {
    ++out.rows_read;
    if (reader.cells().size() != header.size() || reader.quote_is_open())
      rejections.add("wrong number of columns", reader.line(), reader.cells().size() - 1);
    else
      profile.read(reader);
  }
  std::map<std::string, std::vector<KernelRows>> by_class;
  for (auto& [key, set] : profile.sets()) by_class[set.kernel_class].push_back(std::move(set));
  for (auto& [id, sets] : by_class) {
    const KernelClass& kind = *KernelClasses::find(id);
    if (const auto problem = unit_problem(median_over_law(kind, sets), "microseconds")) {
      errors.error(times, problem->message, problem->hint);
      return tl::unexpected(errors);
    }
    for (auto& set : sets) {
      out.rows_averaged += sift(set, kind, cells[time_us], rejections);
      if (!set.rows.empty()) out.sets.push_back(std::move(set));
    }
  }
  if (out.sets.empty()) {
    errors.error(times, "no row can be used");
    for (const auto& r : rejections.report(path, *text))
      errors.error(r.where, fmt::format("{} ({} rows, the first here)", r.reason, r.rows));
    return tl::unexpected(errors);
  }
  out.rejected = rejections.report(path, *text);
  out.notes = {"'kernel_source' and 'kv_cache_dtype' are stated nowhere",
               "times are eager: a graph may run another kernel at the same size",
               "a card's edition, clocks and power limit are stated nowhere"};
  return out;
}
