// One-shot: every rank sends its whole vector to every other one and adds up what arrives. One
// round, n-1 times the vector out of every rank: for small sizes.

#include "hardware/collective/collective.hpp"
#include "sim/base/assert.hpp"

namespace {

class OneShot final : public CollectiveAlgorithm {
 public:
  bool supports(Collective op, const Ranks&) const override { return op == Collective::all_reduce; }
  Schedule schedule(Collective, Bytes size, const Ranks& ranks) const override {
    const int n = ranks.count;
    SIM_ASSERT(n >= 2);
    Schedule out{1, size.real(), {{}}};
    for (int from = 0; from < n; ++from)
      for (int to = 0; to < n; ++to)
        if (from != to) out.rounds[0].push_back({from, to, 0, 1, true});
    return out;
  }
};

const CollectiveAlgorithm& make() {
  static const OneShot one_shot;
  return one_shot;
}

const Registered<CollectiveAlgorithmFactory> me("one_shot", make);

}  // namespace
