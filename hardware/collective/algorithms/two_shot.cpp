// Two-shot: every rank sends each other one the chunk that it is to reduce, then each its reduced
// chunk to all. Two rounds, 2(n-1)/n of the vector out of every rank. One of the rounds alone
// scatters or gathers.

#include "hardware/collective/collective.hpp"
#include "sim/base/assert.hpp"

namespace {

class TwoShot final : public CollectiveAlgorithm {
 public:
  bool supports(Collective op, const Ranks&) const override {
    return op == Collective::all_reduce || op == Collective::all_gather ||
           op == Collective::reduce_scatter;
  }
  Schedule schedule(Collective op, Bytes size, const Ranks& ranks) const override {
    const int n = ranks.count;
    SIM_ASSERT(n >= 2);
    Schedule out{n, size.real() / n, {}};
    for (const bool reduce : {true, false}) {
      if (op == (reduce ? Collective::all_gather : Collective::reduce_scatter)) continue;
      Round round;
      for (int from = 0; from < n; ++from)
        for (int to = 0; to < n; ++to)
          if (from != to) round.push_back({from, to, reduce ? to : from, 1, reduce});
      out.rounds.push_back(std::move(round));
    }
    return out;
  }
};

const CollectiveAlgorithm& make() {
  static const TwoShot two_shot;
  return two_shot;
}

const Registered<CollectiveAlgorithmFactory> me("two_shot", make);

}  // namespace
