#include "calibrate/cuda/comm/flag_copy.hpp"

namespace {

constexpr int threads = 256;

__device__ long long nanoseconds() {
  long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// All threads; the data of round `round` is then seen by whoever sees its flag.
__device__ void send(unsigned char* box, const unsigned char* data, std::size_t bytes, int round) {
  auto* to = reinterpret_cast<uint4*>(box + flag_line);
  const auto* from = reinterpret_cast<const uint4*>(data);
  for (std::size_t i = threadIdx.x; i < bytes / sizeof(uint4); i += threads) to[i] = from[i];
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0) *reinterpret_cast<volatile int*>(box) = round;
}

// All threads; false when the flag does not come. Loads that fetch again (cv): the host's memory
// changes under them.
__device__ bool receive(const unsigned char* box, unsigned char* data, std::size_t bytes, int round,
                        FlagAnswer* answer) {
  __shared__ bool there;
  if (threadIdx.x == 0) {
    const auto* flag = reinterpret_cast<const volatile int*>(box);
    const long long end = nanoseconds() + 2000000000LL;
    bool seen = false;
    while (!(seen = *flag >= round) && nanoseconds() < end) {
    }
    __threadfence_system();
    there = seen;
    if (!seen) answer->gave_up = 1;
  }
  __syncthreads();
  const bool ok = there;
  __syncthreads();  // before the next round writes it
  if (!ok) return false;
  const auto* from = reinterpret_cast<const uint4*>(box + flag_line);
  auto* to = reinterpret_cast<uint4*>(data);
  for (std::size_t i = threadIdx.x; i < bytes / sizeof(uint4); i += threads)
    to[i] = __ldcv(from + i);
  __syncthreads();
  return true;
}

__global__ void send_kernel(unsigned char* there, unsigned char* back, const unsigned char* from,
                            unsigned char* into, std::size_t bytes, int rounds,
                            FlagAnswer* answer) {
  long long begin = 0;
  for (int round = 0; round <= rounds; ++round) {  // the first waits for the other kernel to start
    send(there, from, bytes, round + 1);
    if (!receive(back, into, bytes, round + 1, answer)) return;
    if (round == 0) begin = nanoseconds();
  }
  if (threadIdx.x == 0) answer->nanoseconds = nanoseconds() - begin;
}

__global__ void relay_kernel(unsigned char* there, unsigned char* back, unsigned char* memory,
                             std::size_t bytes, int rounds, FlagAnswer* answer) {
  for (int round = 0; round <= rounds; ++round) {
    if (!receive(there, memory, bytes, round + 1, answer)) return;
    send(back, memory, bytes, round + 1);
  }
}

}  // namespace

cudaError_t load_flag_kernels() {
  cudaFuncAttributes unused;
  const auto code = cudaFuncGetAttributes(&unused, send_kernel);
  return code != cudaSuccess ? code : cudaFuncGetAttributes(&unused, relay_kernel);
}
cudaError_t send_flags(unsigned char* there, unsigned char* back, const unsigned char* from,
                       unsigned char* into, std::size_t bytes, int rounds, FlagAnswer* answer,
                       cudaStream_t stream) {
  send_kernel<<<1, threads, 0, stream>>>(there, back, from, into, bytes, rounds, answer);
  return cudaGetLastError();
}
cudaError_t relay_flags(unsigned char* there, unsigned char* back, unsigned char* memory,
                        std::size_t bytes, int rounds, FlagAnswer* answer, cudaStream_t stream) {
  relay_kernel<<<1, threads, 0, stream>>>(there, back, memory, bytes, rounds, answer);
  return cudaGetLastError();
}
