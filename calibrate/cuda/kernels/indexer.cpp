// DSA's indexer: FP8 logits of every query against all keys that it sees (dsa_indexer), and the
// choice of the 2,048 largest (dsa_top_k). Leaves out: the projections before, and that a fused
// top-k also turns its picks into slots.

#include <algorithm>

#include "calibrate/cuda/harness/measured_kernel.hpp"
#include "calibrate/cuda/kernels/buffers.hpp"
#include "calibrate/cuda/kernels/host_random.hpp"
#include "calibrate/cuda/kernels/indexer.hpp"
#include "calibrate/cuda/kernels/paged.hpp"
#include "calibrate/reference/attention.hpp"
#include "calibrate/reference/nvfp4.hpp"

namespace {

constexpr int picks_count = 2048;  // DeepSeek-V3.2 and GLM-5

std::size_t wide(int n) { return static_cast<std::size_t>(n); }

// Axes of both classes: batch_size, isl (new tokens), step (past tokens).
struct Size {
  int sequences, queries_each, tokens;
  double pool_bytes;
  int queries() const { return sequences * queries_each; }
};
Size size_of(const MeasuredPoint& p) {
  const int fresh = std::max(1, static_cast<int>(p.size(1)));
  return {static_cast<int>(p.size(0)), fresh, static_cast<int>(p.size(2)) + fresh, p.pool_bytes};
}

class Logits final : public MeasuredKernel {
 public:
  Logits(const Size& size, int heads) : s_(size), cache_(size.sequences, size.tokens, index_page) {
    if (heads != 32 && heads != 64)
      throw Unsupported("this kernel knows 32 and 64 index heads, not " + std::to_string(heads));
    const std::size_t rows = wide(s_.queries()) * wide(heads);
    copies_ = copies_in(s_.pool_bytes, static_cast<double>(cache_.slots() * (index_dim + 4)));
    keys_ = filled(cache_.slots() * index_dim * wide(copies_), Fill::e4m3, 1);
    scales_ = filled(cache_.slots() * 4 * wide(copies_), Fill::f32, 2);
    q_ = filled(rows * index_dim, Fill::e4m3, 3);
    weights_ = filled(rows * 4, Fill::f32, 4);
    pages_ = uploaded(cache_.all_pages());
    out_ = DeviceBuffer(wide(s_.queries()) * wide(s_.tokens) * 4);
    call_ = {q_.at(),      weights_.at<float>(),      nullptr,
             nullptr,      pages_.at<std::int32_t>(), cache_.pages_each(),
             s_.queries(), s_.queries_each,           heads,
             s_.tokens,    out_.at<float>()};
  }

  int copies() const override { return copies_; }
  void launch(int, int copy, cudaStream_t stream) override {
    IndexLogits call = call_;
    call.keys = keys_.at(wide(copy) * cache_.slots() * index_dim);
    call.key_scales = scales_.at<float>(wide(copy) * cache_.slots() * 4);
    must(index_logits(call, stream), "indexer logits");
  }

  // Two sequences of more than one strip of keys, the last one not full; queries that see one
  // token less than the next.
  std::string check() override { return Logits({2, 3, 700, 0}, call_.heads).compare(); }

 private:
  static std::vector<double> decoded(const DeviceBuffer& from, std::size_t first) {
    std::vector<double> out;
    for (const auto code : downloaded<std::uint8_t>(from, index_dim, first))
      out.push_back(reference::from_e4m3(code));
    return out;
  }

