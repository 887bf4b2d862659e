// Traces by hand of the two prefix caches; tests/law compares them with naive ones.

#include <memory>
#include <string>

#include <catch2/catch.hpp>

#include "sim/engine/kv_cache.hpp"
#include "sim/engine/runs.hpp"

namespace {

constexpr int page = 4;

/// A cache and the request side of its bookkeeping.
struct Pool {
  Pool(const char* kind, std::int64_t pages, const char* policy = "lru")
      : cache((*Registry<KvCacheFactory>::find(kind))(pages, page, policy)) {}

  KvHold admit(const Content& prompt) {
    const std::int64_t hit = cache->match(prompt, prompt.tokens() - 1);
    KvHold hold;
    cache->hold(hold, prompt, hit);
    hold.tokens = prompt.tokens();
    cache->take(hold.own_pages(page));
    return hold;
  }
  void publish(KvHold& hold, const Content& said) { cache->publish(hold, said, said.tokens()); }
  void finish(KvHold& hold, const Content& said) {
    cache->release(hold, said, said.tokens(), true);
  }
  /// From admission to the end.
  void serve(const Content& said) {
    KvHold hold = admit(said);
    finish(hold, said);
  }
  std::int64_t cached(const Content& content) { return cache->match(content, content.tokens()); }

  std::unique_ptr<KvCache> cache;
};

Content of(std::int64_t stream, std::int64_t tokens) { return {stream, tokens}; }

Content then(Content head, std::int64_t stream, std::int64_t tokens) {
  head.append({stream, 0, tokens});
  return head;
}

}  // namespace

TEST_CASE("both prefix caches find whole pages of what was said, and drop the partial one") {
  for (const char* kind : {"radix", "blocks"}) {
    CAPTURE(kind);
    Pool pool(kind, 10);
    pool.serve(then(of(1, 6), 2, 5));  // 11 tokens: pages 0-3, 4-7 and three tokens over
    CHECK(pool.cache->unused() == 8);
    CHECK(pool.cache->available() == 10);
    CHECK(pool.cached(then(of(1, 6), 2, 20)) == 8);
    CHECK(pool.cached(of(1, 11)) == 4);  // the second page says 1 1 2 2, not 1 1 1 1
    CHECK(pool.cached(then(of(1, 6), 3, 20)) == 4);
    CHECK(pool.cached(then(of(1, 5), 2, 20)) == 4);
    CHECK(pool.cache->match(then(of(1, 6), 2, 20), 7) == 4);
  }
}

TEST_CASE("SGLang evicts a whole leaf for one page") {
  Pool pool("radix", 10);
  pool.serve(of(1, 24));
  pool.serve(of(2, 16));  // all 10 pages evictable: 6 + 4
  pool.cache->take(1);
  CHECK(pool.cache->unused() == 5);  // 6 of the older leaf, less the one taken
  CHECK(pool.cached(of(1, 24)) == 0);
  CHECK(pool.cached(of(2, 16)) == 16);
}

TEST_CASE("SGLang evicts a shared beginning after all that goes on from it") {
  Pool pool("radix", 10);
  pool.serve(then(of(1, 8), 2, 8));
  pool.serve(then(of(1, 8), 3, 8));  // 2 shared pages, 2 of each
  CHECK(pool.cache->unused() == 4);
  pool.cache->take(5);
  CHECK(pool.cached(then(of(1, 8), 2, 8)) == 8);
  CHECK(pool.cached(then(of(1, 8), 3, 8)) == 16);
  pool.cache->take(2);  // one page is unused: the second leaf goes, too
  CHECK(pool.cached(then(of(1, 8), 3, 8)) == 8);
  CHECK(pool.cache->unused() == 1);
}

TEST_CASE("SGLang gives back pages that another request has published meanwhile") {
  Pool pool("radix", 10);
  KvHold a = pool.admit(of(1, 13)), b = pool.admit(of(1, 13));  // 4 pages each, no hit
  CHECK(pool.cache->unused() == 2);
  pool.publish(a, of(1, 13));
  CHECK(pool.cache->unused() == 2);
  pool.publish(b, of(1, 13));  // its 3 whole pages are there already
  CHECK(pool.cache->unused() == 5);
  CHECK(b.own_pages(page) == 1);
  pool.cache->release(a, {}, 0, false);
  CHECK(pool.cache->available() == 6);  // the partial page; b locks the 3 others
  pool.cache->release(b, {}, 0, false);
  CHECK(pool.cache->available() == 10);
}

