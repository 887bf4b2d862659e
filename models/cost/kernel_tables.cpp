#include "models/cost/kernel_tables.hpp"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "sim/base/versions.hpp"

namespace {

bool matches(const KernelSet& set, const std::map<std::string, std::string>& words) {
  for (const auto& [word, value] : words) {
    if (value.empty()) continue;
    const auto it = set.words.find(word);
    // a set that does not know the word of its own rows takes any
    if (it != set.words.end() && it->second != "?" && it->second != value) return false;
  }
  return true;
}

}  // namespace

void KernelTables::add(std::vector<KernelSet> sets, const GpuSpec& gpu) {
  for (auto& set : sets) {
    set.prepare(gpu);
    sets_.push_back(std::move(set));
  }
}

TableChoice KernelTables::find(const std::string& kernel_class, const std::string& engine,
                               const std::string& version,
                               const std::map<std::string, std::string>& words) const {
  TableChoice out;
  std::tuple<bool, double, double> best{};
  for (const auto& set : sets_) {
    if (set.kernel_class != kernel_class || !matches(set, words)) continue;
    // among equals the set with more rows: the engine's usual back end
    const std::tuple<bool, double, double> rank{set.engine != engine,
                                                version_distance(set.version, version),
                                                -static_cast<double>(set.rows_measured)};
    if (out.set && rank >= best) continue;
    best = rank;
    out.set = &set;
  }
  if (!out.set) return out;
  out.same_engine = out.set->engine == engine;
  out.same_version = out.same_engine && out.set->version == version;
  if (!out.same_version)
    out.substitution =
        fmt::format("{} {} for {} {}", out.set->engine, out.set->version, engine, version);
  return out;
}
