// Routed experts of one layer on the most loaded rank: quantise (block_scale), gate and up, SiLU,
// down, weighted combine; every launch with a routing of its own. Leaves out: the router and its
// top-k, and the sorting of rows, which the host does; engines pad and fuse otherwise.

#include <algorithm>
#include <cmath>

#include "calibrate/cuda/harness/measured_kernel.hpp"
#include "calibrate/cuda/kernels/buffers.hpp"
#include "calibrate/cuda/kernels/experts.hpp"
#include "calibrate/cuda/kernels/host_random.hpp"
#include "calibrate/cuda/kernels/rows.hpp"
#include "calibrate/reference/experts.hpp"
#include "calibrate/reference/fragments.hpp"
#include "calibrate/reference/nvfp4.hpp"

namespace {

// In the order of the class's axes: models/cost/kernels/moe.cpp.
enum { axis_top_k, axis_experts, axis_hidden, axis_inter, axis_ep, axis_tp, axis_tokens };

struct Size {
  ExpertKind kind;
  int tokens, top_k, experts, ranks;  // of the model; `ranks` share the experts
  int hidden, inter;                  // inter: of this rank
  std::string distribution;           // "balanced" or "power_law_A"
  double pool_bytes;
  int launches;
  int tile_rows;  // 0: chosen by the rows per expert
};

int padded(int k) { return (k + expert_k_step - 1) / expert_k_step * expert_k_step; }

reference::ExpertRows routed(const Size& s, HostRandom& random) {
  if (s.distribution == "balanced") {
    const int first = static_cast<int>(random() * s.experts);
    return reference::most_loaded_rank(
        reference::balanced_routing(s.tokens, s.top_k, s.experts, first), s.experts, s.ranks);
  }
  const std::string prefix = "power_law_";
  double exponent = 0;
  if (s.distribution.rfind(prefix, 0) == 0)
    exponent = std::strtod(s.distribution.c_str() + prefix.size(), nullptr);
  if (!(exponent > 1))
    throw Unsupported("no routing is known for distribution '" + s.distribution + "'");
  const auto weights = reference::power_law_weights(s.experts, s.tokens, s.top_k, exponent, random);
  return reference::most_loaded_rank(reference::shared_routing(s.tokens, s.top_k, weights),
                                     s.experts, s.ranks);
}

class Experts final : public MeasuredKernel {
 public:
  explicit Experts(const Size& size) : s_(size), local_(size.experts / size.ranks) {
    if (s_.hidden % expert_k_step != 0 || s_.inter % 16 != 0)
      throw Unsupported(
          "these kernels need a hidden size in steps of 128 and an inner size in "
          "steps of 16, not " +
          std::to_string(s_.hidden) + " and " + std::to_string(s_.inter));
    route();
    make_weights();
    const auto rows = static_cast<std::size_t>(std::max(rows_max_, 1));
    const auto tokens = static_cast<std::size_t>(s_.tokens), hidden = wide(s_.hidden);
    x_ = filled(tokens * hidden * 2, Fill::bf16, 1);
    middle_ = DeviceBuffer(rows * wide(s_.inter) * 4);
    y_ = DeviceBuffer(rows * hidden * 2);
    out_ = DeviceBuffer(tokens * hidden * 2);
    if (s_.kind == ExpertKind::block_scale) {
      x_codes_ = DeviceBuffer(tokens * hidden / 2);
      x_scales_ = DeviceBuffer(tokens * hidden / 16);
      act_ = DeviceBuffer(rows * inner() / 2);
      act_scales_ = DeviceBuffer(rows * inner() / 16);
    } else {
      act_ = DeviceBuffer(rows * inner() * 2);
    }
  }

  int copies() const override { return copies_; }

