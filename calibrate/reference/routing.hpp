#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "calibrate/reference/indices.hpp"

/// Routings of tokens to experts as the tables of MoE kernels were measured with.
namespace reference {

/// Popularities of experts under "power_law_A": drawn from x^-A on [1, 0.8 tokens], or on [0.01, 2]
/// while there are no more picks than experts (ai-dynamo/aiconfigurator, its MoE collector).
template <class Uniform>
std::vector<double> power_law_weights(int experts, int tokens, int top_k, double exponent,
                                      Uniform&& uniform) {
  SIM_ASSERT(exponent > 1);
  const bool few = static_cast<std::int64_t>(tokens) * top_k <= experts;
  const double low = few ? 0.01 : 1, high = few ? 2 : std::max(2.0, 0.8 * tokens);
  const double power = 1 - exponent, from = std::pow(low, power), to = std::pow(high, power);
  std::vector<double> out;
  for (int e = 0; e < experts; ++e)
    out.push_back(std::pow(from + (to - from) * uniform(), 1 / power));
  return out;
}

/// A routing in which expert e gets its share of all picks by weight, in whole rows (largest
/// remainders first) and at most one of each token: what the tables measured, and what
/// independent draws do not give, since they leave out more of the rare experts.
inline std::vector<std::int32_t> shared_routing(int tokens, int top_k,
                                                const std::vector<double>& weights) {
  const std::size_t experts = weights.size();
  SIM_ASSERT(top_k > 0 && static_cast<std::size_t>(top_k) <= experts);
  const std::int64_t picks = static_cast<std::int64_t>(tokens) * top_k;
  double sum = 0;
  for (const double w : weights) sum += w;
  std::vector<std::int64_t> count(experts);
  std::vector<std::size_t> order(experts);
  std::vector<double> left(experts);
  std::int64_t given = 0;
  for (std::size_t e = 0; e < experts; ++e) {
    const double share = weights[e] / sum * static_cast<double>(picks);
    count[e] = std::min<std::int64_t>(static_cast<std::int64_t>(share), tokens);
    given += count[e];
    left[e] = share - static_cast<double>(count[e]);
    order[e] = e;
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return left[a] > left[b]; });
  for (std::size_t i = 0; given < picks; i = (i + 1) % experts)
    if (count[order[i]] < tokens) {
      ++count[order[i]];
      ++given;
    }
  // Rows of one expert go to consecutive tokens, so that no token gets an expert twice.
  std::vector<std::int32_t> out(static_cast<std::size_t>(picks));
  std::int64_t i = 0;
  for (std::size_t e = 0; e < experts; ++e)
    for (std::int64_t row = 0; row < count[e]; ++row, ++i)
      out[static_cast<std::size_t>(i % tokens * top_k + i / tokens)] = static_cast<std::int32_t>(e);
  return out;
}

/// The routing called "balanced": picks go round the experts, so that as many as possible are
/// touched. `first`: where they begin.
inline std::vector<std::int32_t> balanced_routing(int tokens, int top_k, int experts, int first) {
  SIM_ASSERT(top_k <= experts);
  std::vector<std::int32_t> out;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(tokens) * top_k; ++i)
    out.push_back(static_cast<std::int32_t>((first + i) % experts));
  return out;
}

/// What the most loaded of `ranks` ranks computes, each holding the next experts / ranks experts.
/// `picks` and `experts` as for sort_by_expert; experts count from the rank's first.
inline ExpertRows most_loaded_rank(const std::vector<std::int32_t>& picks, int experts, int ranks) {
  SIM_ASSERT(ranks > 0 && experts % ranks == 0);
  const ExpertRows all = sort_by_expert(picks, experts);
  const auto local = static_cast<std::size_t>(experts / ranks);
  const auto rows_of = [&](std::size_t rank) {
    return all.offsets[(rank + 1) * local] - all.offsets[rank * local];
  };
  std::size_t most = 0;
  for (std::size_t rank = 1; rank < static_cast<std::size_t>(ranks); ++rank)
    if (rows_of(rank) > rows_of(most)) most = rank;
  const auto begin = all.offsets.begin() + static_cast<std::ptrdiff_t>(most * local);
  ExpertRows out;
  out.offsets.assign(begin, begin + static_cast<std::ptrdiff_t>(local) + 1);
  out.rows.assign(all.rows.begin() + out.offsets.front(), all.rows.begin() + out.offsets.back());
  for (auto& offset : out.offsets) offset -= *begin;
  return out;
}

/// A tile of a grouped GEMM: rows `first` .. `first + rows - 1` of the sorted rows, all of one
/// expert.
struct ExpertTile {
  std::int32_t expert, first, rows, unused;
};
/// Every expert's rows in tiles of at most `tile_rows`, in the order of the experts.
inline std::vector<ExpertTile> expert_tiles(const ExpertRows& sorted, int tile_rows) {
  SIM_ASSERT(tile_rows > 0);
  std::vector<ExpertTile> out;
  for (std::size_t e = 0; e + 1 < sorted.offsets.size(); ++e)
    for (auto first = sorted.offsets[e]; first < sorted.offsets[e + 1]; first += tile_rows)
      out.push_back({static_cast<std::int32_t>(e), first,
                     std::min<std::int32_t>(tile_rows, sorted.offsets[e + 1] - first), 0});
  return out;
}

}  // namespace reference
