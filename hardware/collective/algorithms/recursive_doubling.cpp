// Recursive doubling: partners at distance 1, 2, 4, ... exchange what they have. log2 n rounds; an
// all-reduce moves the whole vector in each, a gather twice as much as the round before, a
// reduce-scatter half as much (recursive halving). Powers of two only.

#include "hardware/collective/collective.hpp"
#include "sim/base/assert.hpp"

namespace {

class RecursiveDoubling final : public CollectiveAlgorithm {
 public:
  bool supports(Collective op, const Ranks& ranks) const override {
    return (op == Collective::all_reduce || op == Collective::all_gather ||
            op == Collective::reduce_scatter) &&
           (ranks.count & (ranks.count - 1)) == 0;
  }
  Schedule schedule(Collective op, Bytes size, const Ranks& ranks) const override {
    const int n = ranks.count;
    SIM_ASSERT(n >= 2);
    if (op == Collective::all_reduce) {
      Schedule out{1, size.real(), {}};
      for (int distance = 1; distance < n; distance *= 2)
        out.rounds.push_back(exchange(
            n, distance, [](int) { return std::pair(0, 1); }, true));
      return out;
    }
    Schedule out{n, size.real() / n, {}};
    if (op == Collective::all_gather)
      for (int distance = 1; distance < n; distance *= 2)
        out.rounds.push_back(exchange(
            n, distance, [&](int r) { return std::pair(r / distance * distance, distance); },
            false));
    else
      for (int distance = n / 2; distance >= 1; distance /= 2)
        out.rounds.push_back(exchange(
            n, distance,
            [&](int r) { return std::pair((r ^ distance) / distance * distance, distance); },
            true));
    return out;
  }

 private:
  // `chunks(rank)`: the first chunk that a rank sends to its partner, and how many.
  template <class Chunks>
  static Round exchange(int n, int distance, Chunks chunks, bool reduce) {
    Round out;
    for (int r = 0; r < n; ++r) {
      const auto [first, count] = chunks(r);
      out.push_back({r, r ^ distance, first, count, reduce});
    }
    return out;
  }
};

const CollectiveAlgorithm& make() {
  static const RecursiveDoubling doubling;
  return doubling;
}

const Registered<CollectiveAlgorithmFactory> me("recursive_doubling", make);

}  // namespace
