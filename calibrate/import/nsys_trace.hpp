#pragma once

#include <string>

#include "calibrate/import/kernel_trace.hpp"

/// Whether the file is an SQLite database, by its first bytes.
bool is_sqlite(const std::string& path);

/// Adds what a database of `nsys export --type sqlite` holds: kernels, copies, fills, whole graphs
/// where they were traced as such, and the host's calls. A GPU is one process on one device.
/// Errors: no database, damaged, no work of a GPU, a table without a column that is needed.
void read_nsys(const std::string& path, KernelTrace& trace, Diagnostics& errors);
