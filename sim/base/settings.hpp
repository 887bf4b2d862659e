#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/diagnostics.hpp"
#include "sim/base/provenance.hpp"
#include "sim/base/units.hpp"

/// A tree of values in which each remembers where it was written. YAML files and `--set` arguments
/// both become one, so that a scheduler or a cost model reads its own options without knowing YAML.
/// Copies share what stands below until one of them changes it: a copy costs no more than its root.
/// A change ends references into the tree.
class Settings {
 public:
  enum class Kind { null, scalar, sequence, map };
  struct Entry;

  Settings() = default;
  static Settings null(Location where);
  static Settings scalar(std::string text, Location where);
  static Settings sequence(std::vector<Settings> items, Location where);
  static Settings map(std::vector<Entry> entries, Location where);

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::null; }
  bool is_scalar() const { return kind_ == Kind::scalar; }
  bool is_map() const { return kind_ == Kind::map; }
  bool is_sequence() const { return kind_ == Kind::sequence; }
  const std::string& text() const { return text_; }
  const std::vector<Settings>& items() const;
  const std::vector<Entry>& entries() const;
  const Location& where() const { return where_; }
  /// Whether this is `other` or a copy, neither changed since. Equal texts read twice are not.
  bool shares_all_with(const Settings& other) const;

  /// The value under `key` of a map; null when this is no map or has no such key.
  const Settings* find(std::string_view key) const;
  /// The value at a dotted path ("engine.cuda_graph", "links.3.bandwidth"); null when there is
  /// none.
  const Settings* at(std::string_view path) const;
  /// Puts `value` at a dotted path, replacing what stands there and making maps on the way.
  void set(std::string_view path, Settings value);
  /// As `set`, but for each leaf of `overlay`: maps merge, everything else replaces.
  void merge(const Settings& overlay);
  void remove(std::string_view key);

 private:
  Kind kind_ = Kind::null;
  std::string text_;
  std::shared_ptr<const std::vector<Settings>> items_;  // null: none
  std::shared_ptr<const std::vector<Entry>> entries_;   // null: none
  Location where_;
};

struct Settings::Entry {
  std::string key;
  Location where;
  Settings value;
};

/// One value as it was used: its path, its text, and where it came from ("default" when nobody
/// wrote it).
struct ResolvedValue {
  std::string path;
  std::string value;
  std::string origin;
};

/// What the readers of one input found: everything that is wrong, and every value that was used.
struct Reading {
  Diagnostics errors;
  std::vector<ResolvedValue> values;
  bool wants_values = true;
};

std::string text(bool b);
std::string text(int n);
std::string text(std::int64_t n);
std::string text(double d);
std::string text(const std::string& s);
std::string text(Tokens t);
std::string text(PerSecond r);
std::string text(FlopsPerSecond r);
std::string text(TokensPerSecond r);

/// A rule on a value: empty when it holds, else what is wrong ("must be positive").
template <class T>
using Check = std::function<std::string(const T&)>;

template <class T>
Check<T> at_least(T least) {
  return
      [least](const T& v) { return v < least ? "must be at least " + text(least) : std::string(); };
}
template <class T>
Check<T> positive() {
  return [](const T& v) { return v > T{} ? std::string() : "must be greater than zero"; };
}
template <class T>
Check<T> between(T least, T most) {
  return [=](const T& v) {
    return v < least || v > most ? "must lie between " + text(least) + " and " + text(most)
                                 : std::string();
  };
}

/// Ranges that no real box leaves; inside them the arithmetic of a run stays in range.
Check<Duration> plausible_time();             // of one kernel, hop or host operation: 0 to 100 ms
Check<BytesPerSecond> plausible_bandwidth();  // 1 MB/s to 1 PB/s
Check<FlopsPerSecond> plausible_peak();       // 1 GFLOP/s to 1 ZFLOP/s

/// Reads one map of a settings tree. Each getter notes what is wrong and goes on with a default
/// value; a key that nobody asked for is an error when the section ends its life. With errors
/// noted, what was read must not be used.
class Section {
 public:
  /// `what` names the section in messages ("engine"); a null node reads as an empty map. The node
  /// must outlive the section.
  Section(const Settings& node, std::string what, Reading& reading);
  Section(Settings&&, std::string, Reading&) = delete;
  /// As above for a node that may be absent.
  Section(const Settings* node, std::string what, Reading& reading);
  ~Section();
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;

