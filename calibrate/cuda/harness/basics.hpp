#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

/// Kernels that every plug-in needs. Plain C++17, as .cu files include it.

/// Random values that make no kernel faster than in a server (a GEMM on zeros ran 13 % faster).
enum class Fill {
  bf16,   // uniform in [-1, 1)
  f32,    // uniform in [-1, 1)
  e4m3,   // all codes of magnitude up to 1.875
  e2m1,   // any byte: two codes
  ue4m3,  // 0.5 to 1.875: scales
};
/// `bytes` from `data` on; the same seed gives the same bytes.
cudaError_t fill_random(void* data, std::size_t bytes, Fill kind, std::uint64_t seed,
                        cudaStream_t stream);

/// The stream waits until `*flag`, mapped host memory, is not 0, at most two seconds.
cudaError_t hold_stream(const volatile int* flag, cudaStream_t stream);

/// Spins for 20 us and writes {cycles, nanoseconds}: the SM clock.
cudaError_t read_clock(long long* cycles_and_ns, cudaStream_t stream);
