// Pairwise: in round t every rank sends to the one t places on, so that no two send to the same
// rank at a time. n-1 rounds exchange everything with everybody; one round sends to the neighbour.

#include "hardware/collective/collective.hpp"
#include "sim/base/assert.hpp"

namespace {

class Pairwise final : public CollectiveAlgorithm {
 public:
  bool supports(Collective op, const Ranks&) const override {
    return op != Collective::all_reduce && op != Collective::broadcast;
  }
  Schedule schedule(Collective op, Bytes size, const Ranks& ranks) const override {
    const int n = ranks.count;
    SIM_ASSERT(n >= 2);
    const bool all_to_all = op == Collective::all_to_all, neighbour = op == Collective::send_recv;
    Schedule out{all_to_all ? n * n : n, neighbour ? size.real() : size.real() / n, {}};
    for (int t = 1; t < (neighbour ? 2 : n); ++t) {
      Round round;
      for (int r = 0; r < n; ++r) {
        const int to = (r + t) % n;
        const int chunk = all_to_all ? r * n + to : op == Collective::reduce_scatter ? to : r;
        round.push_back({r, to, chunk, 1, op == Collective::reduce_scatter});
      }
      out.rounds.push_back(std::move(round));
    }
    return out;
  }
};

const CollectiveAlgorithm& make() {
  static const Pairwise pairwise;
  return pairwise;
}

const Registered<CollectiveAlgorithmFactory> me("pairwise", make);

}  // namespace
