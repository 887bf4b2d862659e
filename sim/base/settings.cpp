#include "sim/base/settings.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace {
const Settings nothing;
}

Settings Settings::null(Location where) {
  Settings s;
  s.where_ = std::move(where);
  return s;
}

Settings Settings::scalar(std::string text, Location where) {
  Settings s = null(std::move(where));
  s.kind_ = Kind::scalar;
  s.text_ = std::move(text);
  return s;
}

Settings Settings::sequence(std::vector<Settings> items, Location where) {
  Settings s = null(std::move(where));
  s.kind_ = Kind::sequence;
  s.items_ = std::make_shared<const std::vector<Settings>>(std::move(items));
  return s;
}

Settings Settings::map(std::vector<Entry> entries, Location where) {
  Settings s = null(std::move(where));
  s.kind_ = Kind::map;
  s.entries_ = std::make_shared<const std::vector<Entry>>(std::move(entries));
  return s;
}

const std::vector<Settings>& Settings::items() const {
  static const std::vector<Settings> none;
  return items_ ? *items_ : none;
}

const std::vector<Settings::Entry>& Settings::entries() const {
  static const std::vector<Entry> none;
  return entries_ ? *entries_ : none;
}

bool Settings::shares_all_with(const Settings& other) const {
  return kind_ == other.kind_ && text_ == other.text_ && items_ == other.items_ &&
         entries_ == other.entries_;
}

const Settings* Settings::find(std::string_view key) const {
  for (const auto& entry : entries())
    if (entry.key == key) return &entry.value;
  return nullptr;
}

namespace {

// Splits the first step off a dotted path.
std::string_view step(std::string_view& path) {
  const auto dot = path.find('.');
  const auto first = path.substr(0, dot);
  path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
  return first;
}

// The index that `key` means in a list of `size`; nothing when it means none.
std::optional<std::size_t> index_of(std::string_view key, std::size_t size) {
  const auto n = parse<std::int64_t>(key);
  if (!n || *n < 0 || static_cast<std::size_t>(*n) >= size) return std::nullopt;
  return static_cast<std::size_t>(*n);
}

}  // namespace

const Settings* Settings::at(std::string_view path) const {
  const Settings* node = this;
  while (node && !path.empty()) {
    const auto key = step(path);
    if (node->is_sequence()) {
      const auto i = index_of(key, node->items().size());
      node = i ? &node->items()[*i] : nullptr;
    } else {
      node = node->find(key);
    }
  }
  return node;
}

void Settings::set(std::string_view path, Settings value) {
  const auto key = step(path);
  const auto put = [&](Settings& node) {
    if (path.empty())
      node = std::move(value);
    else
      node.set(path, std::move(value));
  };
  if (is_sequence())
    if (const auto i = index_of(key, items().size())) {
      auto changed = items();
      put(changed[*i]);
      items_ = std::make_shared<const std::vector<Settings>>(std::move(changed));
      return;
    }
  if (!is_map()) {
    kind_ = Kind::map;
    entries_.reset();
    if (!where_.source) where_ = value.where();
  }
  auto changed = entries();
  auto it =
      std::find_if(changed.begin(), changed.end(), [&](const Entry& e) { return e.key == key; });
  if (it == changed.end())
    it = changed.insert(changed.end(), {std::string(key), value.where(), Settings()});
  put(it->value);
  entries_ = std::make_shared<const std::vector<Entry>>(std::move(changed));
}

void Settings::merge(const Settings& overlay) {
  if (!overlay.is_map() || !is_map()) {
    *this = Settings(overlay);
    return;
  }
  auto changed = entries();
  for (const auto& entry : overlay.entries()) {
    auto it = std::find_if(changed.begin(), changed.end(),
                           [&](const Entry& e) { return e.key == entry.key; });
    if (it == changed.end())
      changed.push_back(entry);
    else
      it->value.merge(entry.value);
  }
  entries_ = std::make_shared<const std::vector<Entry>>(std::move(changed));
}

void Settings::remove(std::string_view key) {
  auto changed = entries();
  std::erase_if(changed, [&](const Entry& e) { return e.key == key; });
  entries_ = std::make_shared<const std::vector<Entry>>(std::move(changed));
}

std::string text(bool b) { return b ? "on" : "off"; }
std::string text(int n) { return fmt::format("{}", n); }
std::string text(std::int64_t n) { return fmt::format("{}", n); }
std::string text(double d) { return fmt::format("{:.6g}", d); }
std::string text(const std::string& s) { return s; }
std::string text(Tokens t) { return fmt::format("{}", t.count()); }
std::string text(PerSecond r) {
  return r.count() > 1e300 ? "inf" : fmt::format("{:.6g} /s", r.count());
}
std::string text(FlopsPerSecond r) { return fmt::format("{:.6g} TFLOP/s", r.count() / 1e12); }
std::string text(TokensPerSecond r) { return fmt::format("{:.6g} tok/s", r.count()); }

