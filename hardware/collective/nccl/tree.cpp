// NCCL_ALGO=Tree on one PCIe node. Within a node NCCL's tree is a chain that is walked up and down:
// a ring's number of hops, each of which carries the whole vector once each way where a ring's
// carries 2 (n - 1) / n of it. NCCL never takes it here by itself and nobody timed it: the ring's
// constants stand in, assumed.

#include <algorithm>

#include "hardware/collective/nccl/nccl.hpp"

CollectivePrice nccl_tree(Collective op, Bytes size, const CollectiveBox& box, const NcclView& view,
                          int channels) {
  // Every hop carries the whole vector once up and once down: n chunks each way, where a ring's
  // hop carries 2 (n - 1) chunks in all.
  CollectivePrice out = nccl_ring(op, size, box, view, channels);
  const CollectivePrice none = nccl_ring(op, Bytes(1), box, view, channels);
  const double n = box.ranks();
  const double moved_by_ring = 2 * (n - 1), moved_by_tree = 2 * n;
  if (out.time > none.time)
    out.time = none.time + (out.time - none.time).scaled(moved_by_tree / moved_by_ring);
  out.algorithm = "tree";
  out.provenance = Provenance::assumed;
  out.spread = std::max(out.spread, 1.5);
  return out;
}
