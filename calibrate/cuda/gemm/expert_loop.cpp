// Routed experts as one cuBLASLt product after another, all in one graph: gate and up together,
// then down, for every expert that the routing touches. Rows are padded to the library's tiles
// expert by expert and nothing overlaps: an upper bound of what a grouped kernel needs. Activation,
// its quantiser and the combine are not in it.

#include <map>
#include <random>

#include "calibrate/cuda/gemm/matmul.hpp"
#include "calibrate/reference/indices.hpp"
#include "calibrate/reference/routing.hpp"

namespace {

constexpr int routings = 10;  // drawn, then repeated: as many as aiconfigurator's collector takes

class ExpertLoop final : public MeasuredKernel {
 public:
  explicit ExpertLoop(const MeasuredPoint& p)
      : dtype_(p.word("moe_dtype")),
        topk_(static_cast<int>(p.size(0))),
        all_experts_(static_cast<int>(p.size(1))),
        experts_(static_cast<int>(p.size(1) / p.size(4))),
        hidden_(p.size(2)),
        inter_(p.size(3) / p.size(5)),
        tokens_(static_cast<int>(p.size(6))) {
    for (int i = 0; i < routings; ++i) draw(p.word("distribution"), static_cast<unsigned>(i));
    const auto& some = products_.begin()->second;
    up_bytes_ = some.up.weight_bytes();
    layer_bytes_ = (up_bytes_ + some.down.weight_bytes()) * static_cast<std::size_t>(experts_);
    copies_ = copies_in(p.pool_bytes, static_cast<double>(layer_bytes_));
    weights_ = DeviceBuffer(layer_bytes_ * static_cast<std::size_t>(copies_));
    std::size_t in = 0, out = 0;
    for (const auto& [rows, pair] : products_)
      for (const Matmul* m : {&pair.up, &pair.down}) {
        in = std::max(in, m->activation_bytes());
        out = std::max(out, m->output_bytes());
      }
    activations_ = DeviceBuffer(in);
    out_ = DeviceBuffer(out);
    for (int c = 0; c < copies_; ++c)
      for (int e = 0; e < experts_; ++e) {
        some.up.fill_weights(up_of(c, e), static_cast<std::uint64_t>(e), nullptr);
        some.down.fill_weights(down_of(c, e), static_cast<std::uint64_t>(e) + 1000, nullptr);
      }
    // the widest: every product finds codes and scales somewhere in it
    products_.rbegin()->second.up.fill_activations(activations_.at(), 1u << 20, nullptr);
    must(cudaDeviceSynchronize(), "preparing the experts");
  }
  std::string check() override { return check_matmul(dtype_); }
  int copies() const override { return copies_; }

  void launch(int i, int copy, cudaStream_t stream) override {
    const auto& rows_of = rows_[static_cast<std::size_t>(i % routings)];
    for (int e = 0; e < experts_; ++e) {
      const int rows = rows_of[static_cast<std::size_t>(e)];
      if (rows == 0) continue;
      const Pair& pair = products_.at(rows);
      pair.up.run(0, up_of(copy, e), activations_.at(), out_.at(), stream);
      pair.down.run(0, down_of(copy, e), activations_.at(), out_.at(), stream);
    }
  }

 private:
  struct Pair {
    Matmul up, down;
  };
  void draw(const std::string& distribution, unsigned seed) {
    std::mt19937_64 random(seed);
    const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
    const std::string power_law = "power_law_";
    const auto picks = distribution.rfind(power_law, 0) == 0
                           ? reference::draw_routing(
                                 tokens_, topk_,
                                 reference::power_law_weights(
                                     all_experts_, tokens_, topk_,
                                     std::stod(distribution.substr(power_law.size())), uniform),
                                 uniform)
                           : reference::balanced_routing(
                                 tokens_, topk_, all_experts_,
                                 static_cast<int>(random() % static_cast<unsigned>(all_experts_)));
    const auto sorted = reference::most_loaded_rank(picks, all_experts_, all_experts_ / experts_);
    std::vector<int> rows;
    for (std::size_t e = 0; e + 1 < sorted.offsets.size(); ++e) {
      rows.push_back(sorted.offsets[e + 1] - sorted.offsets[e]);
      if (rows.back() > 0 && !products_.count(rows.back()))
        products_.emplace(rows.back(), Pair{Matmul({dtype_, 2 * inter_, hidden_, rows.back(), 1}),
                                            Matmul({dtype_, hidden_, inter_, rows.back(), 1})});
    }
    rows_.push_back(std::move(rows));
  }
  void* up_of(int copy, int expert) const {
    return weights_.at(layer_bytes_ * static_cast<std::size_t>(copy) +
                       layer_bytes_ / static_cast<std::size_t>(experts_) *
                           static_cast<std::size_t>(expert));
  }
  void* down_of(int copy, int expert) const {
    return static_cast<unsigned char*>(up_of(copy, expert)) + up_bytes_;
  }

  std::string dtype_;
  int topk_, all_experts_, experts_;  // of the model, of this rank
  long long hidden_, inter_;
  int tokens_, copies_ = 2;
  std::map<int, Pair> products_;  // by rows of an expert
  std::vector<std::vector<int>> rows_;
  std::size_t up_bytes_ = 0, layer_bytes_ = 0;
  DeviceBuffer weights_, activations_, out_;
};

const Registered<KernelSource> me("moe cublaslt_loop",
                                  {[](const MeasuredPoint& p,
                                      const Device&) -> std::unique_ptr<MeasuredKernel> {
                                    return std::make_unique<ExpertLoop>(p);
                                  }});

}  // namespace
