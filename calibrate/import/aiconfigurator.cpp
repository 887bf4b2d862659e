// Kernel tables in the form of ai-dynamo/aiconfigurator's systems/data, as CSV (plain or gz): one
// row per measured kernel, times in milliseconds. Columns that are constant over a table may be
// missing from it and stand in a manifest.json. The size of a message is its bytes; elements are
// taken only where bytes are missing, and checked where both are there (mixing them up is a factor
// of two).
// Leaves out what cannot be known from a table: clocks, power limits, cold or warm L2, whether a
// row was measured eagerly or in a graph.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "calibrate/import/kernel_rows.hpp"
#include "calibrate/import/rejections.hpp"
#include "calibrate/import/row_checks.hpp"
#include "sim/base/table_text.hpp"

namespace {

namespace fs = std::filesystem;

constexpr std::string_view time_name = "latency_ms", elements_name = "message_elems";
constexpr double count_max = 1e12;
// Columns of the format that no class asks for: none of them is a misspelt one.
const std::vector<std::string> other_columns{
    "architecture",   "beam_width", "compress_ratio", "device",     "framework",
    "implementation", "isl",        "model",          "op_name",    "power",
    "step",           "tp_size",    "version",        "window_size"};

// Words that laws read as numbers.
bool is_number_word(const std::string& word) {
  return word == "head_dim" || word == "window_size" || word == "num_gpus";
}

std::optional<double> element_bytes(std::string_view dtype) {
  for (const std::string_view two : {"half", "float16", "fp16", "bfloat16", "bf16"})
    if (dtype == two) return 2;
  for (const std::string_view one : {"int8", "uint8", "fp8", "fp8_e4m3", "fp8_e5m2"})
    if (dtype == one) return 1;
  for (const std::string_view four : {"float32", "float", "fp32"})
    if (dtype == four) return 4;
  return {};
}

// What a manifest.json says of one table.
struct Stated {
  std::map<std::string, std::string> constants;
  std::string source;  // repository and commit
  std::string gpu;     // the folder of the table, named after the system
  std::string name;    // of the table, from the manifest's folder
};

// A table is the same one when it was unpacked.
std::string unpacked(std::string name) {
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  return name;
}

// The nearest manifest beside or above the file that lists it.
Expected<Stated> manifest_of(const std::string& path) {
  Stated out;
  const fs::path file = fs::absolute(path).lexically_normal();
  out.name = file.filename().string();
  for (fs::path folder = file.parent_path();; folder = folder.parent_path()) {
    const fs::path manifest = folder / "manifest.json";
    std::error_code code;
    if (fs::is_regular_file(manifest, code)) {
      try {
        std::ifstream in(manifest);
        const auto json = nlohmann::json::parse(in);
        const std::string key = file.lexically_relative(folder).generic_string();
        for (const auto& entry : json.at("files")) {
          if (unpacked(entry.at("file")) != unpacked(key)) continue;
          out.name = key;
          if (const auto slash = key.find('/'); slash != std::string::npos)
            out.gpu = key.substr(0, slash);
          for (const auto& [name, value] : entry.at("constants").items())
            out.constants[name] = value.is_string() ? value.get<std::string>() : value.dump();
          out.source = json.value("repo", "") + " @" + json.value("commit", "").substr(0, 8);
        }
      } catch (const nlohmann::json::exception& e) {
        Diagnostics errors;
        errors.error(table_place(manifest.string(), 0, 0, {}),
                     fmt::format("this is no manifest of tables: {}", e.what()),
                     "it must hold a list 'files' of {file, constants}");
        return tl::unexpected(errors);
      }
      return out;
    }
    if (folder == folder.parent_path()) return out;
  }
}

// "gemm__sglang_0.5.14.csv.gz": what was measured, engine, version.
struct TableName {
  std::string op, engine, version;
};

std::optional<TableName> table_name(const std::string& path) {
  std::string stem = fs::path(path).filename().string();
  for (const std::string_view tail : {".gz", ".csv"})
    if (stem.ends_with(tail)) stem.resize(stem.size() - tail.size());
  const auto bar = stem.find("__");
  if (bar == std::string::npos || bar == 0) return {};
  const auto version = stem.find('_', bar + 2);
  if (version == std::string::npos || version == bar + 2 || version + 1 == stem.size()) return {};
  return TableName{stem.substr(0, bar), stem.substr(bar + 2, version - bar - 2),
                   stem.substr(version + 1)};
}

// Where a value of each row comes from: a column, or one value for the whole table.
struct Field {
  std::string name;
  std::optional<std::size_t> cell;
  std::string constant;
  double number = 0;  // of the constant, where a number is wanted
  std::string_view of(const std::vector<std::string_view>& cells) const {
    return cell ? cells[*cell] : std::string_view(constant);
  }
};

struct Plan {
  std::vector<Field> words, axes;
  Field bytes_dtype;
  std::optional<std::size_t> elements;  // column of the message in elements
  std::optional<std::size_t> message;   // axis of the message in bytes
  std::size_t time = 0;
};

// Finds the columns of a class in the header; errors are collected.
class Planner {
 public:
  Planner(const std::string& path, const CsvReader& header, const Stated& stated,
          Diagnostics& errors)
      : path_(path), header_(header), stated_(stated), errors_(errors) {
    for (const auto& cell : header.cells()) names_.emplace_back(cell);
  }

