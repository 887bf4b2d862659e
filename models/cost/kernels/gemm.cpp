// Dense GEMM C[m,n] = A[m,k] W[n,k]^T as measured: graph-replayed, a few weight copies in turn (so
// weights that fit the L2 together run warm), quantised kinds with the quantiser of the activations
// in the time. The longest of traffic, arithmetic and waves of 128 x 128 tiles that each walk K.
// Leaves out: tile shapes other than 128 x 128 and split-K, which the residual table carries.

#include <algorithm>
#include <cmath>

#include "models/cost/kernel_class.hpp"

namespace {

enum { start, bandwidth, warm, arithmetic, wave };

double tiles_waves(double m, double n, double sms) {
  return std::ceil(std::ceil(m / 128) * std::ceil(n / 128) / sms);
}

double law(const LawContext& c, const double* p, const double* x) {
  const double n = x[0], k = x[1], m = x[2];
  const double weights = n * k * c.weight_bytes, bytes = weights + 2 * m * (n + k);
  const double rate = c.bandwidth * (5 * weights < c.l2 ? p[warm] : p[bandwidth]);
  const double tile_us = 2.0 * 128 * 128 * k / (c.peak / c.sms);
  return p[start] + std::max({bytes / rate, 2 * m * n * k / (c.peak * p[arithmetic]),
                              tiles_waves(m, n, c.sms) * tile_us / p[wave]});
}

KernelBound bound(const LawContext& c, const double* x) {
  const double n = x[0], k = x[1], m = x[2];
  const double bytes = n * k * c.weight_bytes + 2 * m * (n + k);
  // what fits the L2 was measured warm: DRAM does not bound it
  return {2 * m * n * k / c.peak, bytes > c.l2 ? (bytes - c.l2) / c.bandwidth : 0};
}

// Weights come from DRAM; activations were just written. What the loop could not keep in the L2 was
// measured so already: of bf16 weights it cycles five or six copies, of others as few as one.
double cold(const LawContext& c, const double* p, const double* x) {
  const double weights = x[0] * x[1] * c.weight_bytes;
  const double copies = c.weight_bytes == 2 ? 5 : 1;
  if (copies * weights > c.l2) return p[start];
  return p[start] + weights / (c.bandwidth * p[bandwidth]);
}

const Registered<KernelClass> me("gemm", {"dense GEMM",
                                          {"gemm"},
                                          {"kernel_source", "gemm_dtype"},
                                          {{"n"}, {"k"}, {"m"}},
                                          2,
                                          {{"start_us", 3, 0.3, 60},
                                           {"bandwidth_efficiency", 0.8, 0.05, 1.5},
                                           {"warm_efficiency", 1.2, 0.05, 6},
                                           {"arithmetic_efficiency", 0.75, 0.03, 1.2},
                                           {"wave_efficiency", 0.5, 0.01, 20}},
                                          [](const GpuSpec& gpu,
                                             const std::map<std::string, std::string>& words) {
                                            const auto& dtype = word(words, "gemm_dtype");
                                            return law_context(gpu, dtype, dtype);
                                          },
                                          law,
                                          bound,
                                          cold});

}  // namespace
