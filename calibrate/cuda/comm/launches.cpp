// What it costs to start work and to wait for it, with empty kernels. By the host's clock, but for
// the nodes of a graph, which the GPU's events time. `what`:
//   eager         `count` launches until the last call returns
//   graph_launch  the launch of a graph of `count` nodes until the call returns
//   graph_node    a graph of `count` nodes on the GPU
//   stream_sync, event_sync, read_back   `count` launches and a wait: for the stream, for an event,
//                 for a copy of four bytes to pinned memory
// The stream is empty before each of them. `ranks` says how many processes do so at once, each on a
// GPU of its own; a team starts them.

#include <algorithm>
#include <chrono>
#include <vector>

#include "calibrate/cuda/comm/communicator.hpp"
#include "calibrate/cuda/comm/empty.hpp"
#include "calibrate/cuda/comm/places.hpp"
#include "calibrate/cuda/harness/measured_kernel.hpp"

namespace {

// A stream takes about a thousand calls; then a launch waits for the GPU.
constexpr int queued_max = 1000;

// As it is: "graph_node", timed like any kernel.
class Launches : public MeasuredKernel {
 public:
  explicit Launches(const MeasuredPoint& point)
      : count_(static_cast<int>(std::max(1LL, point.size(0)))), repeats_(point.launches) {
    if (count_ > queued_max) throw Unsupported("a stream takes about a thousand launches at once");
  }
  int copies() const override { return 1; }
  void launch(int, int, cudaStream_t stream) override {
    for (int i = 0; i < count_; ++i) must(launch_empty(stream), "launching an empty kernel");
  }
  void align(cudaStream_t stream) override { meet(stream); }

 protected:
  // The mean of `repeats_` times `work`, each on an empty stream.
  template <class Work>
  double host_us(cudaStream_t stream, const Work& work) {
    double sum_us = 0;
    for (int i = 0; i < repeats_; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      work();
      sum_us += std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
                    .count();
      must(cudaStreamSynchronize(stream), "waiting for empty kernels");
    }
    return sum_us / repeats_;
  }

 private:
  int count_, repeats_;
};

class Eager final : public Launches {
 public:
  using Launches::Launches;
  std::optional<double> sample_us(cudaStream_t stream) override {
    return host_us(stream, [&] { launch(0, 0, stream); });
  }
};

class GraphLaunch final : public Launches {
 public:
  GraphLaunch(const MeasuredPoint& point, int device) : Launches(point) {
    const Stream stream(device);
    launch(0, 0, stream);  // loads the kernel, which a capture forbids
    must(cudaStreamSynchronize(stream), "the first launch");
    cudaGraph_t graph = nullptr;
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing a graph");
    launch(0, 0, stream);
    must(cudaStreamEndCapture(stream, &graph), "capturing a graph");
    const auto made = cudaGraphInstantiate(&graph_, graph, 0);
    cudaGraphDestroy(graph);
    must(made, "instantiating a graph");
  }
  ~GraphLaunch() override {
    if (graph_) cudaGraphExecDestroy(graph_);
  }
  std::optional<double> sample_us(cudaStream_t stream) override {
    return host_us(stream, [&] { must(cudaGraphLaunch(graph_, stream), "launching a graph"); });
  }

 private:
  cudaGraphExec_t graph_ = nullptr;
};

class StreamSync final : public Launches {
 public:
  using Launches::Launches;
  std::optional<double> sample_us(cudaStream_t stream) override {
    return host_us(stream, [&] {
      launch(0, 0, stream);
      must(cudaStreamSynchronize(stream), "waiting for a stream");
    });
  }
};

class EventSync final : public Launches {
 public:
  EventSync(const MeasuredPoint& point, int device) : Launches(point), event_(device) {}
  std::optional<double> sample_us(cudaStream_t stream) override {
    return host_us(stream, [&] {
      launch(0, 0, stream);
      must(cudaEventRecord(event_, stream), "recording an event");
      must(cudaEventSynchronize(event_), "waiting for an event");
    });
  }

 private:
  Event event_;
};

class ReadBack final : public Launches {
 public:
  ReadBack(const MeasuredPoint& point, int device)
      : Launches(point), token_(device, sizeof(int)), here_(the_host, sizeof(int)) {
    must(cudaMemset(token_.at(), 0, sizeof(int)), "clearing memory");
  }
  std::optional<double> sample_us(cudaStream_t stream) override {
    return host_us(stream, [&] {
      launch(0, 0, stream);
      must(cudaMemcpyAsync(here_.at(), token_.at(), sizeof(int), cudaMemcpyDeviceToHost, stream),
           "reading back");
      must(cudaStreamSynchronize(stream), "reading back");
    });
  }

 private:
  Place token_, here_;
};

std::unique_ptr<MeasuredKernel> make(const MeasuredPoint& point, const Device& device) {
  const auto what = point.word("what");
  if (what == "eager") return std::make_unique<Eager>(point);
  if (what == "graph_node") return std::make_unique<Launches>(point);
  if (what == "graph_launch") return std::make_unique<GraphLaunch>(point, device.index);
  if (what == "stream_sync") return std::make_unique<StreamSync>(point);
  if (what == "event_sync") return std::make_unique<EventSync>(point, device.index);
  if (what == "read_back") return std::make_unique<ReadBack>(point, device.index);
  throw Unsupported("nothing to measure is called '" + what + "'");
}
const Registered<KernelSource> me("launch cuda", {make});

}  // namespace
