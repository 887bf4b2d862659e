// Ring: in each round every rank passes one chunk to its right-hand neighbour. n-1 rounds scatter
// or gather, 2(n-1) reduce and gather again. A broadcast is a chain through which n chunks follow
// each other. Leaves out: the order of ranks is the order of the machine file, not NCCL's search.

#include "hardware/collective/collective.hpp"
#include "sim/base/assert.hpp"

namespace {

class Ring final : public CollectiveAlgorithm {
 public:
  bool supports(Collective op, const Ranks&) const override {
    return op != Collective::all_to_all && op != Collective::send_recv;
  }
  Schedule schedule(Collective op, Bytes size, const Ranks& ranks) const override {
    const int n = ranks.count;
    SIM_ASSERT(n >= 2);
    Schedule out{n, size.real() / n, {}};
    const auto pass_on = [&](int delay, bool reduce) {
      for (int t = 0; t < n - 1; ++t) {
        Round round;
        for (int r = 0; r < n; ++r)
          round.push_back({r, (r + 1) % n, (r - t - delay + 2 * n) % n, 1, reduce});
        out.rounds.push_back(std::move(round));
      }
    };
    if (op == Collective::broadcast) {
      for (int t = 0; t < 2 * n - 2; ++t) {
        Round round;
        for (int r = 0; r < n - 1; ++r)
          if (t - r >= 0 && t - r < n) round.push_back({r, r + 1, t - r, 1, false});
        out.rounds.push_back(std::move(round));
      }
      return out;
    }
    if (op != Collective::all_gather) pass_on(1, true);
    if (op != Collective::reduce_scatter) pass_on(0, false);
    return out;
  }
};

const CollectiveAlgorithm& make() {
  static const Ring ring;
  return ring;
}

const Registered<CollectiveAlgorithmFactory> me("ring", make);

}  // namespace
