#pragma once

#include "hardware/collective/collective.hpp"

/// The time of a collective that a framework calls eagerly, as its callers see it: two framework
/// operations on the host, or the GPU's time with a copy of the buffer, whichever is longer. Study
/// of 21 curves of eager against graphed calls on RTX PRO 6000, H200 and B200 boxes (aiconfigurator
/// @095f58a5, read 2026-08): 0.5 to 4.8 % with each curve's own numbers; here their middles,
/// assumed, x or / 1.4.
Duration eager_time(const CollectivePrice& price, Bytes size);
