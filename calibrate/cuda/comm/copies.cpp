// Copies between this rank's GPU, the next one and pinned host memory. `path`:
//   host_to_device, device_to_host
//   peer            cudaMemcpyPeerAsync: direct where the driver allows it, else as it stages
//   staged          through pinned memory, whole: the way in begins when the way out is done
//   staged_chunked  through two chunks of 256 KiB in turn, both ways at once
// `which`: one, pair_both_ways (the opposite direction at the same time) or all (each rank of a
// team on a GPU of its own). The pinned memory lies where the process runs. Leaves out: copies by
// kernels (see host_flag.cpp), memory that is not pinned.

#include <algorithm>
#include <optional>
#include <vector>

#include "calibrate/cuda/comm/communicator.hpp"
#include "calibrate/cuda/comm/flag_copy.hpp"
#include "calibrate/cuda/comm/places.hpp"
#include "calibrate/cuda/harness/basics.hpp"
#include "calibrate/cuda/harness/measured_kernel.hpp"

namespace {

constexpr std::size_t chunk_bytes = 256 << 10;  // half of NCCL's default slot, 512 KiB
constexpr int held_calls_max = 500;             // a stream takes about a thousand calls

struct Route {
  int from = the_host, to = the_host;
  bool through_host = false, chunked = false;
};

Route route_named(const std::string& path, int mine) {
  if (path == "host_to_device") return {the_host, mine};
  if (path == "device_to_host") return {mine, the_host};
  if (path == "peer") return {mine, next_device(mine)};
  if (path == "staged") return {mine, next_device(mine), true};
  if (path == "staged_chunked") return {mine, next_device(mine), true, true};
  throw Unsupported("no copy is called '" + path + "'");
}

void allow_peer(int from, int to) {
  int can = 0;
  must(cudaDeviceCanAccessPeer(&can, from, to), "asking for peer access");
  if (!can) return;
  const OnDevice there(from);
  const auto code = cudaDeviceEnablePeerAccess(to, 0);
  if (code == cudaErrorPeerAccessAlreadyEnabled)
    cudaGetLastError();
  else
    must(code, "enabling peer access");
}

// One direction.
class Lane {
 public:
  Lane(const Route& route, std::size_t bytes, int copies) : route_(route), bytes_(bytes) {
    for (int i = 0; i < copies; ++i) {
      source_.emplace_back(route.from, bytes);
      target_.emplace_back(route.to, bytes);
    }
    if (route.from != the_host && route.to != the_host && !route.through_host) {
      allow_peer(route.from, route.to);
      allow_peer(route.to, route.from);
    }
    if (!route.through_host) return;
    for (int slot = 0; slot < (route.chunked ? 2 : 1); ++slot) {
      between_.emplace_back(the_host, chunk());
      full_.emplace_back(route.from);
      free_.emplace_back(route.to);
    }
    way_in_.emplace(route.to);
  }

  /// The GPU whose stream it is enqueued on.
  int head_device() const { return route_.from == the_host ? route_.to : route_.from; }
  int calls() const {
    return route_.through_host ? 6 * static_cast<int>((bytes_ + chunk() - 1) / chunk()) : 1;
  }
  const Place& source(int copy) const { return source_[static_cast<std::size_t>(copy)]; }
  const Place& target(int copy) const { return target_[static_cast<std::size_t>(copy)]; }

  void enqueue(int copy, cudaStream_t head) const {
    unsigned char* to = target(copy).at();
    const unsigned char* from = source(copy).at();
    if (route_.through_host) return stage(from, to, head);
    if (route_.from != the_host && route_.to != the_host)
      return must(cudaMemcpyPeerAsync(to, route_.to, from, route_.from, bytes_, head),
                  "copying to a peer");
    must(cudaMemcpyAsync(to, from, bytes_,
                         route_.to == the_host ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice,
                         head),
         "copying");
  }

 private:
  std::size_t chunk() const { return route_.chunked ? std::min(chunk_bytes, bytes_) : bytes_; }

