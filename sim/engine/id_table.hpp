#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/base/assert.hpp"

/// A hash table of small ids whose keys are elsewhere: open addressing, linear probing, at most
/// half full, nothing allocated but when it grows.
class IdTable {
 public:
  /// The id with this hash for which `same(id)` holds, or -1.
  template <class Same>
  std::int32_t find(std::uint64_t hash, Same same) const {
    for (std::size_t at = hash & mask_;; at = (at + 1) & mask_) {
      const Slot& slot = slots_[at];
      if (slot.id < 0) return -1;
      if (slot.hash == hash && same(slot.id)) return slot.id;
    }
  }

  /// There must be no equal key yet.
  void insert(std::uint64_t hash, std::int32_t id) {
    if (2 * ++size_ > slots_.size()) grow();
    place({hash, id});
  }

  void erase(std::uint64_t hash, std::int32_t id) {
    std::size_t hole = hash & mask_;
    while (slots_[hole].id != id) {
      SIM_ASSERT(slots_[hole].id >= 0);
      hole = (hole + 1) & mask_;
    }
    // Whoever probed past the hole moves up, so that no tombstones gather.
    for (std::size_t at = (hole + 1) & mask_; slots_[at].id >= 0; at = (at + 1) & mask_) {
      const std::size_t home = slots_[at].hash & mask_;
      if (((at - home) & mask_) >= ((at - hole) & mask_)) {
        slots_[hole] = slots_[at];
        hole = at;
      }
    }
    slots_[hole].id = -1;
    --size_;
  }

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::int32_t id = -1;
  };

  void place(const Slot& slot) {
    std::size_t at = slot.hash & mask_;
    while (slots_[at].id >= 0) at = (at + 1) & mask_;
    slots_[at] = slot;
  }
  void grow() {
    std::vector<Slot> old(2 * slots_.size());
    old.swap(slots_);
    mask_ = slots_.size() - 1;
    for (const Slot& slot : old)
      if (slot.id >= 0) place(slot);
  }

  std::vector<Slot> slots_ = std::vector<Slot>(64);
  std::size_t mask_ = 63, size_ = 0;
};