  Plan plan(const KernelClass& kind) {
    check_header();
    Plan out;
    for (const auto& word : kind.words) wanted_.push_back(word);
    for (const auto& axis : kind.axes) wanted_.push_back(axis.column);
    for (const auto& word : kind.words) out.words.push_back(word_field(word));
    out.elements = cell_of(std::string(elements_name));
    for (const auto& dtype : {"nccl_dtype", "allreduce_dtype"})
      if (auto field = find(dtype)) out.bytes_dtype = *field;
    for (const auto& axis : kind.axes) {
      if (axis.column == "message_bytes") out.message = out.axes.size();
      out.axes.push_back(axis_field(axis.column, out));
    }
    if (const auto cell = cell_of(std::string(time_name)))
      out.time = *cell;
    else
      missing_time();
    return out;
  }

 private:
  std::optional<std::size_t> cell_of(const std::string& name) const {
    const auto it = std::find(names_.begin(), names_.end(), name);
    if (it == names_.end()) return {};
    return static_cast<std::size_t>(it - names_.begin());
  }
  Location place(std::size_t cell) const {
    return table_place(path_, header_.line(), header_.column(cell), header_.text());
  }
  std::optional<Field> find(const std::string& name) const {
    Field out;
    out.name = name;
    if ((out.cell = cell_of(name))) return out;
    const auto it = stated_.constants.find(name);
    if (it == stated_.constants.end()) return {};
    out.constant = it->second;
    return out;
  }
  // A column that nobody knows and that is spelt much like `name`.
  std::optional<std::size_t> misspelt(const std::string& name) const {
    std::vector<std::string> strange;
    for (const auto& have : names_)
      if (have != time_name && have != elements_name &&
          std::find(wanted_.begin(), wanted_.end(), have) == wanted_.end() &&
          std::find(other_columns.begin(), other_columns.end(), have) == other_columns.end())
        strange.push_back(have);
    const auto near = nearest(name, strange);
    return near.empty() ? std::nullopt : cell_of(near);
  }

  void check_header() {
    if (names_.size() == 1 && names_[0].find_first_of(";\t") != std::string::npos)
      errors_.error(place(0), "the table has one column", "cells are separated by commas");
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (*cell_of(names_[i]) != i)
        errors_.error(place(i), fmt::format("column '{}' appears twice", names_[i]), "remove one");
  }
  // A word that is stated nowhere is unknown; a misspelt one would mix sets that differ in it.
  Field word_field(const std::string& word) {
    if (auto field = find(word)) return *field;
    if (const auto cell = misspelt(word))
      errors_.error(place(*cell), fmt::format("unknown column '{}'", names_[*cell]),
                    fmt::format("did you mean '{}'?", word));
    return {word, {}, "", 0};
  }
  Field axis_field(const std::string& name, const Plan& plan) {
    if (auto field = find(name)) {
      if (field->cell) return *field;
      const auto value = table_number(field->constant);
      field->number = value.value_or(0);
      if (!value)
        errors_.error(place(0), fmt::format("the manifest says '{}' for '{}', which is no count",
                                            field->constant, name));
      return *field;
    }
    if (name == "message_bytes" && plan.elements) {
      if (!plan.bytes_dtype.name.empty()) return {name, plan.elements, "", 0};
      errors_.error(place(*plan.elements),
                    "messages are counted in elements of a size that is stated nowhere",
                    "add a column 'message_bytes', or one with the dtype");
      return {};
    }
    if (const auto cell = misspelt(name))
      errors_.error(place(*cell), fmt::format("unknown column '{}'", names_[*cell]),
                    fmt::format("did you mean '{}'?", name));
    else
      errors_.error(place(0), fmt::format("column '{}' is missing", name),
                    "it is not among the constants of a manifest.json either");
    return {};
  }
  void missing_time() {
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (names_[i].starts_with("latency") || names_[i].starts_with("time") ||
          nearest(std::string(time_name), {names_[i]}) == names_[i])
        return errors_.error(place(i), fmt::format("unknown column '{}'", names_[i]),
                             "times are milliseconds in a column 'latency_ms'");
    errors_.error(place(0), "column 'latency_ms' is missing");
  }

