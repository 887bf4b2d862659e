// The prefix caches against the naive ones of tests/support, and what holds for both on their own.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include "sim/engine/kv_cache.hpp"
#include "tests/support/naive_kv_caches.hpp"

namespace {

using Words = std::vector<std::uint32_t>;  // draws, so that a failing case shrinks to a short one

std::unique_ptr<KvCache> make(const std::string& kind, std::int64_t pages, int page,
                              const std::string& policy = "lru") {
  const auto* factory = Registry<KvCacheFactory>::find(kind);
  REQUIRE(factory != nullptr);
  return (*factory)(pages, page, policy);
}

Content first(const Content& content, std::int64_t tokens) {
  Content out;
  for (Segment s : content.segments()) {
    s.tokens = std::min(s.tokens, tokens);
    out.append(s);
    tokens -= s.tokens;
  }
  return out;
}

struct Running {
  Content prompt;
  std::int64_t answer = 0, generated = 0, prefilled = 0;
  std::vector<KvHold> holds;  // one per cache

  Content said() const {
    Content out = prompt;
    out.append({answer, 0, generated});
    return out;
  }
};

/// A few requests at a time over some caches of the same pool, all told the same. What they say
/// comes from few streams and from what others have said, so that much is shared, in whole pages
/// and within them.
class Play {
 public:
  Play(std::vector<KvCache*> caches) : caches_(std::move(caches)) {}

  void act(std::uint32_t word) {
    word_ = word;
    const auto what = draw(12);
    if (running_.empty() || (what < 4 && running_.size() < 5)) return admit();
    const std::size_t i = draw(running_.size());
    Running& r = running_[i];
    const KvHold& h = r.holds[0];
    const std::int64_t prompt = r.prompt.tokens();
    if (what < 6) {  // the next chunk, or some tokens of the output
      if (r.prefilled < prompt) {
        const std::int64_t n = 1 + static_cast<std::int64_t>(draw(prompt - r.prefilled));
        if (grow(r, n)) r.prefilled += n;
      } else {
        const auto n = static_cast<std::int64_t>(1 + draw(6));
        if (grow(r, n)) r.generated += n;
      }
    } else if (what < 8) {
      const std::int64_t all = std::min(h.tokens, r.said().tokens());
      if (all <= h.shared) return;
      const std::int64_t tokens = h.shared + static_cast<std::int64_t>(draw(all - h.shared + 1));
      for (std::size_t c = 0; c < caches_.size(); ++c)
        caches_[c]->publish(r.holds[c], r.said(), tokens);
    } else if (what < 11) {  // finished; the last token may have no KV
      leave(i, std::max(h.tokens - static_cast<std::int64_t>(draw(2)), h.shared), true);
    } else {
      leave(i, h.tokens, draw(2) > 0);
    }
  }

