#pragma once

#include "hardware/collective/collective.hpp"

/// What an engine without CUDA graphs sees of a collective, call after call: the host issues its
/// ops one by one, and the GPU clones the payload before each, so max(H, t + c0 + S / Bc) with t
/// the price, the time on the GPU. Assumed, whatever the price rests on.
Duration eager_time(const CollectivePrice& price, Bytes size);
