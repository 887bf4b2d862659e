#include "calibrate/import/import_report.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/units.hpp"
#include "sim/report/table.hpp"

namespace {

using Json = nlohmann::ordered_json;

const KernelClass& kind_of(const KernelRows& set) { return *KernelClasses::find(set.kernel_class); }

std::string grouped(std::size_t n) { return ::grouped(static_cast<std::int64_t>(n)); }

std::size_t rows_of(const KernelImport& import) {
  std::size_t out = 0;
  for (const auto& set : import.sets) out += set.rows.size();
  return out;
}

std::string word_of(const KernelRows& set, const std::string& word) {
  const auto it = set.words.find(word);
  return it == set.words.end() ? "" : it->second;
}

std::string heading(const KernelRows& set) {
  return fmt::format("{}, {} {}{}", set.kernel_class, set.engine, set.version,
                     set.gpu.empty() ? "" : ", " + set.gpu);
}

// One table for neighbours of the same class, engine, version and card.
std::string sets_text(const std::vector<KernelRows>& sets) {
  std::string out;
  for (std::size_t i = 0; i < sets.size();) {
    const auto& words = kind_of(sets[i]).words;
    std::vector<std::string> header = words;
    header.insert(header.begin(), "");
    header.push_back("rows");
    Table table(header, 4);
    for (std::size_t w = 0; w < words.size(); ++w) table.left(w + 1);
    const std::string title = heading(sets[i]);
    std::size_t n = 0;
    for (; i < sets.size() && heading(sets[i]) == title; ++i) {
      std::vector<std::string> cells{fmt::format("{}", ++n)};
      for (const auto& word : words) {
        const auto value = word_of(sets[i], word);
        cells.push_back(value.empty() ? "?" : value);
      }
      cells.push_back(grouped(sets[i].rows.size()));
      table.row(cells);
    }
    out += "  " + title + "\n" + table.text();
  }
  return out;
}

std::string quoted(const std::string& cell) {
  if (cell.find_first_of(",\"") == std::string::npos) return cell;
  std::string out = "\"";
  for (const char c : cell) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

}  // namespace

std::string render_imports(const std::vector<ImportedFile>& files) {
  std::string out;
  for (const auto& file : files) {
    const auto& import = file.import;
    out += fmt::format("{}{}\n  {} rows read, {} in {} sets", out.empty() ? "" : "\n", file.path,
                       grouped(import.rows_read), grouped(rows_of(import)), import.sets.size());
    if (import.rows_averaged > 0)
      out += fmt::format(", {} averaged into a row of their shape", grouped(import.rows_averaged));
    out += "\n" + sets_text(import.sets);
    if (!import.rejected.empty()) {
      out += "  left out\n";
      for (const auto& r : import.rejected)
        out += wrapped(fmt::format("{}  {} (line {}, column {})", grouped(r.rows), r.reason,
                                   r.where.line, r.where.column),
                       4);
    }
    for (const auto& note : import.notes) out += wrapped("note: " + note, 2);
  }
  std::size_t read = 0, kept = 0;
  for (const auto& file : files) read += file.import.rows_read, kept += rows_of(file.import);
  if (files.size() > 1)
    out += fmt::format("\n{} files, {} rows read, {} kept\n", files.size(), grouped(read),
                       grouped(kept));
  return out;
}

std::string imports_to_json(const std::vector<ImportedFile>& files) {
  Json out;
  out["schema"] = 1;
  out["files"] = Json::array();
  for (const auto& file : files) {
    const auto& import = file.import;
    Json one = {{"path", file.path},
                {"rows_read", import.rows_read},
                {"rows_kept", rows_of(import)},
                {"rows_averaged", import.rows_averaged}};
    one["sets"] = Json::array();
    for (const auto& set : import.sets) {
      Json s = {{"class", set.kernel_class}, {"engine", set.engine},
                {"version", set.version},    {"gpu", set.gpu},
                {"words", Json::object()},   {"source", set.source},
                {"rows", set.rows.size()}};
      for (const auto& [word, value] : set.words) s["words"][word] = value;
      one["sets"].push_back(s);
    }
    one["left_out"] = Json::array();
    for (const auto& r : import.rejected)
      one["left_out"].push_back({{"reason", r.reason},
                                 {"rows", r.rows},
                                 {"line", r.where.line},
                                 {"column", r.where.column},
                                 {"text", r.where.source->text}});
    one["notes"] = import.notes;
    out["files"].push_back(one);
  }
  // A bad line need not be UTF-8.
  return out.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

void write_imports(const std::vector<ImportedFile>& files,
                   const std::function<void(std::string_view)>& write) {
  std::vector<std::string> words, axes;
  const auto add = [](std::vector<std::string>& list, const std::string& name) {
    if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
  };
  for (const auto& file : files)
    for (const auto& set : file.import.sets) {
      for (const auto& word : kind_of(set).words) add(words, word);
      for (const auto& axis : kind_of(set).axes) add(axes, axis.column);
    }
  std::string part = "class,engine,version,gpu";
  for (const auto& word : words) part += "," + word;
  for (const auto& axis : axes) part += "," + axis;
  part += ",time_us,source\n";
  for (const auto& file : files)
    for (const auto& set : file.import.sets) {
      std::string head = fmt::format("{},{},{},{}", set.kernel_class, quoted(set.engine),
                                     quoted(set.version), quoted(set.gpu));
      for (const auto& word : words) head += "," + quoted(word_of(set, word));
      // which coordinate of the class each axis column is; -1 for one of another class
      std::vector<int> place;
      for (const auto& axis : axes) {
        const auto& own = kind_of(set).axes;
        const auto it = std::find_if(own.begin(), own.end(),
                                     [&](const KernelAxis& a) { return a.column == axis; });
        place.push_back(it == own.end() ? -1 : static_cast<int>(it - own.begin()));
      }
      const std::string tail = "," + quoted(set.source) + "\n";
      for (const auto& row : set.rows) {
        part += head;
        for (const int i : place) {
          part += ',';
          if (i >= 0)
            fmt::format_to(std::back_inserter(part), "{}", row.x[static_cast<std::size_t>(i)]);
        }
        fmt::format_to(std::back_inserter(part), ",{}", row.time_us);
        part += tail;
        if (part.size() > (1 << 16)) write(part), part.clear();
      }
    }
  write(part);
}