  void launch(int i, int copy, cudaStream_t stream) override {
    const Routing& r = routings_[static_cast<std::size_t>(i) % routings_.size()];
    const auto c = static_cast<std::size_t>(copy);
    const bool fp4 = s_.kind == ExpertKind::block_scale;
    const Nvfp4Rows x{x_codes_.at(), x_scales_.at<std::uint8_t>(), ScaleLayout::rows};
    const Nvfp4Rows act{act_.at(), act_scales_.at<std::uint8_t>(), ScaleLayout::rows};
    if (fp4) must(quantise_rows(x_.at(), s_.tokens, s_.hidden, x, stream), "quantising");
    const auto* tiles = ints_.at<reference::ExpertTile>(r.tiles_at);
    must(grouped_gemm(s_.kind, s_.tile_rows,
                      {fp4 ? x_codes_.at() : x_.at(), x.scales, up_.at(c * up_bytes_),
                       up_scales_.at<std::uint8_t>(c * up_scale_bytes_),
                       ints_.at<std::int32_t>(r.sources_at), tiles, middle_.at(), 2 * s_.inter,
                       s_.hidden, alpha_up()},
                      r.tiles, stream),
         "the gate and up GEMM");
    if (fp4)
      must(silu_mul_quantise(middle_.at(), r.rows, s_.inter, padded(s_.inter), act, stream),
           "the activation");
    else
      must(silu_mul(middle_.at(), r.rows, s_.inter, padded(s_.inter), act_.at(), stream),
           "the activation");
    must(grouped_gemm(s_.kind, s_.tile_rows,
                      {act_.at(), act.scales, down_.at(c * down_bytes_),
                       down_scales_.at<std::uint8_t>(c * down_scale_bytes_), nullptr, tiles,
                       y_.at(), s_.hidden, padded(s_.inter), alpha_down()},
                      r.tiles, stream),
         "the down GEMM");
    must(combine_rows(y_.at(), ints_.at<std::int32_t>(r.positions_at), weights_.at<float>(),
                      s_.tokens, s_.top_k, s_.hidden, out_.at(), stream),
         "the combine");
  }

  std::string check() override {
    Size small = s_;
    // A tile that is full, one that is not, an expert of a second tile; more steps of K than the
    // ring has places, columns beyond the last tile, and a padded inner size.
    small.tokens = std::max(24, s_.tile_rows * 5 / 4);
    small.top_k = 2;
    small.experts = 4;
    small.ranks = 1;
    small.hidden = 768;
    small.inter = 80;
    small.distribution = "power_law_1.01";
    small.pool_bytes = 0;
    small.launches = 2;
    return Experts(small).compare();
  }

 private:
  struct Routing {
    std::size_t tiles_at, sources_at, positions_at;  // bytes in ints_
    int tiles, rows;
  };

  static std::size_t wide(int n) { return static_cast<std::size_t>(n); }
  std::size_t inner() const { return wide(padded(s_.inter)); }
  // Root mean square of a weight: codes 2.9 x scales 1.2, or uniform. Keeps activations near 1.
  double weight_size() const { return s_.kind == ExpertKind::bf16 ? 0.6 : 3.5; }
  float alpha_up() const {
    return static_cast<float>(2 / (weight_size() * std::sqrt(static_cast<double>(s_.hidden))));
  }
  float alpha_down() const {
    return static_cast<float>(2 / (weight_size() * std::sqrt(static_cast<double>(s_.inter))));
  }

