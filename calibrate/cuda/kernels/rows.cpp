// Small kernels, all of them bytes at a rate: quantisers under the class of static scales, alone
// and fused with what comes before them; activation, gather and copy under `elementwise`.

#include <algorithm>

#include "calibrate/cuda/harness/measured_kernel.hpp"
#include "calibrate/cuda/kernels/buffers.hpp"
#include "calibrate/cuda/kernels/host_random.hpp"
#include "calibrate/cuda/kernels/rows.hpp"
#include "calibrate/reference/experts.hpp"
#include "calibrate/reference/nvfp4.hpp"

namespace {

enum class Work { quantise, rms_norm_quantise, silu_mul_quantise, silu_mul, gather };

std::size_t wide(int n) { return static_cast<std::size_t>(n); }

/// Rows of k results each.
class Rows final : public MeasuredKernel {
 public:
  Rows(Work work, int k, int rows, double pool_bytes) : work_(work), k_(k), rows_(rows) {
    if (k_ < 16 || k_ % 16 != 0)
      throw Unsupported("these kernels need rows in steps of 16, not " + std::to_string(k_));
    in_each_ = wide(rows_) * wide(k_) * 2;
    if (work_ == Work::silu_mul || work_ == Work::silu_mul_quantise) in_each_ *= 2;
    copies_ = copies_in(pool_bytes, static_cast<double>(in_each_));
    in_ = filled(in_each_ * wide(copies_), Fill::bf16, 1);
    if (work_ == Work::rms_norm_quantise) {
      residual_ = filled(wide(rows_) * wide(k_) * 2, Fill::bf16, 2);
      weight_ = filled(wide(k_) * 2, Fill::bf16, 3);
    }
    if (quantised()) {
      const auto scales = reference::swizzled_scale_bytes(rows_, k_ / 16);
      out_ = DeviceBuffer(wide(rows_) * wide(k_) / 2);
      scales_ = DeviceBuffer(static_cast<std::size_t>(scales));
    } else {
      out_ = DeviceBuffer(wide(rows_) * wide(k_) * 2);
    }
    if (work_ == Work::gather) {
      HostRandom random{4};
      for (int i = 0; i < rows_; ++i)
        picked_.push_back(static_cast<std::int32_t>(random.next() % wide(rows_)));
      index_ = uploaded(picked_);
    }
  }

  int copies() const override { return copies_; }
  void launch(int, int copy, cudaStream_t stream) override {
    const void* in = in_.at(wide(copy) * in_each_);
    const Nvfp4Rows out{out_.at(), scales_.at<std::uint8_t>(), ScaleLayout::swizzled};
    switch (work_) {
      case Work::quantise:
        return must(quantise_rows(in, rows_, k_, out, stream), "quantising");
      case Work::rms_norm_quantise:
        return must(rms_norm_quantise(in, residual_.at(), weight_.at(), rows_, k_, out, stream),
                    "RMSNorm");
      case Work::silu_mul_quantise:
        return must(silu_mul_quantise(in, rows_, k_, k_, out, stream), "SiLU");
      case Work::silu_mul:
        return must(silu_mul(in, rows_, k_, k_, out_.at(), stream), "SiLU");
      case Work::gather:
        return must(
            gather_rows(in, index_.at<std::int32_t>(), rows_, wide(k_) * 2, out_.at(), stream),
            "gathering");
    }
  }

  // Two tiles of scales along the rows, columns that fill none.
  std::string check() override { return Rows(work_, 96, 150, 0).compare(); }

 private:
  bool quantised() const { return work_ != Work::silu_mul && work_ != Work::gather; }

  std::string compare() {
    const auto before = residual_.bytes() > 0 ? downloaded_bf16(residual_, wide(rows_) * wide(k_))
                                              : std::vector<double>();
    run_once([&](cudaStream_t stream) { launch(0, 0, stream); });
    std::vector<double> got, want;
    for (int row = 0; row < rows_; ++row) {
      const auto mine = expected(row, before);
      want.insert(want.end(), mine.begin(), mine.end());
      const auto out = result(row);
      got.insert(got.end(), out.begin(), out.end());
    }
    // Values on the border of two codes may fall to either side.
    return compared("the row kernel", got, want, quantised() ? 0.01 : 0.004);
  }

