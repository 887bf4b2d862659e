// Attention as cuDNN runs it: prefill of one batch of prompts, decode of one token per sequence on
// a paged cache whose pages lie scattered.
// Leaves out: caches in FP8 (cuDNN has none for these sizes on SM120), sliding windows.

#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <random>

#include "calibrate/cuda/attention/attention_graphs.hpp"
#include "calibrate/cuda/harness/basics.hpp"
#include "calibrate/cuda/harness/measured_kernel.hpp"
#include "calibrate/reference/attention.hpp"
#include "calibrate/reference/indices.hpp"

namespace {

void must_run(cudnnStatus_t code, const char* what) {
  if (code != CUDNN_STATUS_SUCCESS)
    throw GpuError(std::string(what) + ": " + cudnnGetErrorString(code));
}
cudnnHandle_t handle() {
  static cudnnHandle_t one = [] {
    cudnnHandle_t made = nullptr;
    must_run(cudnnCreate(&made), "starting cuDNN");
    return made;
  }();
  return one;
}

// Buffers of one attention call and of `copies` caches that calls rotate over.
class Attention {
 public:
  Attention(const AttentionShape& s, bool decode, double pool_bytes)
      : s_(s),
        decode_(decode),
        graph_(decode ? decode_graph(s) : prefill_graph(s)),
        plan_(graph_.graph.plan(handle())) {
    scale_ = static_cast<float>(1 / std::sqrt(static_cast<double>(s.dim)));
    // MLA decodes from one latent that is keys and values at once.
    shared_ = decode && s.dim != s.value_dim;
    const auto tokens = s.batch * (decode ? pages() * attention_page : s.length);
    key_bytes_ = bytes_of(tokens * s.kv_heads * s.dim);
    value_bytes_ = shared_ ? 0 : bytes_of(tokens * s.kv_heads * s.value_dim);
    copies_ = copies_in(pool_bytes, static_cast<double>(key_bytes_ + value_bytes_));
    cache_ = DeviceBuffer((key_bytes_ + value_bytes_) * static_cast<std::size_t>(copies_));
    query_ = DeviceBuffer(bytes_of(s.batch * s.heads * s.query_rows * s.dim));
    out_ = DeviceBuffer(bytes_of(s.batch * s.heads * s.query_rows * s.value_dim));
    workspace_ = DeviceBuffer(static_cast<std::size_t>(std::max<std::int64_t>(plan_.workspace, 1)));
    must(fill_random(cache_.at(), cache_.bytes(), Fill::bf16, 1, nullptr), "filling the cache");
    must(fill_random(query_.at(), query_.bytes(), Fill::bf16, 2, nullptr), "filling the queries");
    if (decode) scatter_pages();
    for (int i = 0; i < copies_; ++i) packs_.push_back(pack(i));
    must(cudaDeviceSynchronize(), "preparing attention");
  }

  int copies() const { return copies_; }
  void run(int copy, cudaStream_t stream) {
    must_run(cudnnSetStream(handle(), stream), "choosing a stream");
    must_run(cudnnBackendExecute(handle(), plan_.descriptor.get(),
                                 packs_[static_cast<std::size_t>(copy)].get()),
             "launching attention");
  }