TEST_CASE("SGLang's orders of eviction differ in who goes first") {
  const auto survivors = [](const char* policy) {
    Pool pool("radix", 12, policy);
    for (const int stream : {1, 2, 3}) pool.serve(of(stream, 16));
    pool.cached(of(1, 16));  // used last, and made first
    pool.cache->take(1);
    std::string out;
    for (const int stream : {1, 2, 3})
      if (pool.cached(of(stream, 16)) == 16) out += std::to_string(stream);
    return out;
  };
  CHECK(survivors("lru") == "13");
  CHECK(survivors("mru") == "23");
  CHECK(survivors("fifo") == "23");
  CHECK(survivors("filo") == "12");
}

TEST_CASE("vLLM evicts from the end of what was said, the request that left first before others") {
  Pool pool("blocks", 10);
  pool.serve(of(1, 24));
  pool.serve(of(2, 16));
  pool.cache->take(1);
  CHECK(pool.cache->unused() == 0);
  CHECK(pool.cached(of(1, 24)) == 20);
  pool.cache->take(6);  // five are left of the first, one comes from the end of the second
  CHECK(pool.cached(of(1, 24)) == 0);
  CHECK(pool.cached(of(2, 16)) == 12);
}

TEST_CASE("a hit pulls vLLM's blocks out of the queue, a refused request leaves them in place") {
  Pool pool("blocks", 10);
  pool.serve(of(1, 16));
  pool.serve(of(2, 24));
  SECTION("a hit") {
    KvHold hold;
    CHECK(pool.cache->match(of(1, 16), 8) == 8);
    pool.cache->hold(hold, of(1, 16), 8);
    CHECK(pool.cache->available() == 8);
    pool.finish(hold, of(1, 8));
    pool.cache->take(8);  // the two blocks are the last of the queue now
    CHECK(pool.cached(of(1, 16)) == 8);
  }
  SECTION("a refusal") {
    KvHold hold;
    pool.cache->match(of(1, 16), 8);
    pool.cache->hold(hold, of(1, 16), 8);
    pool.cache->let_go(hold);
    pool.cache->take(4);
    CHECK(pool.cached(of(1, 16)) == 0);
    CHECK(pool.cached(of(2, 24)) == 24);
  }
}

TEST_CASE("vLLM keeps a second copy, which answers when the first is gone") {
  Pool pool("blocks", 8);
  KvHold a = pool.admit(of(1, 13)), b = pool.admit(of(1, 13));
  pool.publish(a, of(1, 13));
  pool.publish(b, of(1, 13));
  CHECK(pool.cache->available() == 0);  // 4 blocks each, nothing given back
  pool.finish(a, of(1, 13));
  pool.cache->take(4);
  CHECK(pool.cached(of(1, 13)) == 12);  // b's
  pool.finish(b, of(1, 13));
  pool.cache->take(2);  // its partial block, then the last whole one
  CHECK(pool.cached(of(1, 13)) == 8);
}

TEST_CASE(
    "vLLM's partial block queues before the blocks of its request, not before those of others") {
  Pool pool("blocks", 6);
  pool.serve(of(1, 8));
  pool.serve(of(2, 10));  // 2 whole blocks and a partial one
  CHECK(pool.cache->unused() == 2);
  pool.cache->take(1);  // never used
  pool.cache->take(2);  // the first request's two: the partial block is behind them
  CHECK(pool.cached(of(1, 8)) == 0);
  CHECK(pool.cache->unused() == 1);
  CHECK(pool.cached(of(2, 8)) == 8);
}

TEST_CASE("a place in a content is the same from its end as from its beginning") {
  Content content(1, 5);
  for (int i = 0; i < 4; ++i) content = then(content, 2 + i, 1 + 3 * i);
  CHECK(content.tokens() == 5 + 1 + 4 + 7 + 10);
  for (std::int64_t tokens = 0; tokens <= content.tokens(); ++tokens) {
    RunCursor forward(content);
    forward.advance(tokens);
    const RunCursor back(content, tokens);
    REQUIRE(back.at_end() == forward.at_end());
    if (!back.at_end()) CHECK(back.run() == forward.run());
  }
}

TEST_CASE("runs lose their last tokens") {
  Runs runs;
  const Content content = then(then(of(1, 5), 2, 3), 3, 4);
  append_runs(runs, RunCursor(content), 12);
  drop_last(runs, 2);
  CHECK(runs.back() == Segment{3, 0, 2});
  drop_last(runs, 5);  // the rest of the third run and all of the second
  REQUIRE(runs.size() == 1);
  CHECK(runs.back() == Segment{1, 0, 5});
}
