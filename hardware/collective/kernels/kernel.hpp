#pragma once

#include "hardware/collective/box.hpp"

/// A collective kernel that engines bring beside NCCL. One file each. Pure.
class CollectiveKernel {
 public:
  virtual ~CollectiveKernel() = default;
  /// Whether the engine would run it on this box at all; where not, NCCL takes over.
  virtual bool supports(Collective op, const CollectiveBox& box) const = 0;
  virtual CollectivePrice price(Collective op, Bytes size, const CollectiveBox& box) const = 0;
};

using CollectiveKernelFactory = const CollectiveKernel& (*)();
