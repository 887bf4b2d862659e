// Ring: in each round every rank passes one chunk to its right-hand neighbour. n-1 rounds gather or
// scatter, 2(n-1) reduce and gather again; busbw factor 2(n-1)/n of an all-reduce.
// Leaves out: the order of ranks is the order of the machine file, not NCCL's search.

#include "hardware/collective/collective.hpp"
#include "sim/base/assert.hpp"

namespace {

class Ring final : public CollectiveAlgorithm {
 public:
  bool supports(Collective) const override { return true; }
  Schedule schedule(Collective op, Bytes size, int ranks) const override {
    SIM_ASSERT(ranks >= 2);
    Schedule out;
    out.rounds = (op == Collective::all_reduce ? 2 : 1) * (ranks - 1);
    for (int r = 0; r < ranks; ++r)
      out.transfers.push_back({r, (r + 1) % ranks, size.real() / ranks});
    return out;
  }
};

const CollectiveAlgorithm& make() {
  static const Ring ring;
  return ring;
}

const Registered<CollectiveAlgorithmFactory> ring("ring", make);

}  // namespace
