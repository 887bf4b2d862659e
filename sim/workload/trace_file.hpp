#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/diagnostics.hpp"
#include "sim/engine/content.hpp"

/// One request of a recorded trace.
struct TraceRow {
  double at_s = 0;  // in the trace's own time
  std::int64_t input = 0, output = 0;
  std::vector<std::int64_t> blocks;  // hash_ids: prefix blocks of the prompt; empty: not told
  Content shared;  // how the prompt begins, where that is known; streams are lines of the trace
  int line = 0;
};

/// How a trace is written down: its columns or keys, and the unit of its time.
struct TraceFormat {
  std::string name, help;
  bool json = false;
  std::string time, input, output;  // columns of a CSV, keys of a JSON line
  bool dates = false;               // the time is a date, else a number
  double time_unit_s = 1;
  int block_tokens = 0;  // of one hash id; 0: there are none
  bool shares = false;   // may have the columns shares_with (an earlier row) and shared_length
};

/// The known formats: azure, burstgpt, mooncake, qwen_bailian, csv, jsonl.
const std::vector<TraceFormat>& trace_formats();
const TraceFormat* find_trace_format(const std::string& name);

/// Reads a trace, plain or gz. Errors, up to twenty of them: a column or key that is missing, what
/// is no number, negative lengths, time running backwards, hash ids that do not cover the prompt,
/// more shared tokens than two prompts have.
Expected<std::vector<TraceRow>> read_trace(const std::string& path, const TraceFormat& format);

/// Reads pairs of lengths from a CSV, plain or gz: columns named as any of the formats above name
/// them or as vidur does (num_prefill_tokens, num_decode_tokens), or two columns without a header.
Expected<std::vector<TraceRow>> read_lengths(const std::string& path);

/// A file that a scenario names: relative to the scenario's own place where it is there, else to
/// the working directory.
std::string beside(const Location& wanted_by, const std::string& name);
