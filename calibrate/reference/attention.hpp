#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

/// CPU reference of attention, in double precision.
namespace reference {

/// Softmax(scale q . k_j) weighted sum of v_j over the `length` first keys. `key(j)`, `value(j)`
/// give rows of `dim` and `value_dim` numbers.
template <class Row>
std::vector<double> attend(const std::vector<double>& query, std::int64_t length, Row&& key,
                           Row&& value, std::size_t value_dim, double scale) {
  std::vector<double> scores;
  for (std::int64_t j = 0; j < length; ++j) {
    const auto row = key(j);
    double sum = 0;
    for (std::size_t i = 0; i < query.size(); ++i) sum += query[i] * row[i];
    scores.push_back(scale * sum);
  }
  const double most = scores.empty() ? 0 : *std::max_element(scores.begin(), scores.end());
  double total = 0;
  for (double& s : scores) total += s = std::exp(s - most);
  std::vector<double> out(value_dim, 0);
  for (std::int64_t j = 0; j < length; ++j) {
    const auto row = value(j);
    for (std::size_t i = 0; i < value_dim; ++i)
      out[i] += scores[static_cast<std::size_t>(j)] / total * row[i];
  }
  return out;
}

}  // namespace reference