  void stage(const unsigned char* from, unsigned char* to, cudaStream_t head) const {
    const std::size_t slots = between_.size();
    std::size_t count = 0;
    for (std::size_t at = 0; at < bytes_; at += chunk(), ++count) {
      const std::size_t size = std::min(chunk(), bytes_ - at), slot = count % slots;
      if (count >= slots)
        must(cudaStreamWaitEvent(head, free_[slot], 0), "waiting for a free chunk");
      must(cudaMemcpyAsync(between_[slot].at(), from + at, size, cudaMemcpyDeviceToHost, head),
           "copying to the host");
      full_[slot].order(head, *way_in_);
      must(cudaMemcpyAsync(to + at, between_[slot].at(), size, cudaMemcpyHostToDevice, *way_in_),
           "copying from the host");
      must(cudaEventRecord(free_[slot], *way_in_), "recording an event");
    }
    if (count > 0)
      must(cudaStreamWaitEvent(head, free_[(count - 1) % slots], 0), "waiting for the last chunk");
  }

  Route route_;
  std::size_t bytes_;
  std::vector<Place> source_, target_, between_;
  std::vector<Event> full_, free_;
  std::optional<Stream> way_in_;
};

class Copy final : public MeasuredKernel {
 public:
  Copy(const MeasuredPoint& point, const Device& device)
      : route_(route_named(point.word("path"), device.index)), mine_(device.index) {
    const auto bytes = static_cast<std::size_t>(std::max(1LL, point.size(0)));
    copies_ = copies_in(point.pool_bytes, static_cast<double>(bytes));
    lanes_.emplace_back(route_, bytes, copies_);
    if (const auto which = point.word("which"); which == "pair_both_ways") {
      lanes_.emplace_back(back(), bytes, copies_);
      head_.emplace(lanes_[1].head_device());
      begin_.emplace(mine_);
      end_.emplace(lanes_[1].head_device());
    } else if (which != "one" && which != "all") {
      throw Unsupported("no copies at once are called '" + which + "'");
    }
    int calls = 4;
    for (const auto& lane : lanes_) calls += lane.calls();
    held_ = calls * point.launches <= held_calls_max;
  }

  // Bytes arrive as they were, in both directions; the size is no multiple of a chunk.
  std::string check() override {
    constexpr std::size_t bytes = 2 * chunk_bytes + 12347;
    std::vector<unsigned char> sent(bytes), other(bytes), got(bytes);
    for (std::size_t i = 0; i < bytes; ++i) {
      sent[i] = static_cast<unsigned char>(i * 131 + i / 251);
      other[i] = static_cast<unsigned char>(~sent[i]);
    }
    for (const Route& route : {route_, back()}) {
      const Lane lane(route, bytes, 1);
      const Stream head(lane.head_device());
      must(cudaMemcpy(lane.source(0).at(), sent.data(), bytes, cudaMemcpyDefault), "copying");
      must(cudaMemcpy(lane.target(0).at(), other.data(), bytes, cudaMemcpyDefault), "copying");
      must(cudaDeviceSynchronize(), "copying");
      lane.enqueue(0, head);
      must(cudaStreamSynchronize(head), "copying");
      must(cudaMemcpy(got.data(), lane.target(0).at(), bytes, cudaMemcpyDefault), "copying");
      const auto wrong = std::mismatch(sent.begin(), sent.end(), got.begin()).first - sent.begin();
      if (static_cast<std::size_t>(wrong) != bytes)
        return "byte " + std::to_string(wrong) + " did not arrive as it was";
    }
    return "";
  }

  int copies() const override { return copies_; }
  void launch(int, int copy, cudaStream_t stream) override {
    if (head_) begin_->order(stream, *head_);
    lanes_[0].enqueue(copy, stream);
    if (!head_) return;
    lanes_[1].enqueue(copy, *head_);
    end_->order(*head_, stream);
  }
  // Copies between GPUs cannot be captured everywhere, and a server does not capture these either.
  bool graphed() const override { return false; }
  bool held() const override { return held_; }
  void align(cudaStream_t stream) override { meet(stream); }

 private:
  Route back() const { return {route_.to, route_.from, route_.through_host, route_.chunked}; }

