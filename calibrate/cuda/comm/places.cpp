#include "calibrate/cuda/comm/places.hpp"

#include <utility>

#include "calibrate/cuda/harness/device.hpp"

OnDevice::OnDevice(int device) {
  must(cudaGetDevice(&before_), "asking which GPU is taken");
  must(cudaSetDevice(device), "taking a GPU");
}
OnDevice::~OnDevice() { cudaSetDevice(before_); }

Place::Place(int device, std::size_t bytes) : device_(device) {
  void* data = nullptr;
  if (device == the_host) {
    must(cudaHostAlloc(&data, bytes, cudaHostAllocPortable | cudaHostAllocMapped),
         "allocating pinned memory");
  } else {
    const OnDevice there(device);
    must(cudaMalloc(&data, bytes), "allocating on a GPU");
  }
  data_ = static_cast<unsigned char*>(data);
}
Place::~Place() {
  if (data_) device_ == the_host ? cudaFreeHost(data_) : cudaFree(data_);
}
Place::Place(Place&& other) noexcept
    : device_(other.device_), data_(std::exchange(other.data_, nullptr)) {}

Stream::Stream(int device) {
  const OnDevice there(device);
  must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
}
Stream::~Stream() {
  if (stream_) cudaStreamDestroy(stream_);
}
Stream::Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}

Event::Event(int device) {
  const OnDevice there(device);
  must(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "making an event");
}
Event::~Event() {
  if (event_) cudaEventDestroy(event_);
}
Event::Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
void Event::order(cudaStream_t stream, cudaStream_t waiter) const {
  must(cudaEventRecord(event_, stream), "recording an event");
  must(cudaStreamWaitEvent(waiter, event_, 0), "waiting for an event");
}

int next_device(int device) {
  int count = 0;
  must(cudaGetDeviceCount(&count), "counting GPUs");
  if (count < 2) throw Unsupported("it takes two GPUs, and there is one");
  return (device + 1) % count;
}
