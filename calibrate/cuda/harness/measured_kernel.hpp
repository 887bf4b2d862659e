#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/cuda/harness/device.hpp"
#include "sim/base/registry.hpp"

/// A point as it crosses the seam.
struct MeasuredPoint {
  std::string kernel_class, kernel_source;
  std::map<std::string, std::string> words;
  std::vector<double> x;  // in the order of the class's axes
  double pool_bytes = 0;
  int launches = 1;

  /// A word, "" when it has none.
  std::string word(const std::string& id) const {
    const auto it = words.find(id);
    return it == words.end() ? "" : it->second;
  }
  /// A size, rounded; throws std::out_of_range where the class has no such axis.
  long long size(std::size_t axis) const { return static_cast<long long>(x.at(axis) + 0.5); }
};

/// One kernel at one size with its buffers. The constructor allocates; any call may throw GpuError
/// or Unsupported.
class MeasuredKernel {
 public:
  virtual ~MeasuredKernel() = default;
  /// Compares with a CPU reference on a small shape of the same kind; "" when they agree.
  virtual std::string check() { return ""; }
  /// Copies of weights or KV that launches rotate over, so that none finds them in the L2.
  virtual int copies() const = 0;
  /// Enqueues launch number `i` of a sample on copy `copy`; may be captured into a graph.
  virtual void launch(int i, int copy, cudaStream_t stream) = 0;
  /// False where a capture is impossible or beside the point: launches are then enqueued one by
  /// one.
  virtual bool graphed() const { return true; }
  /// Whether the stream may wait for the host while launches queue up. Not across ranks (the others
  /// would wait too) nor where a sample is more calls than a stream takes (about a thousand).
  /// Without it the warm-up has a fixed length, as ranks must launch equally often.
  virtual bool held() const { return true; }
  /// Enqueued before each sample: where ranks meet, so that none waits for another inside it.
  virtual void align(cudaStream_t) {}
  /// For what events on the GPU cannot tell, such as the host's time: one sample in us per launch.
  /// launch() is then not called, and copies() does not matter.
  virtual std::optional<double> sample_us(cudaStream_t) { return std::nullopt; }
};

/// A kernel that answers for points of one class. One file each:
/// `const Registered<KernelSource> me("gemm cublaslt", {make});`, class and source in the name.
struct KernelSource {
  std::unique_ptr<MeasuredKernel> (*make)(const MeasuredPoint& point, const Device& device);
};
using KernelSources = Registry<KernelSource>;

/// How many copies of `bytes` make a pool of `pool_bytes`, two at least.
inline int copies_in(double pool_bytes, double bytes) {
  return bytes > 0 && pool_bytes > 2 * bytes ? static_cast<int>(pool_bytes / bytes) : 2;
}
