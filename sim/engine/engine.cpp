#include "sim/engine/engine.hpp"

#include <algorithm>

#include <fmt/format.h>

int EngineSizes::captured_size(std::int64_t batch) const {
  const auto it = std::lower_bound(graph_sizes.begin(), graph_sizes.end(), batch);
  return it == graph_sizes.end() ? 0 : *it;
}

bool size_pool(const EngineFacts& f, Bytes beside, EngineSizes& sizes, Section& s) {
  const double left = f.gpu_memory.real() - beside.real() - f.weights.real();
  const std::int64_t page_bytes = f.kv_per_token.count() * sizes.page_size;
  if (left < static_cast<double>(page_bytes)) {
    s.error("tensor_parallel",
            fmt::format("{} does not fit on {}x {} at TP{}\n{}", f.model_name, f.tensor_parallel,
                        f.gpu_name, f.tensor_parallel, memory_sum(f, beside)),
            fmt::format("try tensor_parallel: {}, a larger share of the memory, or a smaller "
                        "checkpoint",
                        f.tensor_parallel * 2));
    return false;
  }
  const std::int64_t pages = static_cast<std::int64_t>(left) / page_bytes;
  sizes.kv_tokens = Tokens(pages * sizes.page_size);
  sizes.kv_bytes = Bytes(pages * page_bytes);
  return true;
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
