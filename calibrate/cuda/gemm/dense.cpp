// Dense GEMM: what cuBLASLt prefers for a shape, and the fastest of what it offers.

#include "calibrate/cuda/gemm/matmul.hpp"

namespace {

class Dense final : public MeasuredKernel {
 public:
  Dense(const MeasuredPoint& p, bool best)
      : dtype_(p.word("gemm_dtype")),
        product_({dtype_, p.size(0), p.size(1), p.size(2), 1}),
        copies_(copies_in(p.pool_bytes, static_cast<double>(product_.weight_bytes()))),
        weights_(product_.weight_bytes() * static_cast<std::size_t>(copies_)),
        activations_(product_.activation_bytes()),
        out_(product_.output_bytes()) {
    for (int i = 0; i < copies_; ++i)
      product_.fill_weights(copy(i), static_cast<std::uint64_t>(i), nullptr);
    product_.fill_activations(activations_.at(), 1u << 20, nullptr);
    if (best) algorithm_ = product_.fastest(copy(0), activations_.at(), out_.at(), nullptr);
    must(cudaDeviceSynchronize(), "preparing a product");
  }
  std::string check() override { return check_matmul(dtype_); }
  int copies() const override { return copies_; }
  void launch(int, int which, cudaStream_t stream) override {
    product_.run(algorithm_, copy(which), activations_.at(), out_.at(), stream);
  }

 private:
  void* copy(int i) const {
    return weights_.at(product_.weight_bytes() * static_cast<std::size_t>(i));
  }

  std::string dtype_;
  Matmul product_;
  int copies_;
  DeviceBuffer weights_, activations_, out_;
  std::size_t algorithm_ = 0;
};

template <bool best>
std::unique_ptr<MeasuredKernel> make(const MeasuredPoint& p, const Device&) {
  return std::make_unique<Dense>(p, best);
}
const Registered<KernelSource> first("gemm cublaslt", {make<false>});
const Registered<KernelSource> best("gemm cublaslt_best", {make<true>});

// The absorbed projections of MLA: one product of [tokens, 128] and [128, 512] per head.
class Absorbed final : public MeasuredKernel {
 public:
  explicit Absorbed(const MeasuredPoint& p)
      : product_({"bfloat16", 512, 128, p.size(1), p.size(0)}),
        copies_(copies_in(p.pool_bytes, static_cast<double>(product_.weight_bytes()))),
        weights_(product_.weight_bytes() * static_cast<std::size_t>(copies_)),
        activations_(product_.activation_bytes()),
        out_(product_.output_bytes()) {
    for (int i = 0; i < copies_; ++i)
      product_.fill_weights(copy(i), static_cast<std::uint64_t>(i), nullptr);
    product_.fill_activations(activations_.at(), 1u << 20, nullptr);
    must(cudaDeviceSynchronize(), "preparing a product");
  }
  std::string check() override { return check_matmul("bfloat16"); }
  int copies() const override { return copies_; }
  void launch(int, int which, cudaStream_t stream) override {
    product_.run(0, copy(which), activations_.at(), out_.at(), stream);
  }

 private:
  void* copy(int i) const {
    return weights_.at(product_.weight_bytes() * static_cast<std::size_t>(i));
  }
  Matmul product_;
  int copies_;
  DeviceBuffer weights_, activations_, out_;
};
const Registered<KernelSource> absorbed("mla_bmm cublaslt",
                                        {[](const MeasuredPoint& p,
                                            const Device&) -> std::unique_ptr<MeasuredKernel> {
                                          return std::make_unique<Absorbed>(p);
                                        }});

}  // namespace
