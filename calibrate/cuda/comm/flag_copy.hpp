#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

/// Two kernels that hand data to each other through pinned host memory: a flag, a line of its own,
/// then the data. Plain C++17, as a .cu file includes it.
inline constexpr std::size_t flag_line = 128;

struct FlagAnswer {
  long long nanoseconds = 0;  // of all round trips
  int gave_up = 0;            // a flag was not raised within two seconds
};

/// Once per GPU before the others: a kernel that is loaded while the other one polls would wait for
/// its end.
cudaError_t load_flag_kernels();
/// Sends `bytes` (a multiple of 16) from `from` through `there` and waits for them in `back`, into
/// `into`, `rounds` times.
cudaError_t send_flags(unsigned char* there, unsigned char* back, const unsigned char* from,
                       unsigned char* into, std::size_t bytes, int rounds, FlagAnswer* answer,
                       cudaStream_t stream);
/// The other end: takes what is in `there` into `memory` and sends it back.
cudaError_t relay_flags(unsigned char* there, unsigned char* back, unsigned char* memory,
                        std::size_t bytes, int rounds, FlagAnswer* answer, cudaStream_t stream);
