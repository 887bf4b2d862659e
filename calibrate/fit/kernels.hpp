#pragma once

#include <functional>

#include "calibrate/import/kernel_rows.hpp"
#include "models/cost/kernel_table.hpp"

/// How closely a table follows its rows, which is what decides its size.
struct KernelFitOptions {
  double shape_tolerance = 0;    // a shape is dropped when its neighbours give it this well
  std::size_t columns_max = 28;  // of a curve
  /// Every measured column, and thousandths for up to 20,000 cells: for profiles of few layers,
  /// whose jumps (a GEMM's kernel at 33 rows) are the point of them.
  bool whole_curves = false;
  int folds = 8;  // of the cross-validation by whole shapes; 0: none
};

/// Errors of a set of predictions, absolute and relative.
struct KernelErrors {
  std::string kernel_class, engine, version;
  std::map<std::string, std::string> words;
  std::size_t points = 0;
  double median = 0, p90 = 0, worst = 0;
  std::string worst_shape;
};

/// The law's parameters for the rows: least squares of log(law / time) with outliers held down.
std::vector<double> fit_law(const KernelRows& rows, const GpuSpec& gpu);

/// Law and table for the rows. `cross_errors` (optional) receives one error per row, predicted
/// without its whole shape.
/// `siblings`: sets that differ from it in one word; they help with holes, not with the errors.
KernelSet fit_kernel_set(const KernelRows& rows, const GpuSpec& gpu,
                         const KernelFitOptions& options, std::vector<double>* cross_errors,
                         const std::vector<const KernelRows*>& siblings = {});

/// The sets of `all` that were measured like `rows` but for one word: another routing, another
/// element type. Those of another GPU count, engine or back end are other kernels.
std::vector<const KernelRows*> siblings_of(const KernelRows& rows,
                                           const std::vector<KernelRows>& all);

/// Errors of one set by what is judged apart: the experts of a decode batch (up to 256 tokens) and
/// of prefill are two different kernels in all but name. `errors`: one per row.
struct JudgedPart {
  std::string name;
  std::vector<double> errors;
};
std::vector<JudgedPart> judged_parts(const KernelRows& rows, const std::vector<double>& errors);
/// The name of the part that a row belongs to: "gemm", "moe_decode".
std::string judged_name(const std::string& kernel_class, const Coordinates& x);

KernelErrors summarise(std::vector<double> errors);
