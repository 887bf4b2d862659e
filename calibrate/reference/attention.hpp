#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/base/assert.hpp"

/// CPU references of attention and of the indexer that picks its tokens, in double.
namespace reference {

/// One head: softmax(q k scale) times the first `width` numbers of each value. Keys are as long as
/// q; latent attention's values are its keys.
inline std::vector<double> attend(const std::vector<double>& q,
                                  const std::vector<std::vector<double>>& keys,
                                  const std::vector<std::vector<double>>& values, std::size_t width,
                                  double scale) {
  SIM_ASSERT(!keys.empty() && keys.size() == values.size() && width <= values[0].size());
  std::vector<double> scores, out(width);
  double largest = -INFINITY, sum = 0;
  for (const auto& key : keys) {
    double score = 0;
    for (std::size_t i = 0; i < q.size(); ++i) score += q[i] * key[i];
    scores.push_back(score * scale);
    largest = std::max(largest, scores.back());
  }
  for (double& score : scores) sum += score = std::exp(score - largest);
  for (std::size_t t = 0; t < keys.size(); ++t)
    for (std::size_t i = 0; i < width; ++i) out[i] += scores[t] / sum * values[t][i];
  return out;
}

/// The indexer's score of one key: key scale x sum over heads of weight x max(0, q k).
inline double index_score(const std::vector<std::vector<double>>& q_heads,
                          const std::vector<double>& weights, const std::vector<double>& key,
                          double key_scale) {
  double out = 0;
  for (std::size_t h = 0; h < q_heads.size(); ++h) {
    double product = 0;
    for (std::size_t i = 0; i < key.size(); ++i) product += q_heads[h][i] * key[i];
    out += weights[h] * std::max(0.0, product);
  }
  return out * key_scale;
}

/// Whether `picks` are the `count` largest scores, whatever the order and the choice among equals;
/// with fewer scores all of them, and the rest -1.
inline bool are_largest(const std::vector<float>& scores, const std::vector<std::int32_t>& picks,
                        std::size_t count) {
  if (picks.size() != count) return false;
  std::vector<bool> picked(scores.size());
  std::size_t none = 0;
  for (const auto pick : picks) {
    if (pick == -1) {
      ++none;
      continue;
    }
    if (pick < 0 || static_cast<std::size_t>(pick) >= scores.size()) return false;
    if (picked[static_cast<std::size_t>(pick)]) return false;
    picked[static_cast<std::size_t>(pick)] = true;
  }
  if (none != count - std::min(count, scores.size())) return false;
  float least = INFINITY, most = -INFINITY;
  for (std::size_t i = 0; i < scores.size(); ++i)
    if (picked[i])
      least = std::min(least, scores[i]);
    else
      most = std::max(most, scores[i]);
  return least >= most;
}

}  // namespace reference
