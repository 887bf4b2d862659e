#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

/// The root of the repository: $CEILING_SOURCE, else the current directory.
inline std::filesystem::path repo_root() {
  const char* given = std::getenv("CEILING_SOURCE");
  return given && *given ? std::filesystem::path(given) : std::filesystem::current_path();
}

/// A file of the measured data beside the repository, "data/kernels/...". Nothing, with a warning,
/// where it is absent: a test then returns.
inline std::optional<std::string> shared_file(const std::string& path) {
  const auto file = repo_root().parent_path() / "shared" / path;
  std::error_code code;
  if (std::filesystem::is_regular_file(file, code)) return file.string();
  WARN("skipped: " << file.string() << " is not here");
  return std::nullopt;
}

/// All files of one ending in and below a folder of the repository, in order.
inline std::vector<std::string> repo_files(const std::string& folder, const std::string& ending) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(repo_root() / folder))
    if (entry.path().extension() == ending) out.push_back(entry.path().string());
  std::sort(out.begin(), out.end());
  return out;
}
