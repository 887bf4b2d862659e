#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/import/kernel_rows.hpp"

/// Rows of one set after a check: those to keep, in the order of their shapes, and the others.
struct CheckedRows {
  std::vector<KernelRow> kept, rejected;
  std::size_t averaged = 0;  // repeats that went into the mean of a kept row
};

/// Sorts rows by shape (the first `axes` coordinates) and makes one of those that repeat a shape:
/// their mean where all lie within 20 % of each other, else none. Clocks were not locked: repeats
/// of the tables differ by 0.5 % (median) to 4.5 % (p90), and one in a hundred by up to 20 %.
CheckedRows merge_repeats(std::vector<KernelRow> rows, std::size_t axes);

/// Takes out rows that stand more than `factor` above both neighbours along the last axis, all
/// other coordinates being equal: no kernel takes three times as long as both a smaller and a
/// larger one. The first and the last row of a curve have one neighbour and stay. `rows`: sorted by
/// shape, no shape twice.
CheckedRows reject_outliers(std::vector<KernelRow> rows, std::size_t axes, double factor = 3);

/// The median of time / law over the rows, the law taken with the guesses of its class for a card
/// of the middle of the field: near 1, whatever the shapes, where the times are in the right unit.
double median_over_law(const KernelClass& kind, const std::vector<KernelRows>& sets);

/// What to say when times that should be in `unit` lie so far from the law that they are not.
struct UnitProblem {
  std::string message, hint;
};
std::optional<UnitProblem> unit_problem(double median_over_law, std::string_view unit);

/// Takes out rows that the card they are said to come from cannot have run: faster than 2.2 times
/// its peak (a kernel listed under one type may compute in the next narrower one, at twice the
/// rate). A set with more than 2 % of such rows was measured wrongly and goes as a whole. Returns
/// how many rows went.
std::size_t drop_faster_than(const GpuSpec& gpu, KernelRows& set);

/// The rows whose arithmetic alone would take the fastest card of 2026 longer, with a margin. None
/// where a word that the bound needs is unknown.
std::vector<KernelRow> beating_any_gpu(const KernelClass& kind, const KernelRows& set);
