#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "calibrate/cuda/kernels/host_random.hpp"

/// Pages of sequences of equal length in a cache, in random order as after a day of serving.
class PagedCache {
 public:
  PagedCache(int sequences, int tokens, int page)
      : page_(page), pages_each_((tokens + page - 1) / page) {
    const auto count = static_cast<std::size_t>(sequences) * static_cast<std::size_t>(pages_each_);
    for (std::size_t i = 0; i < count; ++i) pages_.push_back(static_cast<std::int32_t>(i));
    HostRandom random{11};
    for (std::size_t i = count; i > 1; --i) std::swap(pages_[i - 1], pages_[random.next() % i]);
  }
  int pages_each() const { return pages_each_; }
  std::size_t slots() const { return pages_.size() * static_cast<std::size_t>(page_); }
  /// Of sequence 0, then of sequence 1, ...
  const std::vector<std::int32_t>& all_pages() const { return pages_; }
  std::int64_t slot(int sequence, std::int64_t token) const {
    const auto page = static_cast<std::size_t>(sequence) * static_cast<std::size_t>(pages_each_) +
                      static_cast<std::size_t>(token / page_);
    return static_cast<std::int64_t>(pages_[page]) * page_ + token % page_;
  }

 private:
  int page_, pages_each_;
  std::vector<std::int32_t> pages_;
};
