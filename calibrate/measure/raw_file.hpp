#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/measure/back_end.hpp"

/// First line of a raw file: where all its samples come from.
struct RawHeader {
  std::string back_end;
  DeviceFacts device;
  std::string version;  // of ceiling
  std::string command;
  std::string model, profile, plan;
  int tensor_parallel = 1;
};

/// One further line: a point with every sample it got.
struct RawPoint {
  std::string key, kernel_class, kernel_source, reason;
  std::map<std::string, std::string> words;
  Coordinates x{};
  PointState state = PointState::ok;
  int launches = 1;
  std::vector<Sample> samples;
  int line = 0;
};

/// A raw file as read. Of a point measured again, the last line counts.
struct RawFile {
  std::string path;
  RawHeader header;
  std::vector<RawPoint> points;  // in the order of their first lines
  std::size_t whole_bytes = 0;   // up to the end of the last whole line
  bool cut_off = false;          // something stands behind it: the run was killed while writing
  const RawPoint* find(const std::string& key) const;
};

std::string to_line(const RawHeader& header);
std::string to_line(const RawPoint& point);

/// Reads JSON lines. A last line without its end is left out and told; anything else that is wrong
/// is an error with its place.
Expected<RawFile> read_raw(const std::string& path);
Expected<RawFile> parse_raw(const std::string& name, std::string_view text);

/// "driver 580.95 was 580.82": what speaks against putting samples of `now` beside those of `then`.
std::vector<std::string> device_changes(const DeviceFacts& then, const DeviceFacts& now);

/// Measures the points of the plan that `done` says are not there yet and hands each finished line
/// to `write`. Before each point `go_on(index, key)` is asked; false ends the run, which is no
/// error. A point that fails is written with its reason and the run goes on.
struct RunCounts {
  std::map<PointState, std::size_t> states;  // of the points measured now
  /// What ails points, for people ("unsupported, no such kernel"), and which: in order.
  std::vector<std::pair<std::string, std::vector<std::string>>> problems;
  std::size_t already = 0, left = 0;
};
RunCounts run_plan(const CalibrationPlan& plan, MeasuringBackEnd& back_end,
                   const std::function<bool(const std::string& key)>& done,
                   const std::function<bool(std::size_t index, const std::string& key)>& go_on,
                   const std::function<void(std::string_view line)>& write);
