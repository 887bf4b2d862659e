#pragma once

#include <memory>
#include <string>
#include <vector>

#include "calibrate/cuda/harness/measured_kernel.hpp"

/// One dense product of a server: activations [m, k] times weights [n, k] transposed gives [m, n]
/// in bfloat16, all row-major; `batch` of them side by side.
struct MatmulShape {
  std::string dtype;  // of both factors: bfloat16, fp8, fp8_block, nvfp4
  long long n = 0, k = 0, m = 0, batch = 1;
};

/// cuBLASLt's kernels for one shape, in the library's order of preference. Throws Unsupported where
/// it has none.
class Matmul {
 public:
  explicit Matmul(const MatmulShape& shape);
  ~Matmul();
  Matmul(Matmul&&) noexcept;

  /// Of one copy, scales behind the codes; multiples of 256.
  std::size_t weight_bytes() const;
  std::size_t activation_bytes() const;
  std::size_t output_bytes() const;
  void fill_weights(void* at, std::uint64_t seed, cudaStream_t stream) const;
  void fill_activations(void* at, std::uint64_t seed, cudaStream_t stream) const;

  std::size_t algorithms() const;
  void run(std::size_t algorithm, void* weights, void* activations, void* out,
           cudaStream_t stream) const;
  /// The fastest of the algorithms, each timed over five launches.
  std::size_t fastest(void* weights, void* activations, void* out, cudaStream_t stream) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> p_;
};

/// Compares a small product of this type with one in double precision; "" when they agree. Once per
/// process and type.
std::string check_matmul(const std::string& dtype);
