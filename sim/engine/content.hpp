#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include <boost/container/small_vector.hpp>

/// A run of tokens named by where it comes from: equal streams and offsets are equal tokens. Token
/// ids are never made.
struct Segment {
  std::int64_t stream = 0, offset = 0, tokens = 0;
  bool operator==(const Segment&) const = default;
};

/// What a sequence says, as runs of tokens. Two sequences share a prefix exactly as far as their
/// runs agree.
class Content {
 public:
  Content() = default;
  Content(std::int64_t stream, std::int64_t tokens) { append({stream, 0, tokens}); }

  /// Joins the last run when it goes on where that ended.
  void append(const Segment& s) {
    if (s.tokens <= 0) return;
    tokens_ += s.tokens;
    if (!segments_.empty()) {
      Segment& last = segments_.back();
      if (last.stream == s.stream && last.offset + last.tokens == s.offset) {
        last.tokens += s.tokens;
        return;
      }
    }
    segments_.push_back(s);
  }
  void append(const Content& other) {
    for (const Segment& s : other.segments()) append(s);
  }

  std::span<const Segment> segments() const { return {segments_.data(), segments_.size()}; }
  bool empty() const { return segments_.empty(); }
  std::int64_t tokens() const { return tokens_; }
  void clear() {
    segments_.clear();
    tokens_ = 0;
  }
  void swap(Content& other) {
    segments_.swap(other.segments_);
    std::swap(tokens_, other.tokens_);
  }
  /// Room for so many runs.
  void reserve(std::size_t runs) { segments_.reserve(runs); }

 private:
  boost::container::small_vector<Segment, 1> segments_;
  std::int64_t tokens_ = 0;
};