  bool has(std::string_view key) const { return node_->find(key) != nullptr; }
  const std::string& path() const { return what_; }
  const Settings& node() const { return *node_; }
  Reading& reading() { return *reading_; }
  /// The place of `key`, or of the section when it has no such key.
  Location where(std::string_view key) const;
  void error(std::string_view key, std::string message, std::string hint = {});

  template <class T>
  std::optional<T> maybe(const std::string& key, const Check<T>& check = {}) {
    const Settings* value = take(key);
    if (!value) return std::nullopt;
    return convert<T>(key, *value, check);
  }
  template <class T>
  T optional(const std::string& key, T fallback, const Check<T>& check = {}) {
    if (!has(key)) return note_default(key, text(fallback)), asked_.push_back(key), fallback;
    return maybe<T>(key, check).value_or(fallback);
  }
  template <class T>
  T required(const std::string& key, const Check<T>& check = {}) {
    if (!has(key)) return missing(key), T{};
    return maybe<T>(key, check).value_or(T{});
  }
  /// One of a few words.
  std::string word(const std::string& key, const std::vector<std::string>& allowed,
                   std::optional<std::string> fallback = std::nullopt);
  std::vector<std::string> words(const std::string& key);

  /// A number with its provenance: either a map {value, basis, spread, source, fitted_on} or a
  /// bare value, which takes the section's own `basis` and `source`.
  template <class T>
  Constant<T> constant(const std::string& key, std::optional<T> fallback = std::nullopt,
                       const Check<T>& check = {}) {
    Constant<T> out = section_default<T>();
    const Settings* value = take(key);
    if (!value) {
      if (!fallback)
        missing(key);
      else
        out.value = *fallback, note_default(key, text(*fallback));
      return out;
    }
    if (!value->is_map()) {
      out.value = convert<T>(key, *value, check).value_or(T{});
      return out;
    }
    Section inner(*value, what_ + "." + key, *reading_);
    out.value = inner.required<T>("value", check);
    out.basis = inner.basis("basis", out.basis);
    out.spread = inner.maybe<double>("spread", between(1.0, 100.0)).value_or(1.0);
    out.label = inner.maybe<std::string>("label").value_or(key);
    out.source = inner.maybe<std::string>("source").value_or(out.source);
    out.fitted_on = inner.words("fitted_on");
    return out;
  }

  /// The node under `key` as it stands, for a reader of its own; null when absent.
  const Settings* take(const std::string& key);
  /// As take, with an error when it is absent.
  const Settings* take_required(const std::string& key);
  /// Says that all keys are somebody else's business.
  void ignore_rest() { ignore_rest_ = true; }

 private:
  template <class T>
  std::optional<T> convert(const std::string& key, const Settings& value, const Check<T>& check) {
    if (!value.is_scalar()) return not_a_scalar(key, value), std::nullopt;
    auto parsed = parse<T>(value.text());
    if (!parsed) return bad_value(key, value, parsed.error()), std::nullopt;
    if (check)
      if (auto wrong = check(*parsed); !wrong.empty())
        return bad_value(key, value, {"'" + value.text() + "' " + wrong, ""}), std::nullopt;
    note(key, value);
    return *parsed;
  }
  template <class T>
  Constant<T> section_default() {
    Constant<T> out;
    out.basis = basis("basis", Provenance::stated);
    out.source = source();
    return out;
  }
  Provenance basis(const std::string& key, Provenance fallback);
  std::string source();
  void note(const std::string& key, const Settings& value);
  void note_default(const std::string& key, std::string value);
  void missing(const std::string& key);
  void not_a_scalar(const std::string& key, const Settings& value);
  void bad_value(const std::string& key, const Settings& value, const ParseError& error);

  const Settings* node_;
  std::string what_;
  Reading* reading_;
  std::vector<std::string> asked_;
  bool ignore_rest_ = false;
  bool broken_ = false;  // not a map: said once, nothing is missed in it
};
