#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/import/step_lattice.hpp"

/// Measured time of steps of one kind, and what somebody predicted for the same steps.
struct StepTimes {
  std::int64_t least = 0, most = 0;  // decoded sequences, or prompt tokens
  std::size_t steps = 0;
  double measured_ms = 0;              // mean
  double sequences = 0, context = 0;   // means over these steps
  std::optional<double> predicted_ms;  // mean
};

struct StepTables {
  std::vector<StepTimes> decode;               // by decoded sequences
  std::vector<StepTimes> prefill;              // by prompt tokens
  std::size_t after_idle = 0, incomplete = 0;  // in no table
  std::size_t mixed_up = 0;  // among several steps with and without prefill that one time covers
};

/// Predicts one step; nothing where it cannot.
using StepPredictor = std::function<std::optional<double>(const LatticeStep&)>;

/// Sorts steps into tables. A decode step counts where its stretch has no prefill; a step with
/// prefill where its stretch has no other kind, or is the only one of its stretch: then the decode
/// steps around it are taken off at their mean time.
StepTables step_tables(const StepLattice& lattice, const StepPredictor& predict = {});

/// The steps as CSV: step, t_s (its end), dt_s, n_decode, prefill_tokens, sum_context, and whether
/// the time is its own.
std::string steps_csv(const StepLattice& lattice);
