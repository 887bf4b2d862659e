#include <algorithm>
#include <limits>

#include "hardware/topology/topology.hpp"

FairShares fair_shares(std::vector<double> left,
                       const std::vector<std::vector<std::size_t>>& uses) {
  FairShares out{std::vector<double>(uses.size(), std::numeric_limits<double>::infinity()),
                 std::vector<std::optional<std::size_t>>(uses.size())};
  std::vector<bool> growing(uses.size());
  for (std::size_t f = 0; f < uses.size(); ++f) growing[f] = !uses[f].empty();

  std::vector<int> users(left.size());
  while (true) {
    std::fill(users.begin(), users.end(), 0);
    for (std::size_t f = 0; f < uses.size(); ++f)
      if (growing[f])
        for (const std::size_t limit : uses[f]) ++users[limit];
    // The limit that is reached first fixes the share of everybody who loads it.
    double share = std::numeric_limits<double>::infinity();
    std::size_t tightest = left.size();
    for (std::size_t d = 0; d < left.size(); ++d)
      if (users[d] > 0 && left[d] / users[d] < share) share = left[d] / users[d], tightest = d;
    if (tightest == left.size()) break;
    for (std::size_t f = 0; f < uses.size(); ++f) {
      if (!growing[f] || std::find(uses[f].begin(), uses[f].end(), tightest) == uses[f].end())
        continue;
      out.rate[f] = share;
      out.limit[f] = tightest;
      growing[f] = false;
      for (const std::size_t limit : uses[f]) left[limit] = std::max(0.0, left[limit] - share);
    }
  }
  return out;
}

std::vector<BytesPerSecond> max_min_rates(const Topology& topology, const std::vector<Route>& flows,
                                          double (*efficiency)(const Link&)) {
  std::vector<double> capacity;
  for (const Link& link : topology.links()) {
    const double scale = efficiency(link);
    capacity.push_back(link.bandwidth.value.count() * scale);
    capacity.push_back(link.back.value_or(link.bandwidth.value).count() * scale);
  }
  std::vector<std::vector<std::size_t>> uses;
  for (const Route& flow : flows) {
    uses.emplace_back();
    for (const Hop& hop : flow)
      uses.back().push_back(static_cast<std::size_t>(hop.link) * 2 + (hop.forward ? 0 : 1));
  }
  std::vector<BytesPerSecond> out;
  for (const double r : fair_shares(std::move(capacity), uses).rate) out.emplace_back(r);
  return out;
}
