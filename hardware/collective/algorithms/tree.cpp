// Tree: a binary tree over the ranks, rank 0 at its root. An all-reduce adds up towards the root
// and comes down again, a broadcast only comes down. Eight chunks follow each other, one level a
// round. Leaves out: NCCL's second tree, which mirrors the first and carries half of the data.

#include <algorithm>

#include "hardware/collective/collective.hpp"
#include "sim/base/assert.hpp"

namespace {

constexpr int chunks = 8;

int depth_of(int rank) {
  int depth = 0;
  for (; rank > 0; rank = (rank - 1) / 2) ++depth;
  return depth;
}

class Tree final : public CollectiveAlgorithm {
 public:
  bool supports(Collective op, const Ranks&) const override {
    return op == Collective::all_reduce || op == Collective::broadcast;
  }
  Schedule schedule(Collective op, Bytes size, const Ranks& ranks) const override {
    const int n = ranks.count;
    SIM_ASSERT(n >= 2);
    const int deepest = depth_of(n - 1);
    const int up = op == Collective::all_reduce ? deepest : 0;
    Schedule out{chunks, size.real() / chunks, {}};
    out.rounds.resize(static_cast<std::size_t>(up + deepest + chunks - 1));
    for (int r = 1; r < n; ++r) {
      const int parent = (r - 1) / 2, depth = depth_of(r);
      for (int c = 0; c < chunks; ++c) {
        if (up > 0)
          out.rounds[static_cast<std::size_t>(deepest - depth + c)].push_back(
              {r, parent, c, 1, true});
        out.rounds[static_cast<std::size_t>(up + depth - 1 + c)].push_back(
            {parent, r, c, 1, false});
      }
    }
    return out;
  }
};

const CollectiveAlgorithm& make() {
  static const Tree tree;
  return tree;
}

const Registered<CollectiveAlgorithmFactory> me("tree", make);

}  // namespace
