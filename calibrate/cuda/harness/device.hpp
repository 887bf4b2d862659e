#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include <cuda_runtime_api.h>

/// A call of the driver or a library that failed. Exceptions live inside a plug-in only; at its
/// seam they become the reason of a point.
struct GpuError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// The card or the library has no such kernel: nothing went wrong.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws GpuError with `what` and CUDA's own words.
void must(cudaError_t code, const char* what);

/// Device memory, freed with its owner.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(std::size_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;

  std::size_t bytes() const { return bytes_; }
  template <class T = void>
  T* at(std::size_t byte = 0) const {
    return reinterpret_cast<T*>(static_cast<unsigned char*>(data_) + byte);
  }
  void upload(const void* host, std::size_t bytes, std::size_t at = 0);
  void download(void* host, std::size_t bytes, std::size_t at = 0) const;

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// The GPU a plug-in has taken.
struct Device {
  int index = 0;
  std::string name;
  int major = 0, minor = 0, sms = 0;
  std::size_t memory = 0, l2 = 0;
  double sm_clock_mhz = 0, memory_clock_mhz = 0;  // the most it may run at
  bool is_sm120() const { return major == 12; }
};
Device take_device(int index);