  const std::string& path_;
  const CsvReader& header_;
  const Stated& stated_;
  Diagnostics& errors_;
  std::vector<std::string> names_, wanted_;
};

// Reads rows into sets; what is wrong with one goes to the rejections.
class RowReader {
 public:
  RowReader(const Plan& plan, Rejections& rejections) : plan_(plan), rejections_(rejections) {}

  void read(const CsvReader& line) {
    KernelRow row;
    row.line = line.line();
    const auto& cells = line.cells();
    const auto ms = table_number(cells[plan_.time]);
    if (!ms) return reject(unreadable("time is not a number"), row, plan_.time);
    if (*ms < 0) return reject("negative time", row, plan_.time);
    if (*ms == 0) return ++zeros_, reject("time zero: the kernel did not run", row, plan_.time);
    row.time_us = *ms * 1000;
    for (std::size_t i = 0; i < plan_.axes.size(); ++i)
      if (!read_axis(i, cells, row)) return;
    key_.clear();
    for (const auto& word : plan_.words) {
      const auto value = word.of(cells);
      if (word.cell && is_number_word(word.name) && !table_number(value))
        return reject(unreadable("'" + word.name + "' is not a number"), row, *word.cell);
      key_.append(value).push_back('\x1f');
    }
    set_of(cells).rows.push_back(row);
  }

  std::vector<KernelRows>& sets() { return sets_; }
  std::size_t zeros() const { return zeros_; }
  std::size_t unreadable_rows() const { return unreadable_; }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
  };

  void reject(std::string_view reason, const KernelRow& row, std::size_t cell) {
    rejections_.add(reason, row.line, cell);
  }
  std::string unreadable(std::string reason) {
    ++unreadable_;
    return reason;
  }

  bool read_axis(std::size_t i, const std::vector<std::string_view>& cells, KernelRow& row) {
    const Field& axis = plan_.axes[i];
    row.x[i] = axis.number;
    if (!axis.cell) return true;
    const auto bad = [&](std::string reason, std::size_t cell) {
      reject(reason, row, cell);
      return false;
    };
    const auto value = table_number(cells[*axis.cell]);
    if (!value) return bad(unreadable("'" + axis.name + "' is not a number"), *axis.cell);
    // Nothing cached is a count of tokens; everything else has one at least.
    const double least = axis.name == "step" ? 0 : 1;
    if (*value < least || *value > count_max ||
        *value != static_cast<double>(static_cast<std::int64_t>(*value)))
      return bad("'" + axis.name + "' is no count that can be", *axis.cell);
    row.x[i] = *value;
    if (plan_.message != i || !plan_.elements) return true;
    const auto size = element_bytes(plan_.bytes_dtype.of(cells));
    if (axis.cell == plan_.elements) {  // bytes are missing
      if (!size) return bad("elements of unknown size", *plan_.elements);
      row.x[i] = *value * *size;
      return true;
    }
    const auto elements = table_number(cells[*plan_.elements]);
    if (size && (!elements || *elements * *size != *value))
      return bad("message_bytes is not message_elems times the size of its dtype", *axis.cell);
    return true;
  }

  KernelRows& set_of(const std::vector<std::string_view>& cells) {
    const auto it = index_.find(std::string_view(key_));
    if (it != index_.end()) return sets_[it->second];
    index_.emplace(key_, sets_.size());
    auto& set = sets_.emplace_back();
    for (const auto& word : plan_.words)
      if (const auto value = word.of(cells); !value.empty()) set.words[word.name] = value;
    return set;
  }

  const Plan& plan_;
  Rejections& rejections_;
  std::vector<KernelRows> sets_;
  std::unordered_map<std::string, std::size_t, Hash, std::equal_to<>> index_;
  std::string key_;
  std::size_t zeros_ = 0, unreadable_ = 0;
};

// DeepSeek's limit of 4 expert groups in 8 applied to evenly spread synthetic logits: about 128 of
// the 256 experts are touched, and the times are half of what they should be (kernel-import.md).
void leave_out_grouped_top_k(KernelRows& set, const KernelClass& kind, std::size_t time_cell,
                             Rejections& rejections) {
  const bool defective = (set.engine == "sglang" && set.version == "0.5.14") ||
                         (set.engine == "vllm" && set.version == "0.24.0");
  const auto distribution = set.words.find("distribution");
  if (set.kernel_class != "moe" || !defective || distribution == set.words.end() ||
      distribution->second != "balanced")
    return;
  const auto axis = [&](std::string_view column) {
    std::size_t i = 0;
    while (kind.axes[i].column != column) ++i;
    return i;
  };
  const std::size_t hidden = axis("hidden_size"), experts = axis("num_experts"),
                    topk = axis("topk");
  const auto hit = [&](const KernelRow& row) {
    if (row.x[hidden] != 7168 || row.x[experts] != 256 || row.x[topk] != 8) return false;
    rejections.add("grouped top-k defect: balanced tokens reach half of the experts", row.line,
                   time_cell);
    return true;
  };
  set.rows.erase(std::remove_if(set.rows.begin(), set.rows.end(), hit), set.rows.end());
}

}  // namespace

