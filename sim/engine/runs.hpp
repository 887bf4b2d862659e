#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <boost/container/small_vector.hpp>

#include "sim/engine/content.hpp"

/// The runs of one stretch of content: whole pages in a cache.
using Runs = boost::container::small_vector<Segment, 2>;

/// A place in a list of runs, read from there on. The list must outlive it.
class RunCursor {
 public:
  explicit RunCursor(std::span<const Segment> runs, std::int64_t tokens = 0) : runs_(runs) {
    advance(tokens);
  }
  explicit RunCursor(const Runs& runs) : runs_(runs.data(), runs.size()) {}

  bool at_end() const { return at_ == runs_.size(); }
  /// What is left of the run here.
  Segment run() const {
    const Segment& s = runs_[at_];
    return {s.stream, s.offset + into_, s.tokens - into_};
  }
  /// Stops at the end of the list.
  void advance(std::int64_t tokens) {
    while (tokens > 0 && at_ < runs_.size()) {
      const std::int64_t left = runs_[at_].tokens - into_;
      if (tokens < left) {
        into_ += tokens;
        return;
      }
      tokens -= left;
      ++at_;
      into_ = 0;
    }
  }

 private:
  std::span<const Segment> runs_;
  std::size_t at_ = 0;
  std::int64_t into_ = 0;  // tokens of the run at `at_` that are behind
};

/// Tokens from here on that both say, at most `limit`.
inline std::int64_t common_tokens(RunCursor a, RunCursor b, std::int64_t limit) {
  std::int64_t same = 0;
  while (same < limit && !a.at_end() && !b.at_end()) {
    const Segment x = a.run(), y = b.run();
    if (x.stream != y.stream || x.offset != y.offset) break;
    const std::int64_t step = std::min(x.tokens, y.tokens);
    same += step;
    a.advance(step);
    b.advance(step);
  }
  return std::min(same, limit);
}

/// Appends the next `tokens` tokens (or all there are); runs that go on are joined.
inline void append_runs(Runs& out, RunCursor from, std::int64_t tokens) {
  while (tokens > 0 && !from.at_end()) {
    Segment s = from.run();
    s.tokens = std::min(s.tokens, tokens);
    from.advance(s.tokens);
    tokens -= s.tokens;
    if (!out.empty()) {
      Segment& last = out.back();
      if (last.stream == s.stream && last.offset + last.tokens == s.offset) {
        last.tokens += s.tokens;
        continue;
      }
    }
    out.push_back(s);
  }
}

/// Keeps the first `tokens` tokens.
inline void truncate_runs(Runs& runs, std::int64_t tokens) {
  std::size_t n = 0;
  while (n < runs.size() && tokens > 0) {
    runs[n].tokens = std::min(runs[n].tokens, tokens);
    tokens -= runs[n++].tokens;
  }
  runs.resize(n);
}

/// Cuts runs in two: `head` gets the first `tokens` tokens, `runs` keeps the rest.
inline void split_runs(Runs& runs, std::int64_t tokens, Runs& head) {
  head.clear();
  std::size_t whole = 0;
  while (whole < runs.size() && runs[whole].tokens <= tokens) {
    tokens -= runs[whole].tokens;
    head.push_back(runs[whole++]);
  }
  if (tokens > 0) {
    Segment& cut = runs[whole];
    head.push_back({cut.stream, cut.offset, tokens});
    cut.offset += tokens;
    cut.tokens -= tokens;
  }
  runs.erase(runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(whole));
}

/// A hash of the next `tokens` tokens below `parent`. The same runs give the same hash, as long as
/// runs that go on are joined, which Content and append_runs() see to.
inline std::uint64_t hash_runs(std::int64_t parent, RunCursor from, std::int64_t tokens) {
  const auto mix = [](std::uint64_t h, std::int64_t value) {
    // The finalizer of splitmix64 (Steele, Lea and Flood, OOPSLA 2014, public domain).
    h += static_cast<std::uint64_t>(value) + 0x9e3779b97f4a7c15u;
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
    return h ^ (h >> 27);
  };
  std::uint64_t h = mix(0, parent);
  while (tokens > 0 && !from.at_end()) {
    const Segment s = from.run();
    const std::int64_t n = std::min(s.tokens, tokens);
    h = mix(mix(h, s.stream), s.offset);
    tokens -= n;
    if (tokens > 0) h = mix(h, n);
    from.advance(n);
  }
  return h;
}
