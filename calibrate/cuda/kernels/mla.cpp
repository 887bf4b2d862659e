// MLA decode over a paged bf16 cache, dense (generation_mla) and over picked tokens (dsa_attention:
// what DSA's top-k leaves, every query with picks of its own). Leaves out: FP8 caches, projections,
// queries that share keys in one block.

#include <algorithm>
#include <cmath>

#include "calibrate/cuda/harness/measured_kernel.hpp"
#include "calibrate/cuda/kernels/buffers.hpp"
#include "calibrate/cuda/kernels/host_random.hpp"
#include "calibrate/cuda/kernels/mla.hpp"
#include "calibrate/cuda/kernels/paged.hpp"
#include "calibrate/reference/attention.hpp"

namespace {

constexpr int picks_max = 2048;                 // DeepSeek-V3.2 and GLM-5
constexpr double softmax_scale = 0.0721687836;  // 1 / sqrt(192), the head size before absorption

struct Size {
  bool sparse;
  int sequences, queries_each;  // sparse: a chunk's last queries of each sequence
  int heads, tokens;            // tokens of each sequence, the queries' own among them
  double pool_bytes;
  int splits;  // 0: as many as keep the SMs busy
};

std::size_t wide(int n) { return static_cast<std::size_t>(n); }

class LatentAttention final : public MeasuredKernel {
 public:
  LatentAttention(const Size& size, const Device& device)
      : s_(size), device_(device), cache_(size.sequences, size.tokens, mla_page) {
    MlaDecode& d = decode_;
    d.queries = s_.sequences * s_.queries_each;
    d.heads = s_.heads;
    d.tokens = s_.sparse ? std::min(s_.tokens, picks_max) : s_.tokens;
    d.splits = s_.splits > 0 ? s_.splits : mla_splits(d.queries, d.heads, d.tokens, device.sms);
    d.scale = static_cast<float>(softmax_scale);
    copy_bytes_ = cache_.slots() * mla_latent * 2;
    copies_ = copies_in(s_.pool_bytes, static_cast<double>(copy_bytes_));
    kv_ = filled(copy_bytes_ * wide(copies_), Fill::bf16, 1);
    const std::size_t rows = wide(d.queries) * wide(d.heads);
    q_ = filled(rows * mla_latent * 2, Fill::bf16, 2);
    out_ = DeviceBuffer(rows * mla_value * 2);
    partial_ = DeviceBuffer(rows * wide(d.splits) * mla_value * 4);
    stats_ = DeviceBuffer(rows * wide(d.splits) * 2 * 4);
    if (s_.sparse) {
      slots_ = pick();
      ints_ = uploaded(slots_);
      d.slots = ints_.at<std::int32_t>();
    } else {
      ints_ = uploaded(cache_.all_pages());
      d.pages = ints_.at<std::int32_t>();
      d.pages_each = cache_.pages_each();
    }
    d.q = q_.at();
    d.partial = partial_.at<float>();
    d.stats = stats_.at<float>();
    d.out = out_.at();
  }

  int copies() const override { return copies_; }
  void launch(int, int copy, cudaStream_t stream) override {
    MlaDecode d = decode_;
    d.kv = kv_.at(wide(copy) * copy_bytes_);
    must(mla_decode(d, stream), "MLA decode");
  }

  std::string check() override {
    // Two groups of heads, the second not full; parts that end within a tile and within a page;
    // a query with fewer tokens than picks.
    const Size small{s_.sparse, 2, s_.sparse ? 2 : 1, std::min(s_.heads, 20), 200, 0, 3};
    return LatentAttention(small, device_).compare();
  }

