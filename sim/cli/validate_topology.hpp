#pragma once

#include "sim/cli/command.hpp"

/// `ceiling validate --topology PATH...`: predicted transfers beside measured ones, per box and
/// per kind of pattern. Fails where a row misses the bar of its kind.
Exit validate_topologies(const std::vector<std::string>& files, const std::string& format);
