#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "sim/base/assert.hpp"
#include "sim/base/registry.hpp"
#include "sim/engine/content.hpp"
#include "sim/engine/page_size.hpp"

/// What one request holds of the KV pool: the beginning of it belongs to the cache and is locked,
/// the rest is the request's own. `tokens` of it have pages; whole pages of the first `shared`
/// tokens are the cache's.
struct KvHold {
  std::int64_t tokens = 0;   // with KV pages
  std::int64_t shared = 0;   // of them, from or in the cache: a multiple of the page size
  std::int64_t handle = -1;  // the cache's own business; -1: nothing held

  std::int64_t pages(PageSize page) const { return pages_for(tokens, page); }
  std::int64_t own_pages(PageSize page) const { return pages(page) - shared / page; }
};

/// The pages of a KV pool and what of earlier requests is still in them. Pages that only the cache
/// holds are evictable and count as available. Own pages of requests are counted, not named: a
/// decode pass takes those of all its requests at once, and what must be evicted for them is
/// evicted when somebody looks next.
///
/// A request's life: match() and hold() at admission, take() as it grows, publish() when what it
/// computed may be shared, release() at its end or when it is retracted.
class KvCache {
 public:
  KvCache(std::int64_t pages, PageSize page_size)
      : unused_(pages), total_(pages), page_size_(page_size) {}
  virtual ~KvCache() = default;

  std::int64_t total() const { return total_; }
  PageSize page_size() const { return page_size_; }
  /// Pages that take() can hand out now: free or evictable.
  std::int64_t available() const { return unused_ + evictable_ - taken_; }
  /// Pages that hold nothing (not even evictable content).
  std::int64_t unused() {
    settle();
    return unused_;
  }
  /// Hands out pages (for `hold.tokens` the caller counts); evicts what it must. `pages` <=
  /// available().
  void take(std::int64_t pages) {
    SIM_ASSERT(pages <= available());
    taken_ += pages;
  }

  /// Tokens at the beginning of `content` that are cached, whole pages, at most `limit`. Counts as
  /// a use of them (eviction order) where the engine counts it so.
  virtual std::int64_t match(const Content& content, std::int64_t limit) = 0;
  /// Locks the first `tokens` of `content`, as match() said just before: `hold` must hold nothing.
  virtual void hold(KvHold& hold, const Content& content, std::int64_t tokens) = 0;
  /// Unlocks what hold() locked, as if it had not been asked; no own pages yet, and nobody has
  /// taken any in between.
  virtual void let_go(KvHold& hold) = 0;
  /// The first `tokens` of `content` are computed: their whole pages may be shared from now on and
  /// stay locked by `hold`. Own pages that say the same as cached ones are given back.
  virtual void publish(KvHold& hold, const Content& content, std::int64_t tokens) = 0;
  /// The request leaves the pool. `keep`: the whole pages of the first `computed` tokens of
  /// `content` stay as evictable ones; else own pages are simply given back. Empties `hold`.
  virtual void release(KvHold& hold, const Content& content, std::int64_t computed, bool keep) = 0;

 protected:
  /// Evicts for what was taken since: first of all in whatever looks at content or changes it.
  void settle() {
    if (taken_ > 0) hand_out(std::exchange(taken_, 0));
  }
  /// Makes so many pages unused, if they are not, and takes them off.
  virtual void hand_out(std::int64_t pages) = 0;

  std::int64_t unused_, evictable_ = 0;

 private:
  std::int64_t total_, taken_ = 0;
  PageSize page_size_;
};

/// Makes a cache of `pages` pages of `page_size` tokens. `policy`: eviction order (lru, ...).
using KvCacheFactory = std::unique_ptr<KvCache> (*)(std::int64_t pages, PageSize page_size,
                                                    const std::string& policy);

/// A pool without a prefix cache: counts only.
std::unique_ptr<KvCache> plain_kv_pool(std::int64_t pages, PageSize page_size);
