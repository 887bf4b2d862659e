#include "models/cost/kernel_tables.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <tuple>

#include <fmt/format.h>

namespace {

// "0.5.6.post2" -> 0 5 6 2; "1.3.0rc20" -> 1 3 0 20
std::vector<double> numbers(const std::string& version) {
  std::vector<double> out;
  for (std::size_t i = 0; i < version.size();) {
    if (!std::isdigit(static_cast<unsigned char>(version[i]))) {
      ++i;
      continue;
    }
    double value = 0;
    for (; i < version.size() && std::isdigit(static_cast<unsigned char>(version[i])); ++i)
      value = value * 10 + (version[i] - '0');
    out.push_back(value);
  }
  return out;
}

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

double version_distance(const std::string& a, const std::string& b) {
  const auto x = numbers(a), y = numbers(b);
  double scale = 1e9;
  for (std::size_t i = 0; i < std::max(x.size(), y.size()); ++i) {
    const double p = i < x.size() ? x[i] : 0, q = i < y.size() ? y[i] : 0;
    // held below the step before, so that a date does not outweigh it
    if (p != q) return std::min(std::abs(p - q), 999.0) * scale;
    scale /= 1000;
  }
  return a == b ? 0 : 1e-9;
}

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