  void route() {
    HostRandom random{7};
    std::vector<reference::ExpertRows> all;
    for (int i = 0; i < std::max(s_.launches, 1); ++i) all.push_back(routed(s_, random));
    if (s_.tile_rows == 0) {
      const double per_expert =
          static_cast<double>(all[0].rows.size()) / std::max(all[0].distinct(), 1);
      s_.tile_rows = per_expert <= 16 ? 16 : per_expert <= 64 ? 64 : 128;
    }
    std::vector<std::int32_t> ints;
    for (const auto& rows : all) {
      const auto tiles = reference::expert_tiles(rows, s_.tile_rows);
      Routing r{};
      r.tiles = static_cast<int>(tiles.size());
      r.rows = static_cast<int>(rows.rows.size());
      rows_max_ = std::max(rows_max_, r.rows);
      ints.resize((ints.size() + 3) / 4 * 4);  // tiles are read 16 bytes at a time
      r.tiles_at = ints.size() * 4;
      for (const auto& t : tiles) ints.insert(ints.end(), {t.expert, t.first, t.rows, t.unused});
      r.sources_at = ints.size() * 4;
      for (const auto pair : rows.rows) ints.push_back(pair / s_.top_k);
      r.positions_at = ints.size() * 4;
      const std::size_t positions = ints.size();
      ints.resize(positions + wide(s_.tokens) * wide(s_.top_k), -1);
      for (std::size_t i = 0; i < rows.rows.size(); ++i)
        ints[positions + wide(rows.rows[i])] = static_cast<std::int32_t>(i);
      routings_.push_back(r);
    }
    first_ = all[0];
    ints_ = uploaded(ints);
    std::vector<float> weights;
    for (int i = 0; i < s_.tokens * s_.top_k; ++i)
      weights.push_back(static_cast<float>((0.5 + random()) / s_.top_k));
    host_weights_ = weights;
    weights_ = uploaded(weights);
  }

  void make_weights() {
    const std::size_t up = wide(local_) * 2 * wide(s_.inter) * wide(s_.hidden);
    const std::size_t down = wide(local_) * wide(s_.hidden) * inner();
    const bool plain = s_.kind == ExpertKind::bf16;
    up_bytes_ = plain ? up * 2 : up / 2;
    down_bytes_ = plain ? down * 2 : down / 2;
    up_scale_bytes_ = plain ? 0 : up / 16;
    down_scale_bytes_ = plain ? 0 : down / 16;
    copies_ = copies_in(s_.pool_bytes, static_cast<double>(up_bytes_ + down_bytes_ +
                                                           up_scale_bytes_ + down_scale_bytes_));
    const auto n = static_cast<std::size_t>(copies_);
    up_ = filled(up_bytes_ * n, plain ? Fill::bf16 : Fill::e2m1, 2);
    down_ = filled(down_bytes_ * n, plain ? Fill::bf16 : Fill::e2m1, 3);
    up_scales_ = filled(up_scale_bytes_ * n, Fill::ue4m3, 4);
    down_scales_ = filled(down_scale_bytes_ * n, Fill::ue4m3, 5);
  }

  // Weights of copy 0 as numbers, [experts, n, k].
  std::vector<double> decoded(const DeviceBuffer& codes, const DeviceBuffer& scales,
                              std::size_t count) const {
    if (s_.kind == ExpertKind::bf16) return downloaded_bf16(codes, count);
    const auto bytes = downloaded<std::uint8_t>(codes, count / 2);
    const auto scale = downloaded<std::uint8_t>(scales, count / 16);
    std::vector<double> out;
    for (std::size_t i = 0; i < count; ++i) {
      // w4a16 keeps each eight elements of a word in its own order
      const std::size_t nibble =
          s_.kind == ExpertKind::w4a16
              ? i / 8 * 8 + wide(fragments::nibble_of(static_cast<int>(i % 8)))
              : i;
      const int code = bytes[nibble / 2] >> (nibble % 2 * 4) & 15;
      out.push_back(reference::from_e2m1(static_cast<std::uint8_t>(code)) *
                    reference::from_ue4m3(scale[i / 16]));
    }
    return out;
  }