  // The largest difference from the reference over the largest element of it, on copy 0.
  double error() {
    run(0, nullptr);
    must(cudaDeviceSynchronize(), "running the check");
    const auto q = values(query_, 0, query_.bytes()), k = values(cache_, 0, key_bytes_),
               v = shared_ ? k : values(cache_, key_bytes_, value_bytes_),
               got = values(out_, 0, out_.bytes());
    const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
    double largest = 0, worst = 0;
    for (std::int64_t b = 0; b < s_.batch; ++b)
      for (std::int64_t h = 0; h < s_.heads; ++h)
        for (std::int64_t row = 0; row < s_.query_rows; ++row) {
          // [batch, rows, heads, dim]
          const auto token = b * s_.query_rows + row;
          const auto* query = q.data() + (token * s_.heads + h) * s_.dim;
          const auto kv_head = h * s_.kv_heads / s_.heads;
          const auto slot = [&](std::int64_t j) {
            return decode_ ? reference::paged_slot(pages_[at(b)], attention_page, j)
                           : b * s_.length + j;
          };
          std::vector<std::vector<double>> keys, vectors;
          for (std::int64_t j = 0; j < (decode_ ? s_.length : row + 1); ++j) {
            const auto* key = k.data() + (slot(j) * s_.kv_heads + kv_head) * s_.dim;
            const auto width = shared_ ? s_.dim : s_.value_dim;
            const auto* value = v.data() + (slot(j) * s_.kv_heads + kv_head) * width;
            keys.emplace_back(key, key + s_.dim);
            vectors.emplace_back(value, value + s_.value_dim);
          }
          const auto want =
              reference::attend(std::vector<double>(query, query + s_.dim), keys, vectors,
                                at(s_.value_dim), static_cast<double>(scale_));
          for (std::int64_t i = 0; i < s_.value_dim; ++i) {
            const double is = got[at((token * s_.heads + h) * s_.value_dim + i)];
            largest = std::max(largest, std::abs(want[at(i)]));
            worst = std::max(worst, std::abs(is - want[at(i)]));
          }
        }
    return worst / largest;
  }

 private:
  static std::size_t bytes_of(std::int64_t elements) {
    return (static_cast<std::size_t>(elements) * 2 + 255) / 256 * 256;
  }
  std::int64_t pages() const { return (s_.length + attention_page - 1) / attention_page; }

  void scatter_pages() {
    std::vector<std::int32_t> order(static_cast<std::size_t>(s_.batch * pages()));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(7));
    const std::vector<std::int32_t> lengths(static_cast<std::size_t>(s_.batch),
                                            static_cast<std::int32_t>(s_.length)),
        ones(static_cast<std::size_t>(s_.batch), 1);
    page_table_ = DeviceBuffer(order.size() * 4);
    page_table_.upload(order.data(), order.size() * 4);
    lengths_ = DeviceBuffer(lengths.size() * 8);
    lengths_.upload(lengths.data(), lengths.size() * 4);
    lengths_.upload(ones.data(), ones.size() * 4, lengths.size() * 4);
    for (std::int64_t b = 0; b < s_.batch; ++b)
      pages_.emplace_back(order.begin() + b * pages(), order.begin() + (b + 1) * pages());
  }

  CudnnDescriptor pack(int copy) {
    const AttentionTensors& t = graph_.at;
    auto* keys = cache_.at((key_bytes_ + value_bytes_) * static_cast<std::size_t>(copy));
    auto* values =
        shared_ ? keys : static_cast<void*>(static_cast<unsigned char*>(keys) + key_bytes_);
    std::vector<std::int64_t> ids;
    std::vector<void*> data;
    const auto bind = [&](Tensor id, void* at) {
      if (id < 0) return;
      ids.push_back(id);
      data.push_back(at);
    };
    bind(t.q, query_.at());
    bind(t.k, keys);
    bind(t.v, values);
    bind(t.out, out_.at());
    bind(t.scale, &scale_);
    bind(t.minus_infinity, &minus_infinity_);
    bind(t.pages_k, page_table_.at());
    bind(t.pages_v, page_table_.at());
    bind(t.length_kv, lengths_.at());
    bind(t.length_q, lengths_.at(static_cast<std::size_t>(s_.batch) * 4));
    CudnnDescriptor out(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    const auto count = static_cast<std::int64_t>(ids.size());
    void* workspace = workspace_.at();
    out.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, data.data());
    out.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data());
    out.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    out.finish();
    return out;
  }

  static std::vector<double> values(const DeviceBuffer& buffer, std::size_t at, std::size_t bytes) {
    std::vector<std::uint16_t> raw(bytes / 2);
    buffer.download(raw.data(), bytes, at);
    std::vector<double> out;
    for (const auto bits : raw) {
      const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
      float value = 0;
      std::memcpy(&value, &wide, sizeof value);
      out.push_back(static_cast<double>(value));
    }
    return out;
  }

  AttentionShape s_;
  bool decode_, shared_ = false;
  AttentionGraph graph_;
  CudnnGraph::Plan plan_;
  float scale_ = 1, minus_infinity_ = -INFINITY;
  std::size_t key_bytes_ = 0, value_bytes_ = 0;
  int copies_ = 2;
  DeviceBuffer cache_, query_, out_, workspace_, page_table_, lengths_;
  std::vector<std::vector<std::int32_t>> pages_;  // of each sequence, on the host
  std::vector<CudnnDescriptor> packs_;
};

