#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <cudnn.h>

#include "calibrate/cuda/harness/device.hpp"

/// A descriptor of cuDNN's back end API, destroyed with its owner. Failures are GpuError, a graph
/// that no engine takes is Unsupported.
class CudnnDescriptor {
 public:
  explicit CudnnDescriptor(cudnnBackendDescriptorType_t type);
  ~CudnnDescriptor();
  CudnnDescriptor(CudnnDescriptor&& other) noexcept;
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept;

  cudnnBackendDescriptor_t get() const { return raw_; }
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
           const void* values);
  void set(cudnnBackendAttributeName_t name, std::int64_t value);
  void set(cudnnBackendAttributeName_t name, const std::vector<std::int64_t>& values);
  void set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value);
  void set(cudnnBackendAttributeName_t name, cudnnDataType_t value);
  void set(cudnnBackendAttributeName_t name, bool value);
  void finish();

 private:
  cudnnBackendDescriptor_t raw_ = nullptr;
};

/// Number of a tensor in its graph, which is its id in cuDNN.
using Tensor = std::int64_t;

/// Operations on tensors, in the order they are added. Tensors are [batch, heads, rows, columns].
class CudnnGraph {
 public:
  /// `strides` in elements. A virtual tensor stays inside the kernel, a scalar is passed by value.
  Tensor tensor(cudnnDataType_t type, const std::vector<std::int64_t>& dims,
                const std::vector<std::int64_t>& strides);
  Tensor inner(cudnnDataType_t type, const std::vector<std::int64_t>& dims);
  Tensor scalar();

  void matmul(Tensor a, Tensor b, Tensor out);
  /// `b`, `mask`: -1 where the operation has fewer inputs.
  void pointwise(cudnnPointwiseMode_t mode, Tensor a, Tensor b, Tensor mask, Tensor out);
  /// Row (axis 2) or column (axis 3) of each element of `like`.
  void index(Tensor like, std::int64_t axis, Tensor out);
  void reduce(cudnnReduceTensorOp_t op, Tensor in, Tensor out);
  /// Attention in one operation; pages and lengths -1 where the cache is contiguous.
  struct Attention {
    Tensor q, k, v, out, scale;
    Tensor pages_k = -1, pages_v = -1, length_q = -1, length_kv = -1;
  };
  void attention(const Attention& a);

  /// Without a handle: the GPU is described by `device_json`, and nothing can be run.
  struct Plan {
    CudnnDescriptor descriptor;
    std::int64_t workspace = 0;
  };
  /// The first plan that the heuristics offer and that compiles.
  Plan plan(cudnnHandle_t handle) const;
  /// Configurations that the heuristics offer for a GPU that is not there, and, when asked, whether
  /// the first of them compiles for it (seconds).
  struct Support {
    std::size_t configurations = 0;
    bool compiles = false;
    std::string reason;
  };
  Support support(const std::string& device_json, bool compile) const;

 private:
  std::vector<CudnnDescriptor> tensors_, parts_, operations_;
  std::vector<std::vector<std::int64_t>> dims_;
};

/// What cuDNN must know of a GPU of this compute capability (10 x major + minor: 120, 100, 90) to
/// plan for it without one.
std::string device_json(int capability);
