#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/base/assert.hpp"

/// CPU references of the indices that attention and expert kernels follow, for checking them and
/// for making their inputs.
namespace reference {

/// Where token `token` of a sequence lies in a paged cache, in tokens: `pages` lists the sequence's
/// pages in order.
inline std::int64_t paged_slot(const std::vector<std::int32_t>& pages, std::int64_t page_size,
                               std::int64_t token) {
  SIM_ASSERT(page_size > 0 && token >= 0 &&
             token / page_size < static_cast<std::int64_t>(pages.size()));
  return pages[static_cast<std::size_t>(token / page_size)] * page_size + token % page_size;
}

/// The cache slots that a sparse kernel gathers for one query: those of its picked tokens, in the
/// order of the picks; -1 (no pick) stays -1.
inline std::vector<std::int64_t> gathered_slots(const std::vector<std::int32_t>& pages,
                                                std::int64_t page_size,
                                                const std::vector<std::int32_t>& picks) {
  std::vector<std::int64_t> out;
  for (const auto pick : picks) out.push_back(pick < 0 ? -1 : paged_slot(pages, page_size, pick));
  return out;
}

/// Rows of a batch sorted by expert, as grouped GEMMs take them: `rows[offsets[e]] ..
/// rows[offsets[e + 1] - 1]` are the pairs token x top_k + rank that go to expert e, in the order
/// of the tokens.
struct ExpertRows {
  std::vector<std::int32_t> offsets;  // experts + 1
  std::vector<std::int32_t> rows;     // tokens x top_k
  /// Experts with a row: those whose weights are read.
  int distinct() const {
    int count = 0;
    for (std::size_t e = 0; e + 1 < offsets.size(); ++e) count += offsets[e] < offsets[e + 1];
    return count;
  }
};
/// `picks`: experts of token 0, then of token 1, ..., all below `experts`.
inline ExpertRows sort_by_expert(const std::vector<std::int32_t>& picks, int experts) {
  ExpertRows out;
  out.offsets.assign(static_cast<std::size_t>(experts) + 1, 0);
  out.rows.resize(picks.size());
  for (const auto e : picks) {
    SIM_ASSERT(e >= 0 && e < experts);
    ++out.offsets[static_cast<std::size_t>(e) + 1];
  }
  for (std::size_t e = 1; e < out.offsets.size(); ++e) out.offsets[e] += out.offsets[e - 1];
  auto next = out.offsets;
  for (std::size_t i = 0; i < picks.size(); ++i)
    out.rows[static_cast<std::size_t>(next[static_cast<std::size_t>(picks[i])]++)] =
        static_cast<std::int32_t>(i);
  return out;
}

/// `top_k` different experts for each token, drawn by weight without replacement; `uniform` gives
/// numbers in [0, 1). The same numbers give the same routing.
template <class Uniform>
std::vector<std::int32_t> draw_routing(int tokens, int top_k, const std::vector<double>& weights,
                                       Uniform&& uniform) {
  SIM_ASSERT(top_k > 0 && static_cast<std::size_t>(top_k) <= weights.size());
  std::vector<std::int32_t> out;
  for (int t = 0; t < tokens; ++t) {
    auto left = weights;
    for (int k = 0; k < top_k; ++k) {
      double sum = 0;
      for (const double w : left) sum += w;
      double at = uniform() * sum;
      std::size_t pick = 0;
      for (std::size_t e = 0; e < left.size(); ++e) {
        if (left[e] <= 0) continue;
        pick = e;
        if ((at -= left[e]) < 0) break;
      }
      left[pick] = 0;
      out.push_back(static_cast<std::int32_t>(pick));
    }
  }
  return out;
}

}  // namespace reference
