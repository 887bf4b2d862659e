#include "calibrate/cuda/harness/device.hpp"

#include <utility>

void must(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // an error that is not sticky must not fail the next call
  throw GpuError(std::string(what) + ": " + cudaGetErrorString(code));
}

DeviceBuffer::DeviceBuffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes > 0) must(cudaMalloc(&data_, bytes), "allocating on the GPU");
}
DeviceBuffer::~DeviceBuffer() { cudaFree(data_); }
DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}
void DeviceBuffer::upload(const void* host, std::size_t bytes, std::size_t at) {
  must(cudaMemcpy(this->at(at), host, bytes, cudaMemcpyHostToDevice), "copying to the GPU");
}
void DeviceBuffer::download(void* host, std::size_t bytes, std::size_t at) const {
  must(cudaMemcpy(host, this->at(at), bytes, cudaMemcpyDeviceToHost), "copying from the GPU");
}

Device take_device(int index) {
  int count = 0;
  must(cudaGetDeviceCount(&count), "counting GPUs");
  if (index >= count)
    throw Unsupported("there is no GPU " + std::to_string(index) + ", only " +
                      std::to_string(count));
  must(cudaSetDevice(index), "taking the GPU");
  cudaDeviceProp p{};
  must(cudaGetDeviceProperties(&p, index), "asking the GPU what it is");
  const auto attribute = [&](cudaDeviceAttr which) {
    int value = 0;
    must(cudaDeviceGetAttribute(&value, which, index), "asking the GPU for an attribute");
    return value;
  };
  Device out;
  out.index = index;
  out.name = p.name;
  out.major = p.major;
  out.minor = p.minor;
  out.sms = p.multiProcessorCount;
  out.memory = p.totalGlobalMem;
  out.l2 = static_cast<std::size_t>(p.l2CacheSize);
  out.sm_clock_mhz = attribute(cudaDevAttrClockRate) / 1e3;
  out.memory_clock_mhz = attribute(cudaDevAttrMemoryClockRate) / 1e3;
  return out;
}
