#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "calibrate/measure/plan.hpp"
#include "calibrate/measure/sampling.hpp"
#include "sim/base/diagnostics.hpp"
#include "sim/base/registry.hpp"

/// What was measured on, as the driver says it. Two runs may share a file only when all agree.
struct DeviceFacts {
  std::string gpu;     // file in hardware/gpus
  std::string device;  // "NVIDIA RTX PRO 6000 Blackwell Server Edition"
  std::string driver;
  double sm_clock_mhz = 0, memory_clock_mhz = 0;  // the most it may run at
  std::string libraries;                          // "cublaslt 130100, nccl 22809"
};

/// What runs the kernels: a GPU, a model of one, or a recording. One file each:
/// `const Registered<MeasuringBackEndKind> me("synthetic", {...});`
class MeasuringBackEnd {
 public:
  virtual ~MeasuringBackEnd() = default;
  virtual DeviceFacts device() const = 0;
  /// Checks the kernel against a CPU reference before its first sample. Anything but ok ends the
  /// point, with `reason` saying why.
  struct Check {
    PointState state = PointState::ok;
    std::string reason;
  };
  virtual Check prepare(const CalibrationPoint& point) = 0;
  /// The next `count` samples of the point last prepared; fewer when there are no more. The error
  /// (a dead rank, a failed launch) ends the point, not the run.
  virtual tl::expected<std::vector<Sample>, std::string> measure(std::size_t count) = 0;
};

/// What the command line hands to a back end; each takes what concerns it.
struct BackEndOptions {
  GpuSpec gpu;
  std::string recording;  // replay: a raw file
  std::int64_t seed = 1;
  double noise = 0.01;        // synthetic: of a sample, relative
  double throttling = 0.002;  // synthetic: share of points in which an episode begins
  double outliers = 0.004;    // synthetic: share of samples
  std::string unverified;     // synthetic: a class whose kernel fails its check
};

/// Why a back end cannot run here. `no_gpu`: nothing wrong with the request (exit 3, one line).
struct BackEndRefusal {
  bool no_gpu = false;
  Diagnostics errors;
};

struct MeasuringBackEndKind {
  std::string help;
  tl::expected<std::unique_ptr<MeasuringBackEnd>, BackEndRefusal> (*open)(const BackEndOptions&);
};
