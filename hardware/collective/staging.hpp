#pragma once

#include "hardware/collective/interconnect.hpp"

/// The interconnect with the hop latency and the staging capacity that its timed all-reduces come
/// to by the ring law; as it is where it has none. No capacity where the larger one waits for its
/// hops like the smaller. A box and its graph must have the ranks that were timed.
Interconnect with_timed_staging(const Topology& topology, const Interconnect& interconnect,
                                double compute_capability);