  Route route_;
  int mine_, copies_ = 0;
  bool held_ = true;
  std::vector<Lane> lanes_;
  // of the opposite direction
  std::optional<Stream> head_;
  std::optional<Event> begin_, end_;
};

// A kernel stores to pinned host memory and raises a flag, a kernel of the next GPU polls it, and
// back: what NCCL does between GPUs without peer access. One way of one round trip, by the GPU's
// own clock. With one GPU both kernels run on it.
class FlagCopy final : public MeasuredKernel {
 public:
  FlagCopy(const MeasuredPoint& point, const Device& device)
      : mine_(device.index), other_(second(device.index)), bytes_(rounded(point.size(0))) {
    if (point.word("which") == "pair_both_ways")
      throw Unsupported("a flag's round trip goes both ways already");
    if (point.size(0) > 1 << 20) throw Unsupported("one block moves at most 1 MiB this way");
    sent_.emplace(mine_, bytes_);
    received_.emplace(mine_, bytes_);
    relayed_.emplace(other_, bytes_);
    // flags on lines of their own, before the data
    there_.emplace(the_host, flag_line + bytes_);
    back_.emplace(the_host, flag_line + bytes_);
    answer_.emplace(the_host, sizeof(FlagAnswer));
    near_.emplace(mine_);
    far_.emplace(other_);
    for (const int gpu : {other_, mine_}) {
      const OnDevice there(gpu);
      must(load_flag_kernels(), "loading the kernels");
    }
    must(fill_random(sent_->at(), bytes_, Fill::e2m1, 1, *near_), "filling a buffer");
    must(cudaStreamSynchronize(*near_), "filling a buffer");
  }

  std::string check() override {
    must(cudaMemset(received_->at(), 0, bytes_), "clearing memory");
    must(cudaDeviceSynchronize(), "clearing memory");
    round_trips(3);
    std::vector<unsigned char> a(bytes_), b(bytes_);
    must(cudaMemcpy(a.data(), sent_->at(), bytes_, cudaMemcpyDefault), "copying");
    must(cudaMemcpy(b.data(), received_->at(), bytes_, cudaMemcpyDefault), "copying");
    return a == b ? "" : "what came back is not what was sent";
  }
  int copies() const override { return 1; }
  void launch(int, int, cudaStream_t) override {}
  void align(cudaStream_t stream) override { meet(stream); }
  std::optional<double> sample_us(cudaStream_t) override {
    constexpr int rounds = 200;
    return round_trips(rounds) * 1e-3 / (2 * rounds);
  }

 private:
  static int second(int device) {
    int count = 0;
    must(cudaGetDeviceCount(&count), "counting GPUs");
    return count > 1 ? next_device(device) : device;
  }
  static std::size_t rounded(long long bytes) {
    return (static_cast<std::size_t>(std::max(1LL, bytes)) + 15) / 16 * 16;
  }
  // Nanoseconds of all of them.
  double round_trips(int rounds) {
    auto* answer = reinterpret_cast<FlagAnswer*>(answer_->at());
    *answer = {};
    *reinterpret_cast<volatile int*>(there_->at()) = 0;
    *reinterpret_cast<volatile int*>(back_->at()) = 0;
    {
      const OnDevice there(other_);
      must(relay_flags(there_->at(), back_->at(), relayed_->at(), bytes_, rounds, answer, *far_),
           "starting the far kernel");
    }
    must(send_flags(there_->at(), back_->at(), sent_->at(), received_->at(), bytes_, rounds, answer,
                    *near_),
         "starting the near kernel");
    must(cudaStreamSynchronize(*near_), "running the near kernel");
    must(cudaStreamSynchronize(*far_), "running the far kernel");
    if (answer->gave_up) throw GpuError("a flag was not seen within two seconds");
    return static_cast<double>(answer->nanoseconds);
  }

  int mine_, other_;
  std::size_t bytes_;
  std::optional<Place> sent_, received_, relayed_, there_, back_, answer_;
  std::optional<Stream> near_, far_;
};

const Registered<KernelSource> me("copy cuda",
                                  {[](const MeasuredPoint& point,
                                      const Device& device) -> std::unique_ptr<MeasuredKernel> {
                                    if (point.word("path") == "host_flag")
                                      return std::make_unique<FlagCopy>(point, device);
                                    return std::make_unique<Copy>(point, device);
                                  }});

}  // namespace
