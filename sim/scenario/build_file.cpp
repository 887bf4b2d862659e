#include "sim/scenario/build_file.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "sim/scenario/data.hpp"
#include "sim/scenario/yaml.hpp"

namespace {

// Says what a build is, not what it runs: never taken from another.
bool own(const std::string& key) {
  static const std::vector<std::string> keys = {
      "schema", "name",          "source",       "note",      "like",
      "fitted", "known_defects", "kernel_scale", "residuals", "tables_version"};
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

// Sections of keys are filled key by key; a constant stands as a whole, with its own source.
bool has_keys(const Settings& s) { return s.is_map() && !s.find("value"); }

// Returns the paths that `from` filled.
std::vector<std::string> fill(Settings& node, const Settings& from, const std::string& path) {
  std::vector<std::string> filled;
  for (const auto& entry : from.entries()) {
    if (path.empty() && own(entry.key)) continue;
    const std::string at = path.empty() ? entry.key : path + "." + entry.key;
    const Settings* mine = node.find(entry.key);
    if (!mine) {
      node.set(entry.key, entry.value);
      filled.push_back(at);
    } else if (has_keys(*mine) && has_keys(entry.value)) {
      Settings inner = *mine;
      if (!fill(inner, entry.value, at).empty()) {
        node.set(entry.key, std::move(inner));
        filled.push_back("rest of " + at);
      }
    }
  }
  return filled;
}

// Whether the file of a build, or one that it is like, has the word. When in doubt, it does.
bool mentions(std::string name, const std::string& word) {
  for (int depth = 0; depth < 16; ++depth) {
    const auto path = find_data_file("hardware/builds", name, {});
    if (!path) return true;
    std::ifstream in(*path, std::ios::binary);
    std::ostringstream read;
    read << in.rdbuf();
    const std::string text = "\n" + std::move(read).str();
    if (!in || text.find(word) != std::string::npos) return true;
    constexpr std::string_view like = "\nlike:";
    const auto at = text.find(like);
    if (at == std::string::npos) return false;
    const auto begin = text.find_first_not_of(' ', at + like.size());
    name = text.substr(begin, text.find_first_of(" #\r\n", begin) - begin);
  }
  return true;
}

}  // namespace

std::vector<std::string> builds_naming(const std::string& architecture) {
  auto names = data_names("hardware/builds");
  std::erase_if(names, [&](const auto& name) { return !mentions(name, architecture); });
  return names;
}

Expected<BuildFile> load_build(const std::string& first, const Location& wanted_by) {
  BuildFile out;
  std::string name = first;
  Location place = wanted_by;
  while (true) {
    const auto path = find_data_file("hardware/builds", name, place);
    if (!path) return tl::unexpected(path.error());
    if (std::find(out.files.begin(), out.files.end(), *path) != out.files.end()) {
      Diagnostics errors;
      errors.error(place, fmt::format("build '{}' is like itself", name),
                   "let one of them state everything");
      return tl::unexpected(errors);
    }
    auto file = load_yaml(*path, place);
    if (!file) return tl::unexpected(file.error());
    out.files.push_back(*path);
    const Settings* like = file->find("like");
    const std::string next = like && like->is_scalar() ? like->text() : "";
    if (like && next.empty()) {
      Diagnostics errors;
      errors.error(like->where(), "like must name one build");
      return tl::unexpected(errors);
    }
    if (like) place = like->where();
    if (out.files.size() == 1) {
      out.settings = *file;
      out.settings.remove("like");
    } else {
      const auto filled = fill(out.settings, *file, "");
      if (!filled.empty())
        out.filled.emplace_back(name, fmt::format("{}", fmt::join(filled, ", ")));
    }
    if (next.empty()) return out;
    name = next;
  }
}