  std::string compare() {
    run_once([&](cudaStream_t stream) { launch(0, 0, stream); });
    std::vector<double> got, want;
    const auto heads = wide(call_.heads);
    for (int query = 0; query < s_.queries(); ++query) {
      const int sequence = query / s_.queries_each;
      const int seen = s_.tokens - s_.queries_each + query % s_.queries_each + 1;
      std::vector<std::vector<double>> q;
      std::vector<double> weights;
      for (std::size_t h = 0; h < heads; ++h)
        q.push_back(decoded(q_, (wide(query) * heads + h) * index_dim));
      for (const float w : downloaded<float>(weights_, heads, wide(query) * heads))
        weights.push_back(static_cast<double>(w));
      const auto row = downloaded<float>(out_, wide(seen), wide(query) * wide(s_.tokens));
      for (int token = 0; token < seen; token += token + 7 < seen ? 7 : 1) {
        const auto slot = static_cast<std::size_t>(cache_.slot(sequence, token));
        const auto scale = static_cast<double>(downloaded<float>(scales_, 1, slot)[0]);
        want.push_back(reference::index_score(q, weights, decoded(keys_, slot * index_dim), scale));
        got.push_back(static_cast<double>(row[wide(token)]));
      }
    }
    // Products are exact and the tensor cores add them in at least 14 bits.
    return compared("the indexer's logits", got, want, 0.002);
  }

  Size s_;
  PagedCache cache_;
  IndexLogits call_{};
  int copies_ = 2;
  DeviceBuffer keys_, scales_, q_, weights_, pages_, out_;
};

class TopK final : public MeasuredKernel {
 public:
  explicit TopK(const Size& size) : s_(size) {
    bytes_ = wide(s_.queries()) * wide(s_.tokens) * 4;
    copies_ = copies_in(s_.pool_bytes, static_cast<double>(bytes_));
    scores_ = filled(bytes_ * wide(copies_), Fill::f32, 1);
    picks_ = DeviceBuffer(wide(s_.queries()) * picks_count * 4);
  }

  int copies() const override { return copies_; }
  void launch(int, int copy, cudaStream_t stream) override {
    must(select_top(scores_.at<float>(wide(copy) * bytes_), s_.queries(), s_.queries_each,
                    s_.tokens, picks_count, picks_.at<std::int32_t>(), stream),
         "top-k");
  }

  std::string check() override {
    // Rows that see one score too few, just enough, one more, and many; most scores equal others.
    for (const Size& small : {Size{2, 3, picks_count + 1, 0}, Size{3, 1, 9000, 0}}) {
      TopK one(small);
      HostRandom random{5};
      std::vector<float> scores;
      for (std::size_t i = 0; i < one.bytes_ / 4; ++i)
        scores.push_back(static_cast<float>(static_cast<int>(random() * 64) - 32) / 8);
      one.scores_.upload(scores.data(), one.bytes_);
      if (auto wrong = one.compare(scores); !wrong.empty()) return wrong;
      TopK different(small);  // as filled: hardly two scores alike
      if (auto wrong = different.compare(downloaded<float>(different.scores_, one.bytes_ / 4));
          !wrong.empty())
        return wrong;
    }
    return "";
  }

 private:
  std::string compare(const std::vector<float>& scores) {
    run_once([&](cudaStream_t stream) { launch(0, 0, stream); });
    for (int row = 0; row < s_.queries(); ++row) {
      const int seen = s_.tokens - s_.queries_each + row % s_.queries_each + 1;
      const auto begin = scores.begin() + static_cast<std::ptrdiff_t>(row) * s_.tokens;
      const auto picks = downloaded<std::int32_t>(picks_, picks_count, wide(row) * picks_count);
      if (!reference::are_largest({begin, begin + seen}, picks, picks_count))
        return "top-k picked others than the 2,048 largest of " + std::to_string(seen);
    }
    return "";
  }

  Size s_;
  std::size_t bytes_ = 0;
  int copies_ = 2;
  DeviceBuffer scores_, picks_;
};

// Heads are not among the axes: 32 as in GLM-5, or what a word index_heads says.
const Registered<KernelSource> logits("dsa_indexer mma_fp8",
                                      {[](const MeasuredPoint& p, const Device&) {
                                        const auto heads = p.word("index_heads");
                                        return std::unique_ptr<MeasuredKernel>(
                                            std::make_unique<Logits>(
                                                size_of(p), heads.empty() ? 32 : std::stoi(heads)));
                                      }});
const Registered<KernelSource> top_k("dsa_top_k radix_select",
                                     {[](const MeasuredPoint& p, const Device&) {
                                       return std::unique_ptr<MeasuredKernel>(
                                           std::make_unique<TopK>(size_of(p)));
                                     }});

}  // namespace