  reference::Row expected(int row, const std::vector<double>& residual) const {
    const auto input = [&](int which, int of) {
      return downloaded_bf16(in_, wide(k_), (wide(row) * wide(of) + wide(which)) * wide(k_));
    };
    reference::Row out;
    switch (work_) {
      case Work::gather:
        return downloaded_bf16(in_, wide(k_), wide(picked_[wide(row)]) * wide(k_));
      case Work::quantise:
        out = input(0, 1);
        break;
      case Work::rms_norm_quantise: {
        const auto begin = residual.begin() + static_cast<std::ptrdiff_t>(row) * k_;
        out = reference::rms_norm(input(0, 1), {begin, begin + k_},
                                  downloaded_bf16(weight_, wide(k_)));
        break;
      }
      case Work::silu_mul:
      case Work::silu_mul_quantise: {
        const auto gate = input(0, 2), up = input(1, 2);
        for (std::size_t i = 0; i < gate.size(); ++i)
          out.push_back(reference::silu(gate[i]) * up[i]);
        break;
      }
    }
    return quantised() ? reference::rounded_to_nvfp4(std::move(out)) : out;
  }

  reference::Row result(int row) const {
    if (!quantised()) return downloaded_bf16(out_, wide(k_), wide(row) * wide(k_));
    const auto codes = downloaded<std::uint8_t>(out_, wide(k_) / 2, wide(row) * wide(k_) / 2);
    const auto scales = downloaded<std::uint8_t>(scales_, scales_.bytes());
    reference::Row out;
    for (int i = 0; i < k_; ++i) {
      const auto scale =
          scales[static_cast<std::size_t>(reference::swizzled_scale(row, i / 16, k_ / 16))];
      const int code = codes[wide(i) / 2] >> (i % 2 * 4) & 15;
      out.push_back(reference::from_e2m1(static_cast<std::uint8_t>(code)) *
                    reference::from_ue4m3(scale));
    }
    return out;
  }

  Work work_;
  int k_, rows_, copies_ = 2;
  std::size_t in_each_ = 0;
  std::vector<std::int32_t> picked_;
  DeviceBuffer in_, residual_, weight_, out_, scales_, index_;
};

/// Copies from DRAM to DRAM: the ceiling of every kernel of this file.
class StreamCopy final : public MeasuredKernel {
 public:
  StreamCopy(std::size_t bytes, double pool_bytes)
      : bytes_(std::max<std::size_t>(16, bytes) / 16 * 16) {
    copies_ = copies_in(pool_bytes, 2 * static_cast<double>(bytes_));
    from_ = filled(bytes_ * wide(copies_), Fill::bf16, 1);
    to_ = DeviceBuffer(bytes_ * wide(copies_));
  }
  int copies() const override { return copies_; }
  void launch(int, int copy, cudaStream_t stream) override {
    const std::size_t at = wide(copy) * bytes_;
    must(stream_copy(from_.at(at), to_.at(at), bytes_, stream), "copying");
  }
  std::string check() override {
    constexpr std::size_t bytes = 16 * 5000;  // blocks that are full, and one that is not
    StreamCopy one(bytes, 0);
    run_once([&](cudaStream_t stream) { one.launch(0, 1, stream); });
    const bool same = downloaded<std::uint8_t>(one.from_, bytes, bytes) ==
                      downloaded<std::uint8_t>(one.to_, bytes, bytes);
    return same ? "" : "the copy differs from what it was made of";
  }

 private:
  std::size_t bytes_;
  int copies_ = 2;
  DeviceBuffer from_, to_;
};

// Axes: k, m.
template <Work work>
std::unique_ptr<MeasuredKernel> make(const MeasuredPoint& p, const Device&) {
  const auto dtype = p.word("quant_dtype");
  if (!dtype.empty() && dtype != "nvfp4")
    throw Unsupported("this kernel quantises to nvfp4, not " + dtype);
  return std::make_unique<Rows>(work, static_cast<int>(p.size(0)), static_cast<int>(p.size(1)),
                                p.pool_bytes);
}

const Registered<KernelSource> a("quantise_static nvfp4", {make<Work::quantise>});
const Registered<KernelSource> b("quantise_static rms_norm_nvfp4", {make<Work::rms_norm_quantise>});
const Registered<KernelSource> c("quantise_static silu_mul_nvfp4", {make<Work::silu_mul_quantise>});
const Registered<KernelSource> d("elementwise silu_mul", {make<Work::silu_mul>});
const Registered<KernelSource> e("elementwise gather", {make<Work::gather>});
const Registered<KernelSource> f(
    "elementwise stream_copy", {[](const MeasuredPoint& p, const Device&) {
      return std::unique_ptr<MeasuredKernel>(std::make_unique<StreamCopy>(
          static_cast<std::size_t>(p.size(0) * p.size(1) * 2), p.pool_bytes));
    }});

}  // namespace
