#include "sim/scenario/scenario.hpp"

#include <filesystem>

#include <fmt/format.h>

#include "sim/metrics/metrics.hpp"
#include "sim/scenario/yaml.hpp"

std::optional<Override> parse_override(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return std::nullopt;
  return Override{text.substr(0, equals), text.substr(equals + 1)};
}

namespace {

// The value of a metric in the unit of its name: tok/s, /s, milliseconds, seconds, a count.
std::optional<double> metric_value(Section& s, const std::string& metric) {
  if (metric == "request_throughput") {
    const auto v = s.required<PerSecond>("value", positive<PerSecond>());
    return v.count();
  }
  if (metric.find("throughput") != std::string::npos)
    return s.required<TokensPerSecond>("value", positive<TokensPerSecond>()).count();
  if (metric.find("_ms") != std::string::npos)
    return s.required<Duration>("value", positive<Duration>()).ms();
  if (metric.ends_with("_s")) return s.required<Duration>("value", positive<Duration>()).seconds();
  return s.required<double>("value");
}

std::vector<Expectation> read_expect(const Settings* node, Reading& reading) {
  std::vector<Expectation> out;
  if (!node) return out;
  if (!node->is_map()) {
    reading.errors.error(node->where(), "expect must map metrics to values");
    return out;
  }
  const auto known = metric_names();
  for (const auto& entry : node->entries()) {
    if (std::find(known.begin(), known.end(), entry.key) == known.end()) {
      reading.errors.error(entry.where, fmt::format("unknown metric '{}'", entry.key),
                           suggestion(entry.key, known));
      continue;
    }
    // "output_throughput: 196 tok/s" is short for a map with nothing but the value.
    const bool bare = entry.value.is_scalar();
    const Settings value =
        bare ? Settings::map({{"value", entry.where, entry.value}}, entry.where) : entry.value;
    Section s(value, "expect." + entry.key, reading);
    Expectation e;
    e.metric = entry.key;
    e.value = metric_value(s, entry.key).value_or(0);
    e.within = s.maybe<double>("within", positive<double>());
    e.source = s.optional<std::string>("source", "");
    e.left_out = s.optional<std::string>("left_out", "");
    out.push_back(std::move(e));
  }
  return out;
}

// What follows `constants.` is one key with dots in it: the path of the constant.
void set_constant(Settings& tree, const std::string& key, const Settings& value) {
  const Settings* constants = tree.find("constants");
  const bool there = constants && constants->is_map();
  auto entries = there ? constants->entries() : std::vector<Settings::Entry>();
  std::erase_if(entries, [&](const auto& entry) { return entry.key == key; });
  entries.push_back({key, value.where(), value});
  tree.set("constants", Settings::map(std::move(entries), value.where()));
}

void apply(Scenario& scenario, const std::string& path, const Settings& value) {
  constexpr std::string_view constants = "constants.";
  if (path.starts_with(constants) && path.size() > constants.size())
    set_constant(scenario.tree, path.substr(constants.size()), value);
  else
    scenario.tree.set(path, value);
  scenario.changes.push_back(
      {path, value.is_scalar() ? value.text() : "...", value.where().text()});
}

}  // namespace

Expected<std::vector<Scenario>> load_scenarios(const std::string& path,
                                               const std::vector<Override>& overrides) {
  auto loaded = load_yaml(path, {});
  if (!loaded) return tl::unexpected(loaded.error());
  Reading reading;
  if (!loaded->is_map()) {
    reading.errors.error(loaded->where(), "a scenario is a map of keys and values",
                         "see scenarios/seed/64-at-16.yaml");
    return tl::unexpected(reading.errors);
  }
  const std::vector<std::string> keys = {"schema",        "name",      "machine", "model",
                                         "engine",        "workload",  "expect",  "points",
                                         "machine_edits", "constants", "note"};
  for (const auto& entry : loaded->entries())
    if (std::find(keys.begin(), keys.end(), entry.key) == keys.end())
      reading.errors.error(entry.where, fmt::format("unknown key '{}' in the scenario", entry.key),
                           suggestion(entry.key, keys));

  Scenario base;
  base.file = path;
  const std::string stem = std::filesystem::path(path).stem().string();
  base.name = stem;
  if (const Settings* name = loaded->find("name"); name && name->is_scalar())
    base.name += fmt::format(" [{}]", name->text());
  base.tree = *loaded;
  base.tree.remove("points");
  const Settings* expect = loaded->find("expect");
  base.expect = read_expect(expect, reading);
  base.tree.remove("expect");

  std::vector<Scenario> out = {base};
  if (const Settings* points = loaded->find("points")) {
    if (!points->is_sequence()) reading.errors.error(points->where(), "points must be a list");
    int number = 1;
    for (const auto& point : points->items()) {
      Scenario one = base;
      one.expect.clear();
      one.name = fmt::format("{} [{}]", stem, ++number);
      if (!point.is_map()) reading.errors.error(point.where(), "a point maps paths to values");
      for (const auto& entry : point.entries()) {
        const std::string root = entry.key.substr(0, entry.key.find('.'));
        if (entry.key == "name")
          one.name = fmt::format("{} [{}]", stem, entry.value.text());
        else if (entry.key == "expect")
          one.expect = read_expect(&entry.value, reading);
        else if (root == "points" || std::find(keys.begin(), keys.end(), root) == keys.end())
          reading.errors.error(entry.where, fmt::format("unknown path '{}' in a point", entry.key),
                               suggestion(root, keys));
        else
          apply(one, entry.key, entry.value);
      }
      out.push_back(std::move(one));
    }
  }
  for (const auto& change : overrides) {
    const std::string source = "--set " + change.path + "=" + change.value;
    auto value = parse_yaml(source, change.value);
    if (!value) {
      reading.errors.append(value.error());
      continue;
    }
    // A single value stands on the command line, not in a line and column of it.
    if (value->is_scalar())
      value = Settings::scalar(value->text(), {std::make_shared<Source>(Source{source, ""}), 0, 0});
    const std::string root = change.path.substr(0, change.path.find('.'));
    if (root == "expect" || root == "points" ||
        std::find(keys.begin(), keys.end(), root) == keys.end()) {
      reading.errors.error(value->where(), fmt::format("nothing to set at '{}'", change.path),
                           suggestion(root, keys));
      continue;
    }
    for (auto& scenario : out) apply(scenario, change.path, *value);
  }
  if (!reading.errors.empty()) return tl::unexpected(reading.errors);
  return out;
}