Expected<KernelImport> import_aiconfigurator(const std::string& path) {
  Diagnostics errors;
  const auto refuse = [&](const std::string& message, const std::string& hint) {
    errors.error(table_place(path, 0, 0, {}), message, hint);
    return tl::unexpected(errors);
  };
  const auto name = table_name(path);
  if (!name)
    return refuse("the file name does not say what was measured",
                  "name it OP__ENGINE_VERSION.csv or .csv.gz, as gemm__sglang_0.5.14.csv.gz");
  const KernelClass* kind = nullptr;
  std::string class_name;
  std::vector<std::string> known;
  for (const auto& [id, entry] : KernelClasses::entries())
    for (const auto& table : entry.tables) {
      known.push_back(table);
      if (table == name->op) kind = &entry, class_name = id;
    }
  if (!kind)
    return refuse(fmt::format("no kernel class is measured by a table '{}'", name->op),
                  suggestion(name->op, known));
  const auto text = read_table_text(path);
  if (!text) return tl::unexpected(text.error());
  const auto stated = manifest_of(path);
  if (!stated) return tl::unexpected(stated.error());

  CsvReader reader(*text);
  reader.next();
  const std::size_t width = reader.cells().size();
  const std::string header(reader.text());
  const int header_line = reader.line();
  const Plan plan = Planner(path, reader, *stated, errors).plan(*kind);
  if (!errors.empty()) return tl::unexpected(errors);
  const Location times = table_place(path, header_line, reader.column(plan.time), header);

  KernelImport out;
  Rejections rejections;
  RowReader rows(plan, rejections);
  std::size_t malformed = 0;
  while (reader.next()) {
    ++out.rows_read;
    if (reader.cells().size() != width || reader.quote_is_open())
      rejections.add(reader.quote_is_open() ? "a quote is not closed" : "wrong number of columns",
                     reader.line(), reader.cells().size() - 1),
          ++malformed;
    else
      rows.read(reader);
  }
  const auto refuse_rows = [&](const std::string& message) {
    errors.error(times, message);
    for (const auto& r : rejections.report(path, *text))
      errors.error(r.where, fmt::format("{} ({} rows, the first here)", r.reason, r.rows));
    return tl::unexpected(errors);
  };
  if (out.rows_read == 0) {
    errors.error(times, "the table has a header and no rows");
    return tl::unexpected(errors);
  }
  if (2 * (malformed + rows.unreadable_rows()) > out.rows_read)
    return refuse_rows("more than half of the rows cannot be read");
  // What static scales save is zero nearly everywhere; the rest of such a table is noise.
  const bool zeros = 2 * rows.zeros() > out.rows_read;
  const auto problem = unit_problem(median_over_law(*kind, rows.sets()), "milliseconds");
  if (!zeros && problem) {
    errors.error(times, problem->message, problem->hint);
    return tl::unexpected(errors);
  }
  for (auto& set : rows.sets()) {
    set.kernel_class = class_name;
    set.engine = name->engine;
    set.version = name->version;
    set.gpu = stated->gpu;
    set.source = stated->name + (stated->source.empty() ? "" : ", " + stated->source);
    leave_out_grouped_top_k(set, *kind, plan.time, rejections);
    out.rows_averaged += sift(set, *kind, plan.time, rejections);
    if (!set.rows.empty()) out.sets.push_back(std::move(set));
  }
  if (out.sets.empty() && !zeros) return refuse_rows("no row can be used");
  std::sort(out.sets.begin(), out.sets.end(),
            [](const KernelRows& a, const KernelRows& b) { return a.words < b.words; });
  for (const auto& word : plan.words)
    if (!word.cell && word.constant.empty())
      out.notes.push_back(fmt::format("'{}' is stated nowhere", word.name));
  out.rejected = rejections.report(path, *text);
  return out;
}

bool is_kernel_table(const std::string& path) {
  const auto file = std::filesystem::path(path).filename().string();
  const auto op = file.substr(0, file.find("__"));
  for (const auto& [id, kind] : KernelClasses::entries())
    if (std::find(kind.tables.begin(), kind.tables.end(), op) != kind.tables.end()) return true;
  return false;
}
