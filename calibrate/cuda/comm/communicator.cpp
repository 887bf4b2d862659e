#include "calibrate/cuda/comm/communicator.hpp"

#include <cstdio>
#include <cstring>
#include <string>

#include "calibrate/cuda/harness/device.hpp"
#include "calibrate/cuda/harness/ranks.hpp"
#include "calibrate/cuda/harness/versions.hpp"

namespace {

Communicator now;
void* number = nullptr;  // what meet() sums

class Nccl final : public RankLibrary {
 public:
  Nccl() { rank_library() = this; }

  // ncclUniqueId is bytes: two hexadecimal digits each.
  std::string make_id() override {
    ncclUniqueId id;
    must(ncclGetUniqueId(&id), "making an id for the ranks");
    std::string out;
    for (const char c : id.internal) {
      char digits[3];
      std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(c));
      out += digits;
    }
    return out;
  }

  void join(const std::string& text, int rank, int ranks) override {
    ncclUniqueId id;
    if (text.size() != 2 * sizeof id.internal ||
        text.find_first_not_of("0123456789abcdef") != std::string::npos)
      throw GpuError("this is no id of NCCL");
    for (std::size_t i = 0; i < sizeof id.internal; ++i)
      id.internal[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
    if (now.comm) ncclCommDestroy(now.comm);
    now = {};
    must(ncclCommInitRank(&now.comm, ranks, id, rank), "joining the ranks");
    now.rank = rank;
    now.ranks = ranks;
    if (!number) must(cudaMalloc(&number, sizeof(float)), "allocating on the GPU");
    must(cudaMemset(number, 0, sizeof(float)), "clearing memory");
  }
} library;

const Registered<LibraryVersion> me("nccl", [] {
  int version = 0;
  return ncclGetVersion(&version) == ncclSuccess ? std::to_string(version) : std::string("unknown");
});

}  // namespace

void must(ncclResult_t code, const char* what) {
  if (code == ncclSuccess) return;
  std::string text = std::string(what) + ": " + ncclGetErrorString(code);
#if NCCL_VERSION_CODE >= 21300
  // What it logged last names the cause ("Cuda failure 'peer access is not supported'").
  if (const char* last = ncclGetLastError(nullptr); last && *last)
    text += std::string(" (") + last + ")";
#endif
  throw GpuError(text);
}

const Communicator& communicator() { return now; }

void meet(cudaStream_t stream) {
  if (now.ranks > 1)
    must(ncclAllReduce(number, number, 1, ncclFloat, ncclSum, now.comm, stream),
         "meeting the other ranks");
}
