#include "calibrate/cuda/harness/timer.hpp"

#include <chrono>
#include <cmath>
#include <fstream>
#include <string>

#include "calibrate/cuda/harness/basics.hpp"

namespace {

constexpr double throttled_below = 0.75;  // of the highest clock, as nvbench takes it

// Ticks that the hypervisor kept this machine's CPUs from running, all together; 0 when unknown.
long long stolen_ticks() {
  std::ifstream in("/proc/stat");
  std::string cpu;
  long long user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft = 0, steal = 0;
  in >> cpu >> user >> nice >> system >> idle >> wait >> irq >> soft >> steal;
  return in ? steal : 0;
}

}  // namespace

GraphTimer::GraphTimer(MeasuredKernel& kernel, const Device& device, int launches)
    : kernel_(kernel), device_(device), launches_(launches) {
  must(cudaStreamCreateWithFlags(&h_.stream, cudaStreamNonBlocking), "making a stream");
  must(cudaEventCreate(&h_.begin), "making an event");
  must(cudaEventCreate(&h_.end), "making an event");
  must(cudaHostAlloc(reinterpret_cast<void**>(&h_.flag), sizeof *h_.flag, cudaHostAllocMapped),
       "allocating pinned memory");
  must(
      cudaHostAlloc(reinterpret_cast<void**>(&h_.clock), 2 * sizeof *h_.clock, cudaHostAllocMapped),
      "allocating pinned memory");
  // Once without a hold: what ranks meet by is set up lazily too.
  kernel_.align(h_.stream);
  must(cudaStreamSynchronize(h_.stream), "meeting the other ranks");
  if (kernel_.sample_us(h_.stream)) {
    times_itself_ = true;
    for (int i = 0; i < 2; ++i) kernel_.sample_us(h_.stream);
    return;
  }
  if (kernel_.graphed()) {
    // Before a capture once without: libraries load and choose lazily, which a capture forbids.
    kernel_.launch(0, 0, h_.stream);
    must(cudaStreamSynchronize(h_.stream), "the first launch");
    cudaGraph_t graph = nullptr;
    must(cudaStreamBeginCapture(h_.stream, cudaStreamCaptureModeThreadLocal), "capturing a graph");
    try {
      for (int i = 0; i < launches_; ++i) kernel_.launch(i, i % kernel_.copies(), h_.stream);
    } catch (...) {
      cudaStreamEndCapture(h_.stream, &graph);
      if (graph) cudaGraphDestroy(graph);
      throw;
    }
    must(cudaStreamEndCapture(h_.stream, &graph), "capturing a graph");
    const auto made = cudaGraphInstantiate(&h_.graph, graph, 0);
    cudaGraphDestroy(graph);
    must(made, "instantiating a graph");
    must(cudaGraphUpload(h_.graph, h_.stream), "uploading a graph");
  }
  for (int i = 0; i < 3; ++i) enqueue();
  must(cudaStreamSynchronize(h_.stream), "warming up");
  if (!kernel_.held()) return;
  const auto begin = std::chrono::steady_clock::now();
  for (double before = clock_mhz(), now = 0;; before = now) {
    enqueue();
    now = clock_mhz();
    if (std::abs(now - before) <= 0.02 * now) break;
    if (std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(300)) break;
  }
}

GraphTimer::Handles::~Handles() {
  if (stream) cudaStreamSynchronize(stream);
  if (graph) cudaGraphExecDestroy(graph);
  if (begin) cudaEventDestroy(begin);
  if (end) cudaEventDestroy(end);
  if (flag) cudaFreeHost(flag);
  if (clock) cudaFreeHost(clock);
  if (stream) cudaStreamDestroy(stream);
}

void GraphTimer::enqueue() {
  if (h_.graph) return must(cudaGraphLaunch(h_.graph, h_.stream), "replaying a graph");
  for (int i = 0; i < launches_; ++i) {
    kernel_.launch(i, next_copy_, h_.stream);
    next_copy_ = (next_copy_ + 1) % kernel_.copies();
  }
}

double GraphTimer::clock_mhz() {
  must(read_clock(h_.clock, h_.stream), "reading the clock");
  must(cudaStreamSynchronize(h_.stream), "reading the clock");
  return h_.clock[1] > 0 ? 1e3 * static_cast<double>(h_.clock[0]) / static_cast<double>(h_.clock[1])
                         : 0;
}

double GraphTimer::us_per_launch() {
  if (times_itself_) {
    kernel_.align(h_.stream);
    must(cudaStreamSynchronize(h_.stream), "meeting the other ranks");
    return kernel_.sample_us(h_.stream).value_or(0);
  }
  *static_cast<volatile int*>(h_.flag) = 0;
  if (kernel_.held()) must(hold_stream(h_.flag, h_.stream), "holding the stream");
  kernel_.align(h_.stream);
  must(cudaEventRecord(h_.begin, h_.stream), "recording an event");
  enqueue();
  must(cudaEventRecord(h_.end, h_.stream), "recording an event");
  *static_cast<volatile int*>(h_.flag) = 1;
  must(cudaEventSynchronize(h_.end), "running the kernel");
  float ms = 0;
  must(cudaEventElapsedTime(&ms, h_.begin, h_.end), "timing the kernel");
  return static_cast<double>(ms) * 1e3 / launches_;
}

PluginSample GraphTimer::sample() {
  const long long stolen = stolen_ticks();
  PluginSample out{};
  out.us = us_per_launch();
  out.sm_clock_mhz = clock_mhz();
  out.throttled = out.sm_clock_mhz < throttled_below * device_.sm_clock_mhz;
  // The GPU does not notice that a CPU was away while the stream was held.
  out.stolen = (times_itself_ || !kernel_.held()) && stolen_ticks() != stolen;
  return out;
}
