#include "calibrate/cuda/harness/basics.hpp"

namespace {

// splitmix64 (Steele, Lea, Flood 2014): a stateless hash of the index.
__device__ std::uint64_t hash(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// One byte of kind `kind` from random bits; `index` is its place.
__device__ unsigned char byte_of(Fill kind, std::size_t index, std::uint64_t seed) {
  switch (kind) {
    case Fill::e2m1:
      return static_cast<unsigned char>(hash(seed + index));
    case Fill::ue4m3:
      return static_cast<unsigned char>(0x30 + hash(seed + index) % 16);
    case Fill::e4m3: {
      const auto bits = hash(seed + index);
      return static_cast<unsigned char>((bits & 0x80) | (bits >> 8) % 0x40);
    }
    case Fill::bf16: {
      const auto bits = hash(seed + index / 2);
      const float value = static_cast<float>(bits >> 40) * (2.0f / 16777216.0f) - 1.0f;
      const unsigned top = __float_as_uint(value) >> 16;
      return static_cast<unsigned char>(index % 2 ? top >> 8 : top);
    }
    case Fill::f32: {
      const auto bits = hash(seed + index / 4);
      const float value = static_cast<float>(bits >> 40) * (2.0f / 16777216.0f) - 1.0f;
      return static_cast<unsigned char>(__float_as_uint(value) >> (8 * (index % 4)));
    }
  }
  return 0;
}

__global__ void fill_kernel(unsigned char* data, std::size_t bytes, Fill kind, std::uint64_t seed) {
  const std::size_t step = std::size_t(gridDim.x) * blockDim.x;
  for (std::size_t i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < bytes; i += step)
    data[i] = byte_of(kind, i, seed);
}

__device__ long long nanoseconds() {
  long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void hold_kernel(const volatile int* flag) {
  const long long end = nanoseconds() + 2000000000LL;
  while (*flag == 0 && nanoseconds() < end) {
  }
}

__global__ void clock_kernel(long long* out) {
  const long long ns = nanoseconds(), cycles = clock64();
  while (nanoseconds() - ns < 20000) {
  }
  out[0] = clock64() - cycles;
  out[1] = nanoseconds() - ns;
}

}  // namespace

cudaError_t fill_random(void* data, std::size_t bytes, Fill kind, std::uint64_t seed,
                        cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  fill_kernel<<<1024, 256, 0, stream>>>(static_cast<unsigned char*>(data), bytes, kind, seed);
  return cudaGetLastError();
}
cudaError_t hold_stream(const volatile int* flag, cudaStream_t stream) {
  hold_kernel<<<1, 1, 0, stream>>>(flag);
  return cudaGetLastError();
}
cudaError_t read_clock(long long* cycles_and_ns, cudaStream_t stream) {
  clock_kernel<<<1, 1, 0, stream>>>(cycles_and_ns);
  return cudaGetLastError();
}
