#pragma once

#include "sim/cli/command.hpp"

/// One form of measurements that `ceiling import` reads, in one file: a word below the command.
/// `setup` declares its options and returns what to do once they are parsed.
struct ImportCommand {
  std::string help, example;
  std::function<Exit()> (*setup)(CommandLine& line);
};
