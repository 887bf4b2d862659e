#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/settings.hpp"

/// Lengths that a scenario lists instead of having them drawn: `lengths: [[in, out], ...]` or
/// `file: lengths.csv`, of which the key `count` ("requests") takes the first.
struct GivenLengths {
  std::vector<std::int32_t> input, output;  // of each request; empty after an error

  GivenLengths(Section& s, const char* count);

 private:
  void add(const Settings& pair, Section& s);
};