 private:
  // Of each query all its tokens, or one of every 2048th part of them: different and scattered.
  std::vector<std::int32_t> pick() const {
    HostRandom random{3};
    std::vector<std::int32_t> out;
    for (int sequence = 0; sequence < s_.sequences; ++sequence)
      for (int query = 0; query < s_.queries_each; ++query) {
        const int seen = s_.tokens - s_.queries_each + query + 1;
        for (int i = 0; i < decode_.tokens; ++i) {
          std::int64_t token = i < seen ? i : -1;
          if (seen > decode_.tokens) {
            const std::int64_t from = std::int64_t{i} * seen / decode_.tokens;
            const std::int64_t to = std::int64_t{i + 1} * seen / decode_.tokens;
            token = from + static_cast<std::int64_t>(random() * static_cast<double>(to - from));
          }
          out.push_back(token < 0 ? -1 : static_cast<std::int32_t>(cache_.slot(sequence, token)));
        }
      }
    return out;
  }

  std::string compare() {
    run_once([&](cudaStream_t stream) { launch(0, 0, stream); });
    std::vector<double> got, want;
    for (int query = 0; query < decode_.queries; ++query) {
      std::vector<std::vector<double>> keys;
      for (int i = 0; i < decode_.tokens; ++i) {
        const auto slot = s_.sparse ? slots_[wide(query) * wide(decode_.tokens) + wide(i)]
                                    : cache_.slot(query, i);
        if (slot >= 0)
          keys.push_back(
              downloaded_bf16(kv_, mla_latent, static_cast<std::size_t>(slot) * mla_latent));
      }
      for (int head = 0; head < decode_.heads; head += 3) {
        const std::size_t row = wide(query) * wide(decode_.heads) + wide(head);
        const auto q = downloaded_bf16(q_, mla_latent, row * mla_latent);
        const auto one = reference::attend(q, keys, keys, mla_value, softmax_scale);
        want.insert(want.end(), one.begin(), one.end());
        const auto out = downloaded_bf16(out_, mla_value, row * mla_value);
        got.insert(got.end(), out.begin(), out.end());
      }
    }
    return compared("MLA decode", got, want, 0.01);
  }

  Size s_;
  const Device& device_;
  PagedCache cache_;
  MlaDecode decode_{};
  std::size_t copy_bytes_ = 0;
  int copies_ = 2;
  std::vector<std::int32_t> slots_;
  DeviceBuffer kv_, q_, out_, partial_, stats_, ints_;
};

void must_be_bf16(const MeasuredPoint& p, const char* id) {
  const auto word = p.word(id);
  if (!word.empty() && word != "bfloat16")
    throw Unsupported("this kernel computes in bfloat16; " + std::string(id) + " is " + word);
}

// Axes: num_heads, batch_size, step (past tokens).
const Registered<KernelSource> dense("generation_mla split_kv",
                                     {[](const MeasuredPoint& p, const Device& device) {
                                       must_be_bf16(p, "mla_dtype");
                                       must_be_bf16(p, "kv_cache_dtype");
                                       const Size s{false,
                                                    static_cast<int>(p.size(1)),
                                                    1,
                                                    static_cast<int>(p.size(0)),
                                                    static_cast<int>(p.size(2)) + 1,
                                                    p.pool_bytes,
                                                    0};
                                       return std::unique_ptr<MeasuredKernel>(
                                           std::make_unique<LatentAttention>(s, device));
                                     }});
// Axes: batch_size, isl (new tokens), step (past tokens). Heads are not among them: 64 as in GLM-5,
// or what a word num_heads says.
const Registered<KernelSource> sparse("dsa_attention split_kv",
                                      {[](const MeasuredPoint& p, const Device& device) {
                                        must_be_bf16(p, "kv_cache_dtype");
                                        const auto heads = p.word("num_heads");
                                        const int fresh = std::max(1, static_cast<int>(p.size(1)));
                                        const Size s{true,
                                                     static_cast<int>(p.size(0)),
                                                     fresh,
                                                     heads.empty() ? 64 : std::stoi(heads),
                                                     static_cast<int>(p.size(2)) + fresh,
                                                     p.pool_bytes,
                                                     0};
                                        return std::unique_ptr<MeasuredKernel>(
                                            std::make_unique<LatentAttention>(s, device));
                                      }});

}  // namespace