class Measured final : public MeasuredKernel {
 public:
  Measured(const AttentionShape& shape, bool decode, double pool_bytes)
      : shape_(shape), decode_(decode), attention_(shape, decode, pool_bytes) {}

  // A small call of the same heads and widths; once per process and kind.
  std::string check() override {
    static std::map<std::vector<std::int64_t>, double> known;
    AttentionShape small = shape_;
    small.batch = 2;
    small.length = decode_ ? 100 : 96;
    small.query_rows = decode_ ? 1 : 96;
    const std::vector<std::int64_t> kind{decode_, small.heads, small.kv_heads, small.dim,
                                         small.value_dim};
    auto it = known.find(kind);
    if (it == known.end()) it = known.emplace(kind, Attention(small, decode_, 0).error()).first;
    return it->second <= 2e-2 ? ""
                              : "it differs from the reference by " + std::to_string(it->second) +
                                    " of the largest element";
  }
  int copies() const override { return attention_.copies(); }
  void launch(int, int copy, cudaStream_t stream) override { attention_.run(copy, stream); }

 private:
  AttentionShape shape_;
  bool decode_;
  Attention attention_;
};

void only_bf16(const MeasuredPoint& p) {
  if (p.word("kv_cache_dtype") != "bfloat16")
    throw Unsupported("cuDNN is asked for caches in bfloat16 only");
}

std::unique_ptr<MeasuredKernel> grouped(const MeasuredPoint& p, bool decode) {
  only_bf16(p);
  AttentionShape s;
  s.dim = s.value_dim = std::stoll(p.word("head_dim"));
  s.kv_heads = p.size(0);
  s.heads = p.size(1);
  s.batch = p.size(2);
  s.length = decode ? p.size(3) + 1 : p.size(3);  // the new token after `step` past ones
  s.query_rows = decode ? 1 : s.length;
  return std::make_unique<Measured>(s, decode, p.pool_bytes);
}
std::unique_ptr<MeasuredKernel> latent(const MeasuredPoint& p, bool decode) {
  only_bf16(p);
  AttentionShape s;
  s.heads = p.size(0);
  s.kv_heads = decode ? 1 : s.heads;
  s.dim = decode ? 576 : 192;
  s.value_dim = decode ? 512 : 128;
  s.batch = p.size(1);
  s.length = decode ? p.size(2) + 1 : p.size(2);
  s.query_rows = decode ? 1 : s.length;
  return std::make_unique<Measured>(s, decode, p.pool_bytes);
}

template <std::unique_ptr<MeasuredKernel> (*of)(const MeasuredPoint&, bool), bool decode>
std::unique_ptr<MeasuredKernel> make(const MeasuredPoint& p, const Device&) {
  return of(p, decode);
}
const Registered<KernelSource> sources[] = {{"context_attention cudnn", {make<grouped, false>}},
                                            {"generation_attention cudnn", {make<grouped, true>}},
                                            {"context_mla cudnn", {make<latent, false>}},
                                            {"generation_mla cudnn", {make<latent, true>}}};

}  // namespace
