#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/base/settings.hpp"

/// One measured value that a scenario expects: `within` absent means recorded, not judged.
/// `left_out` says why it counts in no statistic; empty when it does.
struct Expectation {
  std::string metric;
  double value = 0;
  std::optional<double> within;
  std::string source, left_out;
};

/// A change on the command line: "engine.cuda_graph=on".
struct Override {
  std::string path, value;
};

/// Splits "path=value"; empty when there is no '='.
std::optional<Override> parse_override(const std::string& text);

/// One run of a scenario file: the file itself, or one entry of its `points:`.
struct Scenario {
  std::string file;  // as given
  std::string name;  // the file's stem, with the point's name or number
  Settings tree;     // the scenario after the point's changes and --set
  std::vector<Expectation> expect;
  std::vector<ResolvedValue> changes;  // what point and --set changed, for people
};

/// Reads a scenario file into its runs. Overrides apply to every run.
Expected<std::vector<Scenario>> load_scenarios(const std::string& path,
                                               const std::vector<Override>& overrides);
