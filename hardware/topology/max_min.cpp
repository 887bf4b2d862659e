#include <algorithm>
#include <limits>

#include "hardware/topology/topology.hpp"
#include "sim/base/assert.hpp"

std::vector<BytesPerSecond> max_min_rates(const Topology& topology, const std::vector<Route>& flows,
                                          double (*efficiency)(const Link&)) {
  const std::size_t directions = topology.links().size() * 2;
  const auto direction = [](const Hop& hop) {
    return static_cast<std::size_t>(hop.link) * 2 + (hop.forward ? 0 : 1);
  };
  std::vector<double> left(directions);
  for (std::size_t d = 0; d < directions; ++d) {
    const Link& link = topology.links()[d / 2];
    left[d] = link.bandwidth.value.count() * efficiency(link);
  }
  std::vector<double> rate(flows.size(), std::numeric_limits<double>::infinity());
  std::vector<bool> growing(flows.size());
  for (std::size_t f = 0; f < flows.size(); ++f) growing[f] = !flows[f].empty();

  while (true) {
    std::vector<int> users(directions);
    for (std::size_t f = 0; f < flows.size(); ++f)
      if (growing[f])
        for (const Hop& hop : flows[f]) ++users[direction(hop)];
    // The direction that fills first fixes the share of everybody who uses it.
    double share = std::numeric_limits<double>::infinity();
    std::size_t tightest = directions;
    for (std::size_t d = 0; d < directions; ++d)
      if (users[d] > 0 && left[d] / users[d] < share) share = left[d] / users[d], tightest = d;
    if (tightest == directions) break;
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (!growing[f]) continue;
      if (std::none_of(flows[f].begin(), flows[f].end(),
                       [&](const Hop& hop) { return direction(hop) == tightest; }))
        continue;
      rate[f] = share;
      growing[f] = false;
      for (const Hop& hop : flows[f])
        left[direction(hop)] = std::max(0.0, left[direction(hop)] - share);
    }
  }
  std::vector<BytesPerSecond> out;
  for (const double r : rate) out.emplace_back(r);
  return out;
}
