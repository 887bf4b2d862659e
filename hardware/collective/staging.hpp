#pragma once

#include "hardware/collective/interconnect.hpp"

/// The interconnect with the hop latency and the staging capacity that its timed all-reduces come
/// to by the ring law; as it is where it has none. No capacity where the larger one waits for its
/// hops like the smaller; neither number on a graph with fewer GPUs than were timed. Belongs before
/// edits of the box: the times are those of the box as it stood.
Interconnect with_timed_staging(const Topology& topology, const Interconnect& interconnect,
                                double compute_capability);
