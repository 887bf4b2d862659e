#include "sim/scenario/yaml.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

namespace {

class Converter {
 public:
  Converter(std::shared_ptr<const Source> source, Diagnostics& errors)
      : source_(std::move(source)), errors_(errors) {}

  Settings convert(const YAML::Node& node, int depth = 0) {
    const Location where = place(node.Mark());
    if (++nodes_ > 200'000 || depth > 64) {
      if (!too_large_) errors_.error(where, "the file is too large or too deeply nested");
      too_large_ = true;
      return Settings::null(where);
    }
    switch (node.Type()) {
      case YAML::NodeType::Scalar:
        return Settings::scalar(node.Scalar(), where);
      case YAML::NodeType::Sequence: {
        std::vector<Settings> items;
        for (const auto& item : node) items.push_back(convert(item, depth + 1));
        return Settings::sequence(std::move(items), where);
      }
      case YAML::NodeType::Map: {
        std::vector<Settings::Entry> entries;
        std::set<std::string> seen;
        for (const auto& pair : node) {
          const Location at = place(pair.first.Mark());
          if (!pair.first.IsScalar()) {
            errors_.error(at, "a key must be a single word");
            continue;
          }
          const std::string key = pair.first.Scalar();
          if (!seen.insert(key).second) {
            errors_.error(at, fmt::format("key '{}' appears twice", key), "remove one of them");
            continue;
          }
          // An empty value has no place of its own (the parser says: the end of the file).
          entries.push_back(
              {key, at,
               pair.second.IsNull() ? Settings::null(at) : convert(pair.second, depth + 1)});
        }
        return Settings::map(std::move(entries), where);
      }
      default:
        return Settings::null(where);
    }
  }

  Location place(const YAML::Mark& mark) const {
    return {source_, mark.is_null() ? 0 : mark.line + 1, mark.is_null() ? 0 : mark.column + 1};
  }

 private:
  std::shared_ptr<const Source> source_;
  Diagnostics& errors_;
  int nodes_ = 0;
  bool too_large_ = false;
};

/// Remembers where the last document began and passes over the rest.
class DocumentStart final : public YAML::EventHandler {
 public:
  YAML::Mark mark = YAML::Mark::null_mark();

  void OnDocumentStart(const YAML::Mark& at) override { mark = at; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

}  // namespace

Expected<Settings> parse_yaml(std::string name, std::string text) {
  const auto source = std::make_shared<Source>(Source{std::move(name), std::move(text)});
  Diagnostics errors;
  Converter converter(source, errors);
  try {
    // Not YAML::LoadAll: where a document starts with a comma it makes empty ones until the memory
    // is full. Two are enough to know.
    std::istringstream in(source->text);
    YAML::Parser parser(in);
    DocumentStart start;
    const bool any = parser.HandleNextDocument(start);
    if (any && parser.HandleNextDocument(start)) {
      const auto at = static_cast<std::size_t>(std::max(0, start.mark.pos));
      if (source->text.compare(std::min(at, source->text.size()), 3, "---") == 0)
        errors.error({source, 0, 0}, "the file holds more than one document");
      else
        errors.error(converter.place(start.mark),
                     "this is not YAML: something stands in the way here");
      return tl::unexpected(errors);
    }
    Settings settings =
        any ? converter.convert(YAML::Load(source->text)) : Settings::map({}, {source, 1, 1});
    if (!errors.empty()) return tl::unexpected(errors);
    return settings;
  } catch (const YAML::Exception& e) {
    errors.error(converter.place(e.mark), fmt::format("this is not YAML: {}", e.msg),
                 "look for a bracket, a quote or a colon that is missing here or above");
    return tl::unexpected(errors);
  }
}

Expected<Settings> load_yaml(const std::string& path, const Location& wanted_by) {
  Diagnostics errors;
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code)) {
    std::vector<std::string> neighbours;
    const auto folder = std::filesystem::path(path).parent_path();
    for (const auto& entry :
         std::filesystem::directory_iterator(folder.empty() ? "." : folder, code))
      if (entry.path().extension() == ".yaml")
        neighbours.push_back((folder / entry.path().filename()).string());
    std::sort(neighbours.begin(), neighbours.end());
    const auto near = nearest(path, neighbours);
    errors.error(wanted_by, fmt::format("there is no file '{}'", path),
                 near.empty() ? "paths start at the folder in which the command runs"
                              : fmt::format("did you mean '{}'?", near));
    return tl::unexpected(errors);
  }
  if (std::filesystem::file_size(path, code) > 8'000'000) {
    errors.error(wanted_by, fmt::format("'{}' is larger than 8 MB", path));
    return tl::unexpected(errors);
  }
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) {
    errors.error(wanted_by, fmt::format("cannot read '{}'", path));
    return tl::unexpected(errors);
  }
  return parse_yaml(path, text.str());
}