  std::string compare() {
    run_once([&](cudaStream_t stream) { launch(0, 0, stream); });
    const std::size_t hidden = wide(s_.hidden), inter = wide(s_.inter);
    const auto up = decoded(up_, up_scales_, wide(local_) * 2 * inter * hidden);
    const auto down = decoded(down_, down_scales_, wide(local_) * hidden * inner());
    std::vector<std::size_t> expert_of(wide(s_.tokens) * wide(s_.top_k));
    for (std::size_t e = 0; e + 1 < first_.offsets.size(); ++e)
      for (auto i = first_.offsets[e]; i < first_.offsets[e + 1]; ++i)
        expert_of[wide(first_.rows[wide(i)])] = e;
    const reference::Expert one{s_.hidden, s_.inter, s_.kind == ExpertKind::block_scale,
                                static_cast<double>(alpha_up()), static_cast<double>(alpha_down())};
    std::vector<double> got, want;
    for (int t = 0; t < s_.tokens; t += std::max(1, s_.tokens / 24)) {
      const auto x = downloaded_bf16(x_, hidden, wide(t) * hidden);
      std::vector<double> sum(hidden);
      for (int k = 0; k < s_.top_k; ++k) {
        const std::size_t pair = wide(t * s_.top_k + k), e = expert_of[pair];
        const auto y = one(
            x, [&](int n, int at) { return up[(e * 2 * inter + wide(n)) * hidden + wide(at)]; },
            [&](int n, int at) { return down[(e * hidden + wide(n)) * inner() + wide(at)]; });
        for (std::size_t h = 0; h < hidden; ++h)
          sum[h] += static_cast<double>(host_weights_[pair]) * y[h];
      }
      want.insert(want.end(), sum.begin(), sum.end());
      const auto row = downloaded_bf16(out_, hidden, wide(t) * hidden);
      got.insert(got.end(), row.begin(), row.end());
    }
    // Roundings of bf16; of NVFP4 also codes that fall to the other side of a tie.
    return compared("the expert layer", got, want,
                    s_.kind == ExpertKind::block_scale ? 0.02 : 0.01);
  }

  Size s_;
  int local_, copies_ = 2, rows_max_ = 0;
  std::vector<Routing> routings_;
  reference::ExpertRows first_;
  std::vector<float> host_weights_;
  std::size_t up_bytes_ = 0, down_bytes_ = 0, up_scale_bytes_ = 0, down_scale_bytes_ = 0;
  DeviceBuffer ints_, weights_, up_, up_scales_, down_, down_scales_;
  DeviceBuffer x_, x_codes_, x_scales_, middle_, act_, act_scales_, y_, out_;
};

std::unique_ptr<MeasuredKernel> make(ExpertKind kind, const char* dtype, const MeasuredPoint& p) {
  if (p.word("moe_dtype") != dtype)
    throw Unsupported("this kernel takes " + std::string(dtype) + ", not " + p.word("moe_dtype"));
  const auto size = [&](std::size_t axis) { return static_cast<int>(p.size(axis)); };
  Size s{};
  s.kind = kind;
  s.tokens = size(axis_tokens);
  s.top_k = size(axis_top_k);
  s.experts = size(axis_experts);
  s.ranks = std::max(1, size(axis_ep));
  s.hidden = size(axis_hidden);
  s.inter = size(axis_inter) / std::max(1, size(axis_tp));
  s.distribution = p.word("distribution");
  s.pool_bytes = p.pool_bytes;
  s.launches = p.launches;
  if (s.top_k < 1 || s.top_k > s.experts || s.experts % s.ranks != 0)
    throw Unsupported("the experts cannot be shared out so");
  return std::make_unique<Experts>(s);
}

const Registered<KernelSource> block_scale(
    "moe block_scale", {[](const MeasuredPoint& p, const Device& device) {
      if (!device.is_sm120())
        throw Unsupported("block-scaled mma.sync needs compute capability 12.x; " + device.name +
                          " is " + std::to_string(device.major) + "." +
                          std::to_string(device.minor));
      return make(ExpertKind::block_scale, "nvfp4", p);
    }});
const Registered<KernelSource> w4a16("moe w4a16", {[](const MeasuredPoint& p, const Device&) {
                                       return make(ExpertKind::w4a16, "nvfp4", p);
                                     }});
const Registered<KernelSource> bf16("moe bf16", {[](const MeasuredPoint& p, const Device&) {
                                      return make(ExpertKind::bf16, "bfloat16", p);
                                    }});

}  // namespace
