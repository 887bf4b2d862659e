#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "models/cost/kernel_table.hpp"

/// Kernel tables and rows made of formulas, on a card of round numbers.
namespace tiny {

/// 400 TFLOP/s and 2 TB/s: 4e8 FLOP and 2e6 bytes in a microsecond.
inline GpuSpec gpu() {
  GpuSpec g;
  g.id = g.name = "tiny";
  g.sm_count = 128;
  g.l2 = Bytes(std::int64_t{64} << 20);
  g.memory = Bytes(std::int64_t{64} << 30);
  g.memory_bandwidth = BytesPerSecond(2e12);
  g.bf16 = FlopsPerSecond(4e14);
  g.fp8 = FlopsPerSecond(8e14);
  g.nvfp4 = FlopsPerSecond(16e14);
  return g;
}

/// A value for every word of a class.
inline std::map<std::string, std::string> words(const KernelClass& kind,
                                                const std::string& dtype = "bfloat16") {
  std::map<std::string, std::string> out;
  for (const auto& id : kind.words)
    out[id] = id.ends_with("dtype") || id == "gemm_type" ? dtype
              : id == "head_dim"                         ? "128"
              : id == "window_size"                      ? "0"
              : id == "num_gpus"                         ? "8"
                                                         : "formula";
  return out;
}

inline std::vector<double> guesses(const KernelClass& kind) {
  std::vector<double> out;
  for (const auto& p : kind.parameters) out.push_back(p.guess);
  return out;
}

/// Values per axis of a class, ascending.
using Grid = std::vector<std::vector<double>>;

/// Calls `visit(x)` at every point of the first `axes` axes of a grid, in the order of the shapes.
inline void for_each_point(const Grid& grid, std::size_t axes,
                           const std::function<void(const Coordinates&)>& visit) {
  Coordinates x{};
  const std::function<void(std::size_t)> walk = [&](std::size_t a) {
    if (a == axes) return visit(x);
    for (const double value : grid[a]) {
      x[a] = value;
      walk(a + 1);
    }
  };
  walk(0);
}

/// A set with the guessed law and a ratio per point of the grid; not yet prepared.
inline KernelSet set(const std::string& kernel_class, const Grid& grid,
                     const std::function<double(const Coordinates&)>& ratio) {
  const KernelClass& kind = *KernelClasses::find(kernel_class);
  KernelSet out;
  out.kernel_class = kernel_class;
  out.engine = "sglang";
  out.version = "0.5.14";
  out.words = words(kind);
  out.source = "a formula";
  out.parameters = guesses(kind);
  out.columns = grid.back();
  const std::size_t curve = grid.size() - 1;
  for_each_point(grid, curve, [&](const Coordinates& shape) {
    out.shapes.push_back(shape);
    Coordinates x = shape;
    for (const double column : out.columns) {
      x[curve] = column;
      out.cells.push_back(ratio(x));
    }
  });
  out.rows_measured = out.cells.size();
  return out;
}

/// Powers of two from 2^from to 2^to.
inline std::vector<double> powers(int from, int to, int step = 1) {
  std::vector<double> out;
  for (int i = from; i <= to; i += step) out.push_back(static_cast<double>(std::int64_t{1} << i));
  return out;
}

}  // namespace tiny
