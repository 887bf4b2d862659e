#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/engine/ordered_queue.hpp"

/// An OrderedQueue of entries with a `key` for keys near to a clock that only goes up, as nearly
/// all are: those have a place each on a ring, and nobody is compared with anybody. `Behind`
/// orders by key first.
template <class Entry, class Behind>
class NearQueue {
 public:
  NearQueue() { heads_.fill(-1); }

  bool empty() const { return near_ + far_count_ == 0; }
  const Entry& top() const { return near_is_next() ? nodes_[first()].entry : far_.top(); }

  /// `now` <= all keys; it never goes back.
  void push(const Entry& e, std::int64_t now) {
    if (e.key - now >= places) {
      ++far_count_;
      return far_.push(e);
    }
    std::int32_t id = spare_;
    if (id < 0) {
      id = static_cast<std::int32_t>(nodes_.size());
      nodes_.emplace_back();
    } else {
      spare_ = nodes_[static_cast<std::size_t>(id)].next;
    }
    const std::size_t place = place_of(e.key);
    std::int32_t* link = &heads_[place];
    while (*link >= 0 && !Behind{}(nodes_[static_cast<std::size_t>(*link)].entry, e))
      link = &nodes_[static_cast<std::size_t>(*link)].next;
    nodes_[static_cast<std::size_t>(id)] = {e, *link};
    *link = id;
    taken_[place / 64] |= std::uint64_t{1} << place % 64;
    if (near_++ == 0 || e.key < next_) next_ = e.key;
  }

  void pop() {
    if (!near_is_next()) {
      --far_count_;
      return far_.pop();
    }
    const std::size_t place = place_of(next_);
    const std::int32_t id = heads_[place];
    Node& node = nodes_[static_cast<std::size_t>(id)];
    heads_[place] = node.next;
    node.next = spare_;
    spare_ = id;
    --near_;
    if (heads_[place] >= 0) return;
    taken_[place / 64] &= ~(std::uint64_t{1} << place % 64);
    if (near_ > 0) next_ += places_to_next(place);
  }

 private:
  static constexpr std::int64_t places = 1024;
  struct Node {
    Entry entry;
    std::int32_t next = -1;  // at the same place, in order
  };

  static std::size_t place_of(std::int64_t key) { return static_cast<std::size_t>(key) % places; }
  std::size_t first() const { return static_cast<std::size_t>(heads_[place_of(next_)]); }
  bool near_is_next() const {
    return near_ > 0 && (far_count_ == 0 || !Behind{}(nodes_[first()].entry, far_.top()));
  }
  /// From an empty place to the next taken one.
  std::int64_t places_to_next(std::size_t place) const {
    std::size_t word = place / 64;
    const int here = static_cast<int>(place % 64);
    if (const std::uint64_t rest = taken_[word] >> here; rest != 0) return std::countr_zero(rest);
    std::int64_t passed = 64 - here;
    while (taken_[word = (word + 1) % taken_.size()] == 0) passed += 64;
    return passed + std::countr_zero(taken_[word]);
  }

  std::vector<Node> nodes_;
  std::int32_t spare_ = -1;                         // the first of the nodes that are free
  std::array<std::int32_t, places> heads_;          // the first at a place, -1: nobody
  std::array<std::uint64_t, places / 64> taken_{};  // the places with somebody, bit by bit
  std::int64_t near_ = 0;                           // entries on the ring
  std::int64_t next_ = 0;                           // the lowest key of them
  std::int64_t far_count_ = 0;
  OrderedQueue<Entry, Behind> far_;
};
