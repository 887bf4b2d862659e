// Collectives of NCCL on half-precision numbers, out of place, as nccl-tests sizes them: the full
// buffer of an all-gather's output and of a reduce-scatter's input. A sample begins once all ranks
// are there. Replayed from a graph, as a server runs them, or enqueued one by one ("nccl_eager").
// What NCCL is told comes from the environment of the process.

#include <algorithm>
#include <vector>

#include <cuda_fp16.h>

#include "calibrate/cuda/comm/communicator.hpp"
#include "calibrate/cuda/harness/basics.hpp"
#include "calibrate/cuda/harness/measured_kernel.hpp"

namespace {

enum class Op { all_reduce, all_gather, reduce_scatter, alltoall };

Op op_named(const std::string& word) {
  if (word == "all_reduce") return Op::all_reduce;
  if (word == "all_gather") return Op::all_gather;
  if (word == "reduce_scatter") return Op::reduce_scatter;
  if (word == "alltoall") return Op::alltoall;
  throw Unsupported("no collective is called '" + word + "'");
}

// `part` numbers from each rank to each other.
void alltoall(const void* send, void* receive, std::size_t part, const Communicator& c,
              cudaStream_t stream) {
#if NCCL_VERSION_CODE >= 22800
  must(ncclAlltoAll(send, receive, part, ncclHalf, c.comm, stream), "an all-to-all");
#else
  must(ncclGroupStart(), "an all-to-all");
  for (int peer = 0; peer < c.ranks; ++peer) {
    const std::size_t at = 2 * part * static_cast<std::size_t>(peer);
    must(ncclSend(static_cast<const char*>(send) + at, part, ncclHalf, peer, c.comm, stream),
         "an all-to-all");
    must(ncclRecv(static_cast<char*>(receive) + at, part, ncclHalf, peer, c.comm, stream),
         "an all-to-all");
  }
  must(ncclGroupEnd(), "an all-to-all");
#endif
}

// `part` is one rank's share of the buffer: all of it for an all-reduce.
void run(Op op, const void* send, void* receive, std::size_t part, cudaStream_t stream) {
  const Communicator& c = communicator();
  switch (op) {
    case Op::all_reduce:
      return must(ncclAllReduce(send, receive, part, ncclHalf, ncclSum, c.comm, stream),
                  "an all-reduce");
    case Op::all_gather:
      return must(ncclAllGather(send, receive, part, ncclHalf, c.comm, stream), "an all-gather");
    case Op::reduce_scatter:
      return must(ncclReduceScatter(send, receive, part, ncclHalf, ncclSum, c.comm, stream),
                  "a reduce-scatter");
    case Op::alltoall:
      return alltoall(send, receive, part, c, stream);
  }
}

// What rank `rank` sends at `i`: small whole numbers, whose sums over 64 ranks are exact in half
// precision.
float sent(int rank, std::size_t i) {
  return static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 3) % 31);
}

// What rank `rank` of `ranks` must hold at `i` afterwards, of `part` numbers per rank.
float expected(Op op, int rank, int ranks, std::size_t part, std::size_t i) {
  const auto shares = static_cast<std::size_t>(rank) * part;
  float sum = 0;
  switch (op) {
    case Op::all_gather:
      return sent(static_cast<int>(i / part), i % part);
    case Op::alltoall:
      return sent(static_cast<int>(i / part), shares + i % part);
    case Op::all_reduce:
      for (int r = 0; r < ranks; ++r) sum += sent(r, i);
      return sum;
    case Op::reduce_scatter:
      for (int r = 0; r < ranks; ++r) sum += sent(r, shares + i);
      return sum;
  }
  return sum;
}

class Collective final : public MeasuredKernel {
 public:
  Collective(const MeasuredPoint& point, bool graphed)
      : op_(op_named(point.word("op_name"))), graphed_(graphed) {
    const Communicator& c = communicator();
    if (!c.comm) throw GpuError("a collective needs ranks, and this process has joined none");
    if (point.word("nccl_dtype") != "half") throw Unsupported("only half precision is measured");
    if (const auto gpus = point.word("num_gpus"); gpus != std::to_string(c.ranks))
      throw GpuError("the point is for " + gpus + " GPUs, " + std::to_string(c.ranks) +
                     " ranks are here");
    const auto numbers = static_cast<std::size_t>(std::max(1LL, point.size(0) / 2));
    part_ = op_ == Op::all_reduce ? numbers : std::max<std::size_t>(1, numbers / parts());
    const std::size_t bytes = 2 * part_ * (op_ == Op::all_reduce ? 1 : parts());
    for (int i = 0; i < copies_in(point.pool_bytes, static_cast<double>(bytes)); ++i) {
      send_.emplace_back(bytes);
      receive_.emplace_back(bytes);
      // no sum of noise overflows
      must(
          fill_random(send_.back().at(), bytes, Fill::bf16, static_cast<std::uint64_t>(i), nullptr),
          "filling a buffer");
    }
    must(cudaDeviceSynchronize(), "filling a buffer");
  }

  std::string check() override {
    const Communicator& c = communicator();
    constexpr std::size_t part = 1000;  // no multiple of a vector
    std::vector<__half> host(part * parts());
    for (std::size_t i = 0; i < host.size(); ++i) host[i] = __float2half(sent(c.rank, i));
    DeviceBuffer send(2 * host.size()), receive(2 * host.size());
    send.upload(host.data(), 2 * host.size());
    must(cudaMemset(receive.at(), 0xff, receive.bytes()), "clearing memory");
    run(op_, send.at(), receive.at(), part, nullptr);
    must(cudaStreamSynchronize(nullptr), "a collective");
    receive.download(host.data(), receive.bytes());
    const std::size_t whole = op_ == Op::all_gather || op_ == Op::alltoall ? part * parts() : part;
    for (std::size_t i = 0; i < whole; ++i)
      if (__half2float(host[i]) != expected(op_, c.rank, c.ranks, part, i))
        return "number " + std::to_string(i) + " is " + std::to_string(__half2float(host[i])) +
               ", not " + std::to_string(expected(op_, c.rank, c.ranks, part, i));
    return "";
  }

  int copies() const override { return static_cast<int>(send_.size()); }
  void launch(int, int copy, cudaStream_t stream) override {
    const auto i = static_cast<std::size_t>(copy);
    run(op_, send_[i].at(), receive_[i].at(), part_, stream);
  }
  bool graphed() const override { return graphed_; }
  bool held() const override { return false; }
  void align(cudaStream_t stream) override { meet(stream); }

 private:
  static std::size_t parts() { return static_cast<std::size_t>(communicator().ranks); }

  Op op_;
  bool graphed_;
  std::size_t part_ = 0;  // numbers
  std::vector<DeviceBuffer> send_, receive_;
};

template <bool graphed>
std::unique_ptr<MeasuredKernel> make(const MeasuredPoint& point, const Device&) {
  return std::make_unique<Collective>(point, graphed);
}
const Registered<KernelSource> a("nccl nccl", {make<true>});
const Registered<KernelSource> b("nccl nccl_eager", {make<false>});

}  // namespace
