#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

/// Memory, streams and events that may live on another GPU than this process's own. Freed with
/// their owner.

/// Takes a GPU and gives back what was taken before.
class OnDevice {
 public:
  explicit OnDevice(int device);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;

 private:
  int before_ = 0;
};

inline constexpr int the_host = -1;

/// Memory of a GPU, or pinned memory of the host that all GPUs reach.
class Place {
 public:
  Place(int device, std::size_t bytes);
  ~Place();
  Place(Place&& other) noexcept;
  Place& operator=(Place&&) = delete;
  unsigned char* at(std::size_t byte = 0) const { return data_ + byte; }

 private:
  int device_;
  unsigned char* data_ = nullptr;
};

class Stream {
 public:
  explicit Stream(int device);
  ~Stream();
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  /// Without a time: they only order streams.
  explicit Event(int device);
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&&) = delete;
  operator cudaEvent_t() const { return event_; }
  /// `waiter` goes on when what `stream` holds now is done; `stream` is of this event's GPU.
  void order(cudaStream_t stream, cudaStream_t waiter) const;

 private:
  cudaEvent_t event_ = nullptr;
};

/// The GPU after `device`, in a circle. Throws Unsupported where there is only one.
int next_device(int device);
