#pragma once

#include <cstdint>
#include <vector>

#include "calibrate/cuda/harness/basics.hpp"
#include "calibrate/cuda/harness/device.hpp"
#include "calibrate/reference/bf16.hpp"

/// Buffers with contents, for kernels and their checks.

inline DeviceBuffer filled(std::size_t bytes, Fill kind, std::uint64_t seed) {
  DeviceBuffer out(bytes);
  must(fill_random(out.at(), bytes, kind, seed, nullptr), "filling a buffer");
  must(cudaDeviceSynchronize(), "filling a buffer");
  return out;
}
template <class T>
DeviceBuffer uploaded(const std::vector<T>& values) {
  DeviceBuffer out(values.size() * sizeof(T));
  if (!values.empty()) out.upload(values.data(), values.size() * sizeof(T));
  return out;
}
template <class T>
std::vector<T> downloaded(const DeviceBuffer& from, std::size_t count, std::size_t first = 0) {
  std::vector<T> out(count);
  if (count > 0) from.download(out.data(), count * sizeof(T), first * sizeof(T));
  return out;
}
inline std::vector<double> downloaded_bf16(const DeviceBuffer& from, std::size_t count,
                                           std::size_t first = 0) {
  std::vector<double> out;
  for (const auto code : downloaded<std::uint16_t>(from, count, first))
    out.push_back(reference::from_bf16(code));
  return out;
}

/// Runs `launch(stream)` to its end.
template <class Launch>
void run_once(Launch launch) {
  struct Stream {
    cudaStream_t handle = nullptr;
    Stream() { must(cudaStreamCreate(&handle), "making a stream"); }
    Stream(const Stream&) = delete;
    ~Stream() { cudaStreamDestroy(handle); }
  } stream;
  launch(stream.handle);
  must(cudaStreamSynchronize(stream.handle), "running the kernel to be checked");
}

/// "" when `got` lies within `limit` of the reference.
inline std::string compared(const std::string& what, const std::vector<double>& got,
                            const std::vector<double>& want, double limit) {
  const double apart = reference::distance(got, want);
  if (apart <= limit) return "";
  return what + " differs from the CPU reference by " + std::to_string(apart) + " of its size, " +
         std::to_string(limit) + " is rounding";
}
