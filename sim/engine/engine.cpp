#include "sim/engine/engine.hpp"

#include <algorithm>

#include <fmt/format.h>

int EngineSizes::captured_size(std::int64_t batch) const {
  const auto it = std::lower_bound(graph_sizes.begin(), graph_sizes.end(), batch);
  return it == graph_sizes.end() ? 0 : *it;
}

std::string memory_sum(const EngineFacts& f, Bytes beside_weights) {
  // The parts that matter, largest first; the rest as one.
  auto parts = f.weight_groups;
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string groups;
  double rest = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double gib = parts[i].second.real() / 1073741824.0;
    if (i < 3)
      groups += fmt::format("{} {:.1f}, ", parts[i].first, gib);
    else
      rest += gib;
  }
  groups += fmt::format("rest {:.1f}", rest);
  const auto line = [](char sign, Bytes b, const std::string& what) {
    return fmt::format("\n  {} {:>8.1f} GiB   {}", sign, b.real() / 1073741824.0, what);
  };
  return "per GPU" + line(' ', f.gpu_memory, fmt::format("{} memory", f.gpu_name)) +
         line('-', beside_weights, "driver, NCCL, activations, graphs") +
         line('-', f.weights, fmt::format("weights ({})", groups)) +
         line('=', f.gpu_memory - beside_weights - f.weights, "left for the KV cache");
}
