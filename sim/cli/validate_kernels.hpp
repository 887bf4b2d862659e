#pragma once

#include "sim/cli/command.hpp"

/// `ceiling validate --kernel-table FILE... --gpu NAME`: the fitted tables of a GPU against
/// measured rows, per class and engine version.
Exit validate_kernels(const std::vector<std::string>& files, const std::string& gpu,
                      const std::string& format);
