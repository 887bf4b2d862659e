#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/cost/kernel_class.hpp"
#include "sim/base/diagnostics.hpp"

/// One measured time of one shape; `x` in the order of the class's axes.
struct KernelRow {
  Coordinates x{};
  double time_us = 0;
  int line = 0;  // of its file
};

/// Rows that one model covers: same class, engine, version and words (back end, precision, ...).
/// A word that neither the file nor its manifest states is absent from `words`.
struct KernelRows {
  std::string kernel_class;
  std::string engine, version;
  std::map<std::string, std::string> words;
  std::string source;           // file name, repository and commit, for people
  std::vector<KernelRow> rows;  // in the order of their shapes, no shape twice
  std::string gpu;              // as the source names it ("h200_sxm"); empty where it does not say
};

/// Rows left out, by reason, with one example each.
struct Rejected {
  std::string reason;
  std::size_t rows = 0;
  std::string first;  // "file:line:column: the line"
  Location where;     // the same place, for a diagnostic
};

/// What one file holds. The order of the file's rows decides nothing: sets are in the order of
/// their words. rows_read = rows of the sets + rows_averaged + rows left out.
struct KernelImport {
  std::vector<KernelRows> sets;
  std::vector<Rejected> rejected;  // in the order of their reasons
  std::size_t rows_read = 0;
  std::size_t rows_averaged = 0;   // repeats of a shape that went into its mean
  std::vector<std::string> notes;  // what the file does not say
};

/// Reads one table in aiconfigurator's form, plain or gz: `<op>__<engine>_<version>.csv[.gz]`.
/// Constant columns come from a `manifest.json` beside or above it, when there is one. Errors
/// (file, line, column) refuse the file: an unknown table, missing columns, times in another unit,
/// no usable row. Single bad rows are left out and counted.
Expected<KernelImport> import_aiconfigurator(const std::string& path);

/// Reads a layer profile in LLMServingSim's form, flattened to one CSV: GPU, model, tensor
/// parallelism, table (dense, per_sequence, attention, moe), layer, sizes and `time_us`. The name
/// of the file ends in the engine and its version, `..._vllm019_profile.csv[.gz]`. Dense layers
/// become rows of gemm with the shapes of the models' configurations, attention becomes
/// mixed_attention; layers that no class covers are left out and counted.
Expected<KernelImport> import_llmservingsim(const std::string& path);

/// Whether the name of the file is that of a table some class is measured by: "gemm__...".
bool is_kernel_table(const std::string& path);
