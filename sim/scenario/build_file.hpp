#pragma once

#include "sim/base/settings.hpp"

/// A build's file with what it left out taken from the build that its `like:` names, and so on.
struct BuildFile {
  Settings settings;
  std::vector<std::string> files;  // it and those it is like
  /// What it left open, by the build that filled it, in words: "host, rest of back_ends".
  std::vector<std::pair<std::string, std::string>> filled;
};

/// The builds in hardware/builds that may be for an architecture: those that name it in their file
/// or in one that they are like. Reads text alone, which is ten times faster than loading them.
std::vector<std::string> builds_naming(const std::string& architecture);

/// A build by name in hardware/builds, or by path.
Expected<BuildFile> load_build(const std::string& name, const Location& wanted_by);
