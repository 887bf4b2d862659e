#pragma once

#include <string>
#include <vector>

#include "calibrate/measure/back_end.hpp"

/// How one kernel did in its self-check.
struct Verdict {
  std::string kernel_class, source, words;  // words: "bfloat16 fp8"
  PointState state = PointState::ok;
  std::string reason;
};

/// Prepares the cheapest point of every kernel of the plan, which compares the kernel with its CPU
/// reference, and measures nothing. In the order of the plan.
std::vector<Verdict> verify_plan(const CalibrationPlan& plan, MeasuringBackEnd& back_end);

/// One line per kernel.
std::string render_verdicts(const std::vector<Verdict>& verdicts);