  void leave(std::size_t i, std::int64_t computed, bool keep) {
    Running& r = running_[i];
    for (std::size_t c = 0; c < caches_.size(); ++c)
      caches_[c]->release(r.holds[c], r.said(), computed, keep);
    for (const KvHold& h : r.holds) RC_ASSERT(h.handle == -1 && h.tokens == 0);
    heard_.push_back(r.said());
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  void leave_all() {
    while (!running_.empty()) leave(0, running_[0].holds[0].tokens, true);
  }

  std::int64_t own(std::size_t cache) const {
    std::int64_t sum = 0;
    for (const Running& r : running_) sum += r.holds[cache].own_pages(caches_[cache]->page_size());
    return sum;
  }
  const std::vector<Running>& running() const { return running_; }
  const std::vector<Content>& heard() const { return heard_; }

 private:
  template <class Number>
  std::size_t draw(Number n) {
    word_ = word_ * 1664525u + 1013904223u;  // Numerical Recipes, 2nd edition, 7.1
    return (word_ >> 8) % static_cast<std::size_t>(n);
  }

  void admit() {
    Running r;
    if (!heard_.empty() && draw(4) > 0) {
      const Content& other = heard_[draw(heard_.size())];
      r.prompt = first(other, static_cast<std::int64_t>(draw(other.tokens() + 3)));
    }
    r.prompt.append({1 + static_cast<std::int64_t>(draw(3)), 0, static_cast<int>(draw(9)) + 1});
    r.answer = draw(3) > 0 ? 100 + ++answers_ : 7;
    const std::int64_t prompt = r.prompt.tokens();
    const std::int64_t found = caches_[0]->match(r.prompt, prompt - 1);
    r.holds.resize(caches_.size());
    for (std::size_t c = 0; c < caches_.size(); ++c) {
      if (c > 0) RC_ASSERT(caches_[c]->match(r.prompt, prompt - 1) == found);
      RC_ASSERT(found < prompt && found % caches_[c]->page_size() == 0);
      caches_[c]->hold(r.holds[c], r.prompt, found);
    }
    r.prefilled = found;
    const std::int64_t n =
        draw(2) > 0 ? prompt - found : 1 + static_cast<std::int64_t>(draw(prompt - found));
    if (!grow(r, n)) {
      for (std::size_t c = 0; c < caches_.size(); ++c) caches_[c]->let_go(r.holds[c]);
      return;
    }
    r.prefilled += n;
    if (draw(2) > 0)
      for (std::size_t c = 0; c < caches_.size(); ++c)
        caches_[c]->publish(r.holds[c], r.prompt, r.prefilled);
    running_.push_back(std::move(r));
  }

  bool grow(Running& r, std::int64_t tokens) {
    const int page = caches_[0]->page_size();
    KvHold after = r.holds[0];
    after.tokens += tokens;
    const std::int64_t pages = after.pages(page) - r.holds[0].pages(page);
    if (pages > caches_[0]->available()) return false;
    for (std::size_t c = 0; c < caches_.size(); ++c) {
      caches_[c]->take(pages);
      if (c > 0) caches_[c]->unused();  // evicts at once
      r.holds[c].tokens += tokens;
    }
    return true;
  }

  std::vector<KvCache*> caches_;
  std::vector<Running> running_;
  std::vector<Content> heard_;
  std::int64_t answers_ = 0;
  std::uint32_t word_ = 0;
};

Words words() {
  return *rc::gen::container<Words>(static_cast<std::size_t>(*rc::gen::inRange(1, 250)),
                                    rc::gen::inRange<std::uint32_t>(0, 1u << 31));
}

template <class Naive>
void compare(KvCache& fast, Naive& naive) {
  Play play({&fast, &naive});
  for (const std::uint32_t word : words()) {
    play.act(word);
    RC_ASSERT(fast.available() == naive.available());
    if (word % 8 == 0) RC_ASSERT(fast.unused() == naive.unused());  // evicts what it has to
    RC_ASSERT(fast.available() + naive.locked() + play.own(0) == fast.total());
    for (const Running& r : play.running()) RC_ASSERT(r.holds[0].shared == r.holds[1].shared);
  }
  for (const Content& c : play.heard())
    RC_ASSERT(fast.match(c, c.tokens()) == naive.match(c, c.tokens()));
}

}  // namespace

TEST_CASE("the radix cache equals SGLang's tree page by page, in every order of eviction") {
  for (const char* policy : {"lru", "lfu", "priority", "mru", "fifo", "filo"})
    for (const int page : {1, 2, 5}) {
      CAPTURE(policy, page);
      CHECK(rc::check([&] {
        const auto pages = *rc::gen::inRange<std::int64_t>(4, 120 / page);
        const auto fast = make("radix", pages, page, policy);
        naive::RadixCache naive(pages, page, policy);
        compare(*fast, naive);
      }));
    }
}

TEST_CASE("the block cache equals vLLM's queue block by block, second copies included") {
  for (const int page : {1, 2, 3, 5})
    for (int turn = 0; turn < 4; ++turn) {
      CAPTURE(page);
      CHECK(rc::check([&] {
        const auto pages = *rc::gen::inRange<std::int64_t>(4, 120 / page);
        const auto fast = make("blocks", pages, page);
        naive::BlockCache naive(pages, page);
        compare(*fast, naive);
      }));
    }
}

TEST_CASE("what a request holds of a prefix cache is never evicted, and all of it comes back") {
  for (const char* kind : {"radix", "blocks"}) {
    CAPTURE(kind);
    CHECK(rc::check([&] {
      const int page = *rc::gen::inRange(1, 6);
      const auto cache = make(kind, *rc::gen::inRange<std::int64_t>(4, 40), page);
      Play play({cache.get()});
      for (const std::uint32_t word : words()) {
        play.act(word);
        RC_ASSERT(cache->unused() <= cache->available());
        for (const Running& r : play.running()) {
          const KvHold& h = r.holds[0];
          RC_ASSERT(cache->match(r.said(), h.shared) == h.shared);
        }
      }
      play.leave_all();
      RC_ASSERT(cache->available() == cache->total());
      cache->take(cache->total());
      RC_ASSERT(cache->available() == 0 && cache->unused() == 0);
      for (const Content& c : play.heard()) RC_ASSERT(cache->match(c, c.tokens()) == 0);
    }));
  }
}

TEST_CASE("a hit is as long as what was published, in whole pages, and no longer than asked") {
  for (const char* kind : {"radix", "blocks"})
    CHECK(rc::check([&] {
      const int page = *rc::gen::inRange(1, 6);
      const auto cache = make(kind, 1000, page);
      Content prompt;
      for (int i = *rc::gen::inRange(1, 5); i > 0; --i)
        prompt.append({i, *rc::gen::inRange(0, 9), *rc::gen::inRange(1, 20)});
      const auto tokens = *rc::gen::inRange<std::int64_t>(0, prompt.tokens() + 1);
      const auto limit = *rc::gen::inRange<std::int64_t>(0, prompt.tokens() + 1);
      KvHold hold;
      cache->hold(hold, prompt, 0);
      hold.tokens = prompt.tokens();
      cache->take(hold.pages(page));
      cache->publish(hold, prompt, tokens);
      RC_ASSERT(cache->match(prompt, limit) == std::min(tokens, limit) / page * page);
    }));
}

TEST_CASE("taking pages in two goes evicts what taking them at once does") {
  for (const char* kind : {"radix", "blocks"})
    CHECK(rc::check([&] {
      const int page = *rc::gen::inRange(1, 4);
      const auto a = make(kind, 40, page), b = make(kind, 40, page);
      Play play({a.get(), b.get()});
      for (const std::uint32_t word : words()) play.act(word);
      const auto all = *rc::gen::inRange<std::int64_t>(0, a->available() + 1);
      const auto some = *rc::gen::inRange<std::int64_t>(0, all + 1);
      a->take(all);
      b->take(some);
      b->unused();  // evicts at once
      b->take(all - some);
      RC_ASSERT(a->unused() == b->unused());
      for (const Content& c : play.heard())
        RC_ASSERT(a->match(c, c.tokens()) == b->match(c, c.tokens()));
    }));
}
