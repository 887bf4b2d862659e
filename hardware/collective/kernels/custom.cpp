// The custom all-reduce of vLLM and SGLang (csrc/custom_all_reduce.cuh and its Python wrapper, as
// of 2026-08): 2, 4, 6 or 8 ranks that NVLink joins, or two ranks with peer access; off beyond two
// PCIe GPUs. One-shot for two ranks, up to 512 KiB for four and 256 KiB for more, two-shot above.
// The largest size that goes this way is the build's business (8 MiB in both engines).

#include "hardware/collective/kernels/kernel.hpp"

namespace {

const CollectiveKernel& shot(const char* name) {
  return (*Registry<CollectiveKernelFactory>::find(name))();
}

class Custom final : public CollectiveKernel {
 public:
  bool supports(Collective op, const CollectiveBox& box) const override {
    const int n = box.ranks();
    return op == Collective::all_reduce && box.direct_stores() &&
           (n == 2 || (box.nvlink() && (n == 4 || n == 6 || n == 8)));
  }
  CollectivePrice price(Collective op, Bytes size, const CollectiveBox& box) const override {
    const int n = box.ranks();
    const Bytes one_shot_below((n <= 4 ? 512 : 256) * 1024);
    CollectivePrice out =
        shot(n == 2 || size < one_shot_below ? "one_shot" : "two_shot").price(op, size, box);
    out.kernel = "custom";
    return out;
  }
};

const CollectiveKernel& make() {
  static const Custom kernel;
  return kernel;
}

const Registered<CollectiveKernelFactory> me("custom", make);

}  // namespace