Check<Duration> plausible_time() { return between(Duration(), Duration::from_seconds(0.1)); }
Check<BytesPerSecond> plausible_bandwidth() {
  return between(BytesPerSecond(1e6), BytesPerSecond(1e15));
}
Check<FlopsPerSecond> plausible_peak() {
  return between(FlopsPerSecond(1e9), FlopsPerSecond(1e21));
}

Section::Section(const Settings& node, std::string what, Reading& reading)
    : node_(&node), what_(std::move(what)), reading_(&reading) {
  if (node.is_map() || node.is_null()) return;
  reading_->errors.error(node.where(), fmt::format("{} must be a map of keys and values", what_));
  node_ = &nothing;
  broken_ = true;
}

Section::Section(const Settings* node, std::string what, Reading& reading)
    : Section(node ? *node : nothing, std::move(what), reading) {}

Section::~Section() {
  if (ignore_rest_) return;
  for (const auto& entry : node_->entries()) {
    if (std::find(asked_.begin(), asked_.end(), entry.key) != asked_.end()) continue;
    std::vector<std::string> open;
    for (const auto& known : asked_)
      if (!has(known)) open.push_back(known);
    auto hint = nearest(entry.key, asked_);
    hint = hint.empty() ? suggestion(entry.key, open) : fmt::format("did you mean '{}'?", hint);
    reading_->errors.error(entry.where, fmt::format("unknown key '{}' in {}", entry.key, what_),
                           hint);
  }
}

Location Section::where(std::string_view key) const {
  const Settings* value = node_->find(key);
  return value ? value->where() : node_->where();
}

void Section::error(std::string_view key, std::string message, std::string hint) {
  reading_->errors.error(where(key), std::move(message), std::move(hint));
}

const Settings* Section::take(const std::string& key) {
  if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) asked_.push_back(key);
  return node_->find(key);
}

const Settings* Section::take_required(const std::string& key) {
  const Settings* value = take(key);
  if (!value) missing(key);
  return value;
}

std::string Section::word(const std::string& key, const std::vector<std::string>& allowed,
                          std::optional<std::string> fallback) {
  if (!has(key)) {
    if (!fallback) return missing(key), std::string();
    asked_.push_back(key);
    note_default(key, *fallback);
    return *fallback;
  }
  const auto value = maybe<std::string>(key);
  if (!value) return fallback.value_or("");
  if (std::find(allowed.begin(), allowed.end(), *value) == allowed.end())
    error(key, fmt::format("'{}' is not a valid {}", *value, key), suggestion(*value, allowed));
  return *value;
}

std::vector<std::string> Section::words(const std::string& key) {
  std::vector<std::string> out;
  const Settings* value = take(key);
  if (!value) return out;
  if (value->is_scalar()) return {value->text()};
  if (!value->is_sequence()) {
    error(key, fmt::format("{} must be a list", key));
    return out;
  }
  for (const auto& item : value->items())
    if (auto one = convert<std::string>(key, item, {})) out.push_back(*one);
  return out;
}

Provenance Section::basis(const std::string& key, Provenance fallback) {
  const Settings* value = take(key);
  if (!value) return fallback;
  if (!parse_provenance(value->text(), fallback))
    error(key, fmt::format("'{}' is not a basis", value->text()),
          suggestion(value->text(), provenance_names()));
  return fallback;
}

std::string Section::source() {
  const Settings* value = take("source");
  return value ? value->text() : std::string();
}

void Section::note(const std::string& key, const Settings& value) {
  if (reading_->wants_values)
    reading_->values.push_back({what_ + "." + key, value.text(), value.where().text()});
}

void Section::note_default(const std::string& key, std::string value) {
  if (reading_->wants_values)
    reading_->values.push_back({what_ + "." + key, std::move(value), "default"});
}

void Section::missing(const std::string& key) {
  if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) asked_.push_back(key);
  if (!broken_) reading_->errors.error(node_->where(), fmt::format("{} needs '{}'", what_, key));
}

void Section::not_a_scalar(const std::string& key, const Settings& value) {
  reading_->errors.error(value.where(), fmt::format("{}.{} must be a single value", what_, key));
}

void Section::bad_value(const std::string& key, const Settings& value, const ParseError& error) {
  reading_->errors.error(value.where(), fmt::format("{}: {}", key, error.message), error.hint);
}
