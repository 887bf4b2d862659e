#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "calibrate/reference/bf16.hpp"
#include "calibrate/reference/nvfp4.hpp"
#include "sim/base/assert.hpp"

/// CPU references of expert layers and row kernels, in double.
namespace reference {

using Row = std::vector<double>;

inline double silu(double x) { return x / (1 + std::exp(-x)); }

/// What NVFP4 leaves of a row: blocks of 16, each with the scale largest / 6 in UE4M3.
inline Row rounded_to_nvfp4(Row row) {
  SIM_ASSERT(row.size() % 16 == 0);
  for (std::size_t begin = 0; begin < row.size(); begin += 16) {
    double largest = 0;
    for (std::size_t i = begin; i < begin + 16; ++i) largest = std::max(largest, std::abs(row[i]));
    const double scale = from_ue4m3(to_ue4m3(largest / 6));
    for (std::size_t i = begin; i < begin + 16; ++i)
      row[i] = scale > 0 ? from_e2m1(to_e2m1(row[i] / scale)) * scale : 0;
  }
  return row;
}

/// RMSNorm of x + residual, the sum rounded to bf16 as it is stored.
inline Row rms_norm(const Row& x, const Row& residual, const Row& weight) {
  Row out;
  double squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    out.push_back(rounded_to_bf16(x[i] + residual[i]));
    squares += out[i] * out[i];
  }
  const double factor = 1 / std::sqrt(squares / static_cast<double>(x.size()) + 1e-6);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] *= factor * weight[i];
  return out;
}

/// One expert on one row, as kernels that keep activations in bf16 or in NVFP4 between their GEMMs
/// compute it.
struct Expert {
  int hidden, inter;
  bool nvfp4_activations;
  double alpha_up, alpha_down;  // factors on the products

  /// `up(n, k)`: weights [2 inter, hidden], gates first; `down(n, k)`: [hidden, inter].
  template <class Up, class Down>
  Row operator()(const Row& input, Up up, Down down) const {
    const auto product = [](const Row& row, int n, auto& w) {
      double sum = 0;
      for (int k = 0; k < static_cast<int>(row.size()); ++k)
        sum += row[static_cast<std::size_t>(k)] * w(n, k);
      return sum;
    };
    const auto kept = [&](Row row) {
      if (nvfp4_activations) return rounded_to_nvfp4(std::move(row));
      for (double& v : row) v = rounded_to_bf16(v);
      return row;
    };
    const Row x = kept(input);
    Row middle, out;
    for (int n = 0; n < inter; ++n)
      middle.push_back(silu(rounded_to_bf16(product(x, n, up) * alpha_up)) *
                       rounded_to_bf16(product(x, inter + n, up) * alpha_up));
    middle = kept(std::move(middle));
    for (int n = 0; n < hidden; ++n)
      out.push_back(rounded_to_bf16(product(middle, n, down) * alpha_down));
    return out;
  }
};

}  // namespace reference
