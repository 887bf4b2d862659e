#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

/// Entries by priority, as std::priority_queue: `Behind`(a, b) says that b comes first. Those that
/// are pushed in order, as most are, wait in a line, the others in a heap.
template <class Entry, class Behind>
class OrderedQueue {
 public:
  bool empty() const { return line_empty() && heap_.empty(); }
  std::size_t size() const { return line_.size() - front_ + heap_.size(); }
  const Entry& top() const { return line_is_next() ? line_[front_] : heap_.front(); }
  void push(const Entry& e) {
    if (line_empty() || !Behind{}(line_.back(), e)) {
      // Who has left the line makes room where it would grow.
      if (line_.size() == line_.capacity() && 2 * front_ >= line_.size()) drop_front();
      line_.push_back(e);
      return;
    }
    heap_.push_back(e);
    std::push_heap(heap_.begin(), heap_.end(), Behind{});
  }
  void pop() {
    if (line_is_next()) {
      ++front_;
      return;
    }
    std::pop_heap(heap_.begin(), heap_.end(), Behind{});
    heap_.pop_back();
  }
  template <class Drop>
  void erase_if(Drop drop) {
    drop_front();
    std::erase_if(line_, drop);
    std::erase_if(heap_, drop);
    std::make_heap(heap_.begin(), heap_.end(), Behind{});
  }

 private:
  bool line_empty() const { return front_ == line_.size(); }
  bool line_is_next() const {
    return heap_.empty() || (!line_empty() && !Behind{}(line_[front_], heap_.front()));
  }
  void drop_front() {
    line_.erase(line_.begin(), line_.begin() + static_cast<std::ptrdiff_t>(front_));
    front_ = 0;
  }

  std::vector<Entry> line_;
  std::size_t front_ = 0;  // of those still in the line
  std::vector<Entry> heap_;
};
