// Hierarchical: reduce-scatter within each island (the ranks behind one switch or socket), exchange
// between ranks of the same place in their islands, gather within. Each rank sends only its share
// of the vector across: (islands - 1) / (ranks of an island) instead of n - 1 of it. Needs two or
// more islands of equally many ranks, two at least.

#include <map>

#include "hardware/collective/collective.hpp"
#include "sim/base/assert.hpp"

namespace {

std::map<int, std::vector<int>> islands(const Ranks& ranks) {
  std::map<int, std::vector<int>> out;
  for (int r = 0; r < static_cast<int>(ranks.island.size()); ++r)
    out[ranks.island[static_cast<std::size_t>(r)]].push_back(r);
  return out;
}

class Hierarchical final : public CollectiveAlgorithm {
 public:
  bool supports(Collective op, const Ranks& ranks) const override {
    const auto all = islands(ranks);
    if (op != Collective::all_reduce || all.size() < 2) return false;
    for (const auto& [id, members] : all)
      if (members.size() != all.begin()->second.size() || members.size() < 2) return false;
    return true;
  }
  Schedule schedule(Collective, Bytes size, const Ranks& ranks) const override {
    const auto all = islands(ranks);
    SIM_ASSERT(all.size() >= 2);
    const auto members = static_cast<int>(all.begin()->second.size());
    Schedule out{members, size.real() / members, std::vector<Round>(3)};
    for (const auto& [id, here] : all)
      for (int i = 0; i < members; ++i) {
        const int from = here[static_cast<std::size_t>(i)];
        for (int j = 0; j < members; ++j) {
          if (i == j) continue;
          const int to = here[static_cast<std::size_t>(j)];
          out.rounds[0].push_back({from, to, j, 1, true});
          out.rounds[2].push_back({from, to, i, 1, false});
        }
        for (const auto& [other, there] : all)
          if (other != id)
            out.rounds[1].push_back({from, there[static_cast<std::size_t>(i)], i, 1, true});
      }
    return out;
  }
};

const CollectiveAlgorithm& make() {
  static const Hierarchical hierarchical;
  return hierarchical;
}

const Registered<CollectiveAlgorithmFactory> me("hierarchical", make);

}  // namespace
