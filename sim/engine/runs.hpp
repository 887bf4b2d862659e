#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <boost/container/small_vector.hpp>

#include "sim/engine/content.hpp"
#include "sim/engine/page_size.hpp"

/// The runs of one stretch of content: whole pages in a cache.
using Runs = boost::container::small_vector<Segment, 2>;

/// A place in a list of runs, read from there on. The list must outlive it.
class RunCursor {
 public:
  explicit RunCursor(const Content& content)
      : at_(content.segments().data()), end_(at_ + content.segments().size()) {}
  /// Behind the first `tokens` tokens, none or most of them: looked for from the end.
  RunCursor(const Content& content, std::int64_t tokens) : RunCursor(content) {
    if (tokens == 0) return;
    std::int64_t start = content.tokens();
    for (at_ = end_; start > tokens; start -= at_->tokens) --at_;
    into_ = tokens - start;
  }
  explicit RunCursor(const Runs& runs) : at_(runs.data()), end_(at_ + runs.size()) {}

  bool at_end() const { return at_ == end_; }
  /// Whether the token here is the first of `run`.
  bool begins(const Segment& run) const {
    return !at_end() && at_->stream == run.stream && at_->offset + into_ == run.offset;
  }
  /// What is left of the run here.
  Segment run() const { return {at_->stream, at_->offset + into_, at_->tokens - into_}; }
  /// At most what is left of the run here.
  void within_run(std::int64_t tokens) {
    into_ += tokens;
    if (into_ == at_->tokens) {
      ++at_;
      into_ = 0;
    }
  }
  /// Stops at the end of the list.
  void advance(std::int64_t tokens) {
    while (tokens > 0 && !at_end()) {
      const std::int64_t step = std::min(tokens, at_->tokens - into_);
      within_run(step);
      tokens -= step;
    }
  }
  /// Whether all of these come next; goes behind them if so.
  bool skip(const Runs& runs) {
    const std::size_t n = runs.size();
    if (n == 0) return true;
    if (static_cast<std::size_t>(end_ - at_) < n) return false;
    for (std::size_t i = 0; i < n; ++i) {
      const Segment here = i == 0 ? run() : at_[i];
      const Segment& there = runs[i];
      const bool enough = i + 1 < n ? here.tokens == there.tokens : here.tokens >= there.tokens;
      if (here.stream != there.stream || here.offset != there.offset || !enough) return false;
    }
    at_ += n - 1;
    if (n > 1) into_ = 0;
    within_run(runs.back().tokens);
    return true;
  }

 private:
  const Segment *at_, *end_;
  std::int64_t into_ = 0;  // tokens of the run here that are behind
};

/// Tokens from the beginning of `a` that `b` says too, at most `limit`; `b` goes on behind them.
/// Runs that go on are joined in both, so that one of `a` is in one of `b`.
inline std::int64_t skip_common(const Runs& a, RunCursor& b, std::int64_t limit) {
  std::int64_t same = 0;
  for (const Segment& x : a) {
    if (same == limit || b.at_end()) break;
    const Segment y = b.run();
    if (x.stream != y.stream || x.offset != y.offset) break;
    const std::int64_t step = std::min({x.tokens, y.tokens, limit - same});
    same += step;
    b.within_run(step);
    if (step < x.tokens) break;
  }
  return same;
}

/// Whole pages of `runs`, which do not all come here, that come here too, at most `most`; `here`
/// goes on behind them if these are all that may.
inline std::int64_t first_common_pages(const Runs& runs, RunCursor& here, std::int64_t most,
                                       PageSize page) {
  if (!here.begins(runs.front())) return 0;
  RunCursor behind = here;
  const std::int64_t same = skip_common(runs, behind, most * page);
  if (same < most * page) return same / page;
  here = behind;
  return most;
}

/// Whole pages of `runs`, which are `pages` of them, that come here too, at most `limit`; `here`
/// goes on behind them if these are all that may. Mostly all of them come.
inline std::int64_t common_pages(const Runs& runs, std::int64_t pages, RunCursor& here,
                                 std::int64_t limit, PageSize page) {
  if (pages <= limit && here.skip(runs)) return pages;
  return first_common_pages(runs, here, std::min(pages, limit), page);
}

/// Appends the next `tokens` tokens (or all there are); runs that go on are joined.
inline void append_runs(Runs& out, RunCursor from, std::int64_t tokens) {
  while (tokens > 0 && !from.at_end()) {
    Segment s = from.run();
    s.tokens = std::min(s.tokens, tokens);
    from.within_run(s.tokens);
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

/// Takes the last `tokens` tokens away; there must be more.
inline void drop_last(Runs& runs, std::int64_t tokens) {
  while (runs.back().tokens <= tokens) {
    tokens -= runs.back().tokens;
    runs.pop_back();
  }
  runs.back().tokens -= tokens;
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
    from.within_run(n);
  }
  return h;
}
