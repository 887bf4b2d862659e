#pragma once

#include <map>
#include <string>
#include <vector>

#include "calibrate/fit/kernels.hpp"
#include "calibrate/import/nccl_tests.hpp"
#include "calibrate/measure/raw_file.hpp"

/// What tables of a box call the engine that they were measured with: no engine's kernels, ours.
inline constexpr const char* box_engine = "ceiling";

/// Tables from raw files, by kernel class.
struct BoxFit {
  std::map<std::string, std::vector<KernelSet>> sets;
  std::map<std::string, std::size_t> left_out;  // reason -> points
  /// The collectives among them, as a machine's `collectives` takes them.
  std::vector<CollectiveTable> collectives;
  std::size_t points = 0;  // that were fitted
  /// Where a class tells kernels apart by their setting alone (collectives): us by setting, point
  /// by point. The first one was fitted.
  std::vector<std::string> settings;
  std::vector<std::pair<std::string, std::vector<double>>> by_setting;  // 0: not measured
  /// What the files of card and machine say of memory, links and host, as measured.
  struct Probe {
    std::string what;  // "copy peer one"
    double start_us = 0, rate = 0;
    std::string unit;           // of the rate: "GB/s", "us each"
    double line_rate_part = 0;  // of the card's memory; 0 for links and host
  };
  std::vector<Probe> probes;
};

/// Rows of all points that may be fitted (ok and noisy), through the same fit as imported tables.
/// Sets say device and driver as their source, not the file. The files must be of one device. An
/// error when nothing is left.
Expected<BoxFit> fit_raw(const std::vector<RawFile>& files, const GpuSpec& gpu);

/// One line per set with its errors on shapes left out of the fit, and what was left out.
std::string render_fit(const BoxFit& fit);

/// How one point moved. `beyond_noise`: by more than both intervals of the median together.
struct PointChange {
  std::string key;
  double before_us = 0, after_us = 0;
  bool beyond_noise = false;
};
struct RawComparison {
  std::vector<PointChange> points;  // of both files, largest relative change first
  std::vector<std::string> states;  // "KEY: ok, was noisy"
  std::size_t only_before = 0, only_after = 0;
};
RawComparison compare_raw(const RawFile& before, const RawFile& after);
std::string render_comparison(const RawFile& before, const RawFile& after, const RawComparison& c);
std::string comparison_to_json(const RawComparison& c);
