#pragma once

#include <string>
#include <vector>

/// Errors of fitted kernel tables on measured rows, absolute fractions.
struct KernelErrorLine {
  std::string kernel_class, engine;
  std::size_t points = 0;
  double median = 0, p90 = 0, worst = 0;
  std::string worst_shape;
};

struct KernelErrorReport {
  std::string gpu;
  std::vector<KernelErrorLine> lines;
  std::vector<std::string> notes;  // rows left out, other versions that stood in
};

std::string render_kernel_errors(const KernelErrorReport& report);
/// {"schema", "gpu", "classes": [{class, engine, points, median_error, ...}], "notes"}
std::string kernel_errors_to_json(const KernelErrorReport& report);
