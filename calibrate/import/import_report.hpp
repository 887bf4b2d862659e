#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/import/kernel_rows.hpp"

/// One file and what was read from it.
struct ImportedFile {
  std::string path;
  KernelImport import;
};

/// Per file: sets with their words and rows, rows left out by reason with the first place.
std::string render_imports(const std::vector<ImportedFile>& files);
/// The same with every field, as {schema, files}.
std::string imports_to_json(const std::vector<ImportedFile>& files);

/// All rows as one CSV, part by part: class, engine, version, gpu, every word and every axis that a
/// class among them has (empty where unknown or of another class), time_us, source. Numbers read
/// back as they were.
void write_imports(const std::vector<ImportedFile>& files,
                   const std::function<void(std::string_view)>& write);
