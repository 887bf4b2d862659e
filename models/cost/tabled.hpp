#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "models/cost/cost_model.hpp"
#include "models/cost/kernel_tables.hpp"

/// What the cost models that answer from fitted tables share (tabled*.cpp).

// Beyond twice the measured range an answer is a guess; half again as much either way.
inline constexpr double extrapolation_error = 0.5;
// Another engine's kernel of the same class: 25 % and more off in decode (GLM-5 on RTX PRO 6000,
// CUTLASS experts for b12x, and the reverse).
inline constexpr double foreign_error = 0.25;
// Kernels of a card that was not measured, from those of its neighbour. Assumed: no such card was
// compared yet.
inline constexpr double scaling_error = 0.25;

/// One fitted set with the last answers, found again by their sizes.
class Tabled {
 public:
  Tabled() = default;
  Tabled(const KernelSet* set, double least_error)
      : set_(set), least_error_(least_error), memory_(set ? 1024 : 0) {}
  explicit operator bool() const { return set_ != nullptr; }
  const KernelSet& set() const { return *set_; }

  TableAnswer answer(const Coordinates& x) const {
    std::uint64_t hash = 0;
    for (std::size_t i = 0; i < set_->kind().axes.size(); ++i)
      hash = (hash ^ static_cast<std::uint64_t>(x[i] * 64)) * 0x9e3779b97f4a7c15U;
    Entry& entry = memory_[hash >> 54];
    if (!entry.used || entry.x != x) entry = {true, x, set_->predict_cold(x.data())};
    return entry.answer;
  }
  Prediction predict(const Coordinates& x, double scale, Duration arithmetic,
                     Duration memory) const {
    TableAnswer a = answer(x);
    ModelQuality quality;
    const bool guess = least_error_ > 0 || a.extrapolated;
    quality.provenance = guess ? Provenance::assumed : a.provenance;
    quality.error = std::max({a.error, a.extrapolated ? extrapolation_error : 0, least_error_});
    return predicted(a.us * scale, arithmetic, memory, quality);
  }

 private:
  struct Entry {
    bool used = false;
    Coordinates x{};
    TableAnswer answer;
  };
  const KernelSet* set_ = nullptr;
  double least_error_ = 0;  // of a table that was measured elsewhere; 0: at home
  mutable std::vector<Entry> memory_;
};

/// Of a precision that nobody measured.
inline Prediction roofline(Duration arithmetic, Duration memory) {
  return {std::max(arithmetic, memory), arithmetic, memory, Provenance::roofline, 1.0};
}

/// What a section says about its table, and the sets of a class that this leaves.
class Choice {
 public:
  Choice(const CostContext& context, Section& s)
      : context_(context),
        engine_(s.optional<std::string>("engine", context.engine)),
        version_(s.optional<std::string>("version", context.version)),
        kernel_source_(s.optional<std::string>("kernel_source", "")),
        scale_(s.constant<double>("scale", 1.0, between(0.01, 100.0)).value) {
    if (!context.tables || context.tables->empty())
      s.error("model",
              fmt::format("no kernel of {} or of a card like it was measured", context.gpu.name),
              "ceiling fit kernels makes tables; else name a law");
  }
  /// The first of the alternatives that the engine itself was measured with, else the first that
  /// any engine was.
  Tabled find(const std::string& kernel_class,
              std::vector<std::map<std::string, std::string>> alternatives) const {
    if (!context_.tables) return {};
    TableChoice choice;
    for (auto& words : alternatives) {
      words["kernel_source"] = kernel_source_;
      const auto found = context_.tables->find(kernel_class, engine_, version_, words);
      if (found.set && (!choice.set || (found.same_engine && !choice.same_engine))) choice = found;
    }
    if (!choice.set) return {};
    used_ += (used_.empty() ? "" : "; ") + choice.set->engine + " " + choice.set->version;
    for (const auto& [word, value] : choice.set->words)
      if (value != "?") used_ += " " + value;
    if (context_.scaled) used_ += " (measured on another card and scaled)";
    double least_error = context_.scaled ? scaling_error : 0;
    if (!choice.same_engine) {
      used_ += fmt::format(" (of another engine: {} was not measured)", engine_);
      least_error = std::max(least_error, foreign_error);
    } else if (!choice.same_version) {
      used_ += fmt::format(" (nearest to {})", version_);
    }
    return {choice.set, least_error};
  }
  /// The sets that `find` chose, for people.
  const std::string& used() const { return used_; }
  double scale() const { return scale_; }

 private:
  CostContext context_;
  std::string engine_, version_, kernel_source_;
  double scale_;
  mutable std::string used_;
};

/// Names of a KV precision in the tables.
inline std::string kv_name(Precision p) { return p == Precision::bf16 ? "bfloat16" : "fp8"; }
