#pragma once

#include <functional>

#include "sim/cli/command.hpp"

/// What `ceiling fit` can fit, in one file each: `const Registered<FitKind> me("build", {...});`
struct FitKind {
  std::string help, example;
  std::function<Exit()> (*setup)(CommandLine& line);
};
