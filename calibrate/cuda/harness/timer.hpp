#pragma once

#include <vector>

#include "calibrate/cuda/harness/measured_kernel.hpp"
#include "calibrate/cuda/plugin.hpp"

/// Times one kernel: a captured graph of `launches` launches that rotate over its copies, replayed
/// between two events, after three replays and until two readings of the SM clock agree within 2 %
/// or 300 ms have passed. The stream is held while the host enqueues, so that no host time is
/// measured. What times itself (sample_us) is warmed up with three samples. Never changes a setting
/// of the card.
class GraphTimer {
 public:
  GraphTimer(MeasuredKernel& kernel, const Device& device, int launches);

  PluginSample sample();

 private:
  void enqueue();  // one round of launches
  double us_per_launch();
  double clock_mhz();

  // Freed also when the constructor throws.
  struct Handles {
    cudaStream_t stream = nullptr;
    cudaGraphExec_t graph = nullptr;
    cudaEvent_t begin = nullptr, end = nullptr;
    int* flag = nullptr;         // pinned: opens the held stream
    long long* clock = nullptr;  // pinned
    Handles() = default;
    Handles(const Handles&) = delete;
    ~Handles();
  };

  MeasuredKernel& kernel_;
  const Device& device_;
  int launches_, next_copy_ = 0;
  bool times_itself_ = false;
  Handles h_;
};
