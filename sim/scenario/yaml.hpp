#pragma once

#include <string>

#include "sim/base/settings.hpp"

/// Parses YAML into settings with places. Every duplicate key is an error; aliases are followed;
/// merge keys are not. The only user of yaml-cpp.
Expected<Settings> parse_yaml(std::string name, std::string text);

/// Reads a file; a missing or unreadable one is an error at `wanted_by`.
Expected<Settings> load_yaml(const std::string& path, const Location& wanted_by);
