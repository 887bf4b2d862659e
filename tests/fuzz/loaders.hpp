#pragma once

#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "calibrate/import/bench_results.hpp"
#include "sim/scenario/experiment.hpp"
#include "sim/scenario/launch_command.hpp"
#include "sim/workload/trace_file.hpp"

/// What the fuzzers feed, and what the unit tests feed with the kept corpus. Whatever the bytes,
/// each ends in a value or in diagnostics with words in them. `file` is a path to write to.
namespace fuzz {

inline void write(const std::string& file, std::string_view bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

template <class T>
bool fine(const Expected<T>& got) {
  if (!got && got.error().render().empty()) throw std::logic_error("an error without words");
  return got.has_value();
}

/// Reads all that a scenario means; says whether it came to experiments.
inline bool read_scenario(const std::string& file) {
  const auto scenarios = load_scenarios(file, {});
  if (!fine(scenarios)) return false;
  bool all = true;
  for (const auto& one : *scenarios) {
    const auto inputs = resolve(one);
    all &= fine(inputs) && fine(Experiment::make(*inputs));
  }
  return all;
}

inline bool scenario(std::string_view bytes, const std::string& file) {
  write(file, bytes);
  return read_scenario(file);
}

/// The first byte chooses the format.
inline bool trace(std::string_view bytes, const std::string& file) {
  if (bytes.empty()) return false;
  const auto& formats = trace_formats();
  const auto which = static_cast<unsigned char>(bytes[0]) % (formats.size() + 1);
  write(file, bytes.substr(1));
  return which == formats.size() ? fine(read_lengths(file))
                                 : fine(read_trace(file, formats[which]));
}

inline bool bench(std::string_view bytes, const std::string& file) {
  write(file, bytes);
  const auto runs = import_bench(file);
  return fine(runs) && !bench_scenario(file, *runs).empty();
}

inline bool launch(std::string_view bytes, const std::string&) {
  const auto block = read_launch_command(bytes, "command", {"llama-3.1-8b", "glm-5-nvfp4"});
  return fine(block) && !launch_yaml(*block).empty() && !launch_json(*block).empty();
}

}  // namespace fuzz
