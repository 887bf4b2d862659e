#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hardware/topology/copies.hpp"
#include "sim/base/diagnostics.hpp"

/// Copies of `bytes` each from the text of `--flows`: "0>4, host>3, 3>host, 0<>1" (both ways),
/// "all-to-all", and ranges: "0..3>4..7" pairs up, "0>1..3" is one to each, "1..3>0" each to one,
/// "0..3>>4..7" each to each (to itself excepted).
/// "gpu4" is 4. What is wrong goes to `errors` at `where`, all of it.
std::vector<Copy> parse_copies(const std::string& text, int gpus, Bytes bytes,
                               const Location& where, Diagnostics& errors);
/// The inverse: "0>4,host>3".
std::string text(const std::vector<Copy>& copies);

/// Sizes from the text of `--sizes`: "4KiB, 64KiB" or "512B..512MB", the powers of two between,
/// or both mixed; ascending, none twice.
std::vector<Bytes> parse_sizes(const std::string& text, const Location& where, Diagnostics& errors);
/// The inverse, without loss: "4KiB,1536B".
std::string text(const std::vector<Bytes>& sizes);

/// A GPU by its name in the machine or its number, "host" for Copy::host; nothing after an error.
std::optional<int> parse_end(std::string text, const Topology& topology, const Location& where,
                             Diagnostics& errors);
