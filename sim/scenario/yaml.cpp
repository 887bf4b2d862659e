#include "sim/scenario/yaml.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

namespace {

/// Builds the settings of the first document from the parser's events, and remembers where the last
/// one began. Events and not YAML::Load: one pass instead of two, and no tree between.
class Builder final : public YAML::EventHandler {
 public:
  Builder(std::shared_ptr<const Source> source, Diagnostics& errors)
      : source_(std::move(source)), errors_(errors) {}

  Settings take_root() { return std::move(root_); }
  const YAML::Mark& document_start() const { return document_start_; }

  Location place(const YAML::Mark& mark) const {
    return {source_, mark.is_null() ? 0 : mark.line + 1, mark.is_null() ? 0 : mark.column + 1};
  }

  void OnDocumentStart(const YAML::Mark& at) override {
    document_start_ = at;
    ++documents_;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& at, YAML::anchor_t anchor) override {
    if (grow(1, at)) put(Settings::null(place(at)), anchor);
  }
  void OnScalar(const YAML::Mark& at, const std::string&, YAML::anchor_t anchor,
                const std::string& text) override {
    if (grow(1, at)) put(Settings::scalar(text, place(at)), anchor);
  }
  void OnAlias(const YAML::Mark& at, YAML::anchor_t anchor) override {
    if (!grow(1, at)) return;
    const auto named = anchors_.find(anchor);
    if (named == anchors_.end()) {
      errors_.error(place(at), "this alias stands inside of what it repeats");
      return put(Settings::null(place(at)), YAML::NullAnchor);
    }
    if (const auto [nodes, depth] = extent(named->second); grow(nodes, at, depth))
      put(named->second, YAML::NullAnchor);
  }
  void OnSequenceStart(const YAML::Mark& at, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(Settings::Kind::sequence, at, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& at, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(Settings::Kind::map, at, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  /// A sequence or a map that is not closed yet.
  struct Open {
    Settings::Kind kind;
    Location where;
    YAML::anchor_t anchor;
    std::vector<Settings> items;
    std::vector<Settings::Entry> entries;
    std::set<std::string> seen;
    std::optional<Settings> key;  // once it is read, until its value is
    bool usable = true;           // the key
  };

  /// Whether `nodes` more are taken in: not those of further documents, and not without end.
  bool grow(int nodes, const YAML::Mark& at, std::size_t depth = 0) {
    if (documents_ > 1 || too_large_) return false;
    nodes_ += nodes;
    too_large_ = nodes_ > 200'000 || open_.size() + depth > 64;
    if (too_large_) errors_.error(place(at), "the file is too large or too deeply nested");
    return !too_large_;
  }

  struct Extent {
    int nodes = 1;
    std::size_t depth = 0;
  };
  static Extent extent(const Settings& s) {
    Extent out;
    const auto below = [&out](const Settings& part) {
      const Extent e = extent(part);
      out.nodes += e.nodes;
      out.depth = std::max(out.depth, e.depth + 1);
    };
    for (const auto& item : s.items()) below(item);
    for (const auto& entry : s.entries()) below(entry.value);
    return out;
  }

  void open(Settings::Kind kind, const YAML::Mark& at, YAML::anchor_t anchor) {
    if (grow(1, at)) open_.push_back({kind, place(at), anchor, {}, {}, {}, {}});
  }

  void close() {
    if (documents_ > 1 || too_large_) return;
    Open done = std::move(open_.back());
    open_.pop_back();
    put(done.kind == Settings::Kind::map ? Settings::map(std::move(done.entries), done.where)
                                         : Settings::sequence(std::move(done.items), done.where),
        done.anchor);
  }

  // Puts a finished value where it belongs: the key or the value of a map, an item, the root.
  void put(Settings value, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) anchors_[anchor] = value;
    if (open_.empty()) {
      root_ = std::move(value);
      return;
    }
    Open& in = open_.back();
    if (in.kind == Settings::Kind::sequence) {
      in.items.push_back(std::move(value));
    } else if (!in.key) {
      in.usable = false;
      if (!value.is_scalar())
        errors_.error(value.where(), "a key must be a single word");
      else if (!in.seen.insert(value.text()).second)
        errors_.error(value.where(), fmt::format("key '{}' appears twice", value.text()),
                      "remove one of them");
      else
        in.usable = true;
      in.key = std::move(value);
    } else {
      const Location at = in.key->where();
      // An empty value has no place of its own (the parser says: the end of the file).
      if (in.usable)
        in.entries.push_back(
            {in.key->text(), at, value.is_null() ? Settings::null(at) : std::move(value)});
      in.key.reset();
    }
  }

  std::shared_ptr<const Source> source_;
  Diagnostics& errors_;
  YAML::Mark document_start_ = YAML::Mark::null_mark();
  int documents_ = 0;
  int nodes_ = 0;
  bool too_large_ = false;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Settings> anchors_;
  Settings root_;
};

}  // namespace

Expected<Settings> parse_yaml(std::string name, std::string text) {
  const auto source = std::make_shared<Source>(Source{std::move(name), std::move(text)});
  Diagnostics errors;
  Builder builder(source, errors);
  try {
    // Not until the last document: where one starts with a comma the parser makes empty ones until
    // the memory is full. Two are enough to know.
    std::istringstream in(source->text);
    YAML::Parser parser(in);
    const bool any = parser.HandleNextDocument(builder);
    if (any && parser.HandleNextDocument(builder)) {
      const auto at = static_cast<std::size_t>(std::max(0, builder.document_start().pos));
      if (source->text.compare(std::min(at, source->text.size()), 3, "---") == 0)
        errors.error({source, 0, 0}, "the file holds more than one document");
      else
        errors.error(builder.place(builder.document_start()),
                     "this is not YAML: something stands in the way here");
      return tl::unexpected(errors);
    }
    if (!errors.empty()) return tl::unexpected(errors);
    return any ? builder.take_root() : Settings::map({}, {source, 1, 1});
  } catch (const YAML::Exception& e) {
    errors.error(builder.place(e.mark), fmt::format("this is not YAML: {}", e.msg),
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
