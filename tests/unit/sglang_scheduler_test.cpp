// Hand traces of SGLang 0.5.9's rules, each against a scheduler that sees nothing but a view.

#include "sim/engine/sglang_scheduler.hpp"

#include <numeric>

#include <catch2/catch.hpp>

#include "tests/support/scheduler_table.hpp"

namespace {

using namespace table;

SglangOptions options() { return {}; }

SglangScheduler scheduler(void (*change)(SglangOptions&)) {
  SglangOptions o = options();
  change(o);
  return SglangScheduler(o);
}

}  // namespace

TEST_CASE("a prefill goes first and alone, decode waits") {
  SglangScheduler s(options());
  Table t;
  t.running = {decoding(0, 10, 10, 3)};
  t.waiting = {queued(1, 5, 10), queued(2, 7, 10)};
  const auto prefill = t.ask(s);
  CHECK(prefill.ids() == Ids{1, 2});  // all that fit share one pass
  CHECK(prefill.sizes() == Sizes{5, 7});
  CHECK_FALSE(prefill.decode);
  t.waiting.clear();
  const auto decode = t.ask(s);
  CHECK(decode.extend.empty());
  CHECK(decode.decode);
}

TEST_CASE("with nothing waiting and nothing running the plan is idle") {
  SglangScheduler s(options());
  Table t;
  CHECK(t.ask(s).idle());
}

TEST_CASE("the first refusal ends the pass, nobody is skipped") {
  SglangScheduler s(options());
  Table t;
  t.free_pages = 100;
  // 0 takes 10 + 10; 1 would need 90 + 10 of the 80 left; 2 alone would fit.
  t.waiting = {queued(0, 10, 10), queued(1, 90, 10), queued(2, 1, 1)};
  CHECK(t.ask(s).ids() == Ids{0});
  CHECK(s.batch_is_full());
}

TEST_CASE("admission needs strictly more room than prompt and new tokens") {
  for (const std::int64_t free : {20, 21}) {
    SglangScheduler s(options());
    Table t;
    t.free_pages = free;
    t.waiting = {queued(0, 10, 10)};  // needs 10 + 10 < free
    CHECK(t.ask(s).ids() == (free == 21 ? Ids{0} : Ids{}));
  }
}

TEST_CASE(
    "those admitted in a pass reserve all their new tokens, running ones a share of the rest") {
  Table t;
  // Running: min(100 - 40, 4096) x 0.7 = 42 reserved.
  t.running = {decoding(0, 10, 100, 40)};
  // 1 takes 10 + 20 = 30, so 2 sees free - 72 and needs 10 + 20 < that.
  t.waiting = {queued(1, 10, 20), queued(2, 10, 20)};
  t.free_pages = 103;  // 103 - 42 - 30 = 31
  SglangScheduler enough(options());
  CHECK(t.ask(enough).ids() == Ids{1, 2});
  t.free_pages = 102;
  SglangScheduler short_by_one(options());
  CHECK(t.ask(short_by_one).ids() == Ids{1});
  CHECK(short_by_one.batch_is_full());
}

TEST_CASE("nobody reserves more than 4096 new tokens") {
  SglangScheduler s(options());
  Table t;
  t.waiting = {queued(0, 10, 100'000)};
  t.free_pages = 10 + 4096 + 1;
  CHECK(t.ask(s).ids() == Ids{0});
  // Running: min(99,990, 4096) x 0.7 = 2867.2, so of 2887 tokens 19.8 are left and 10 + 10 must be
  // less.
  SglangScheduler other(options());
  t.running = {decoding(1, 10, 100'000, 10)};
  t.waiting = {queued(0, 10, 10)};
  t.free_pages = 2867 + 20;
  CHECK(t.ask(other).extend.empty());
  SglangScheduler another(options());
  t.free_pages = 2867 + 21;
  CHECK(t.ask(another).ids() == Ids{0});
}

TEST_CASE("an extend is charged in whole pages") {
  // Pages of 16: a prompt of 17 is charged 32, and 20 new tokens are reserved. Of 160 tokens 108
  // are left, and the next needs 17 + 91 < 108 (refused) or 17 + 90 (admitted).
  for (const std::int64_t max_new : {90, 91}) {
    SglangScheduler s(options());
    Table t;
    t.page_size = 16;
    t.free_pages = 10;
    t.waiting = {queued(0, 17, 20), queued(1, 17, max_new)};
    CHECK(t.ask(s).ids() == (max_new == 90 ? Ids{0, 1} : Ids{0}));
  }
}

TEST_CASE("batch_is_full sticks until a decode follows a finish") {
  SglangScheduler s(options());
  Table t;
  t.free_pages = 5;
  t.running = {decoding(0, 10, 10, 3), decoding(1, 10, 10, 3)};
  t.waiting = {queued(2, 50, 10)};
  CHECK(t.ask(s).decode);  // refused
  REQUIRE(s.batch_is_full());
  // More room does not open it again, nor does time.
  t.free_pages = 1000;
  for (int i = 0; i < 5; ++i) CHECK(t.ask(s).decode);
  // A finish alone does not either: the pass that is chosen next is still a decode.
  s.on_finish(t.running[0]);
  t.running.erase(t.running.begin());
  CHECK(s.batch_is_full());
  CHECK(t.ask(s).decode);
  CHECK_FALSE(s.batch_is_full());
  CHECK(t.ask(s).ids() == Ids{2});
}

TEST_CASE("running out of input or chunk budget does not set batch_is_full") {
  auto s = scheduler([](SglangOptions& o) { o.max_prefill_tokens = 10; });
  Table t;
  t.waiting = {queued(0, 8, 5), queued(1, 8, 5)};
  CHECK(t.ask(s).ids() == Ids{0});
  CHECK_FALSE(s.batch_is_full());
  auto c = scheduler([](SglangOptions& o) { o.chunked_prefill_size = 8; });
  CHECK(t.ask(c).ids() == Ids{0});
  CHECK_FALSE(c.batch_is_full());
}

TEST_CASE("slots are those of max_running_requests, finished ones count until the next decode") {
  auto s = scheduler([](SglangOptions& o) { o.max_running_requests = 3; });
  Table t;
  t.running = {decoding(0, 10, 10, 3)};
  t.waiting = {queued(1, 5, 5), queued(2, 5, 5), queued(3, 5, 5)};
  CHECK(t.ask(s).ids() == Ids{1, 2});
  CHECK(s.batch_is_full());  // the third hit the limit

  auto f = scheduler([](SglangOptions& o) { o.max_running_requests = 3; });
  Table u;
  u.running = {decoding(0, 10, 10, 3), decoding(1, 10, 10, 3)};
  f.on_finish(decoding(9, 10, 10, 10));  // a third, not filtered yet
  u.waiting = {queued(2, 5, 5)};
  CHECK(u.ask(f).decode);           // no slot: decode, which filters it
  CHECK(u.ask(f).ids() == Ids{2});  // now there is one
}

TEST_CASE("the input budget lets the first request pass whatever its length") {
  auto s = scheduler([](SglangOptions& o) { o.max_prefill_tokens = 100; });
  Table t;
  t.waiting = {queued(0, 500, 5), queued(1, 1, 5)};
  CHECK(t.ask(s).ids() == Ids{0});
  // In second place it is refused: 40 + 60 would use all of the 100.
  t.waiting = {queued(0, 40, 5), queued(1, 60, 5), queued(2, 1, 5)};
  CHECK(t.ask(s).ids() == Ids{0});
  t.waiting = {queued(0, 40, 5), queued(1, 59, 5)};
  CHECK(t.ask(s).ids() == Ids{0, 1});
}

TEST_CASE("a prompt above the chunk budget is cut at a page and goes first in the next pass") {
  auto s = scheduler([](SglangOptions& o) { o.chunked_prefill_size = 32; });
  Table t;
  t.page_size = 8;
  // 0 uses ceil(10 / 8) pages = 16 of 32 tokens; 1 gets the other 16 of its 50.
  t.waiting = {queued(0, 10, 5), queued(1, 50, 5), queued(2, 6, 5)};
  auto plan = t.ask(s);
  CHECK(plan.ids() == Ids{0, 1});
  CHECK(plan.sizes() == Sizes{10, 16});
  // Next pass: 34 are left, 32 of them fit, nobody else does.
  t.waiting = {queued(2, 6, 5)};
  t.prefilling = {half(1, 50, 5, 16)};
  plan = t.ask(s);
  CHECK(plan.ids() == Ids{1});
  CHECK(plan.sizes() == Sizes{32});
  // Last chunk: 2 tokens use one page, 24 are left for the queue.
  t.prefilling[0].prefilled = t.prefilling[0].kv.tokens = 48;
  plan = t.ask(s);
  CHECK(plan.ids() == Ids{1, 2});
  CHECK(plan.sizes() == Sizes{2, 6});
}

TEST_CASE("a cut between pages is rounded down to a whole page") {
  auto s = scheduler([](SglangOptions& o) { o.chunked_prefill_size = 32; });
  Table t;
  t.page_size = 8;
  t.waiting = {queued(0, 20, 5), queued(1, 50, 5)};  // 24 charged, 8 left
  CHECK(t.ask(s).sizes() == Sizes{20, 8});
  t.waiting = {queued(0, 25, 5), queued(1, 50, 5)};  // 32 charged, nothing left
  auto u = scheduler([](SglangOptions& o) { o.chunked_prefill_size = 32; });
  CHECK(t.ask(u).sizes() == Sizes{25});
}

TEST_CASE("a cut request reserves no output") {
  // Chunk 8 of a prompt of 16 with 30 new tokens. Its admission needs 16 + 30 < free, but of 50 it
  // takes only 8, so the next pass has 42 for its rest and reservation.
  auto s = scheduler([](SglangOptions& o) { o.chunked_prefill_size = 8; });
  Table t;
  t.free_pages = 42;
  t.prefilling = {half(0, 24, 30, 8)};
  t.waiting = {queued(1, 5, 25)};
  // The second chunk of three fills the pass.
  CHECK(t.ask(s).sizes() == Sizes{8});
  CHECK_FALSE(s.batch_is_full());
  // The last chunk takes 4 and reserves 30: 42 - 34 = 8, too little for 5 + 25.
  t.prefilling = {half(0, 12, 30, 8)};
  CHECK(t.ask(s).sizes() == Sizes{4});
  CHECK(s.batch_is_full());
}

TEST_CASE("a cut request goes on even while the batch is full") {
  auto s = scheduler([](SglangOptions& o) {
    o.chunked_prefill_size = 8;
    o.max_running_requests = 2;
  });
  Table t;
  t.running = {decoding(0, 4, 10, 2)};
  t.waiting = {queued(1, 20, 5), queued(2, 3, 5)};
  CHECK(t.ask(s).sizes() == Sizes{8});
  t.waiting = {queued(2, 3, 5)};
  t.prefilling = {half(1, 20, 5, 16)};
  const auto plan = t.ask(s);  // the last 4; no slot for 2
  CHECK(plan.ids() == Ids{1});
  CHECK(s.batch_is_full());
}

TEST_CASE("when a cut request finds no room, nobody behind it is admitted") {
  auto s = scheduler([](SglangOptions& o) { o.chunked_prefill_size = 8; });
  Table t;
  t.page_size = 4;
  t.free_pages =
      2;  // 8 tokens, of which 0.7 x 8 = 5.6 are reserved: 2.4 are left, less than a page
  t.running = {decoding(0, 4, 10, 2)};
  t.prefilling = {half(1, 20, 5, 8)};
  t.waiting = {queued(2, 1, 1)};  // 1 + 1 < 2.4 would fit
  const auto plan = t.ask(s);
  CHECK(plan.extend.empty());
  CHECK(plan.decode);
}

TEST_CASE("with chunking off a prompt is never cut") {
  for (const std::int64_t off : {0, -1}) {
    SglangOptions o;
    o.chunked_prefill_size = off;
    o.max_prefill_tokens = 1'000'000;
    SglangScheduler s(o);
    Table t;
    t.waiting = {queued(0, 20'000, 5)};
    CHECK(t.ask(s).sizes() == Sizes{20'000});
  }
}

TEST_CASE("new_token_ratio starts at 0.7 and falls to 0.098 in 600 decodes, not below") {
  SglangScheduler s(options());
  Table t;
  t.running = {decoding(0, 10, 10, 3)};
  CHECK(s.new_token_ratio(t.decode_passes) == Approx(0.7).epsilon(1e-12));
  t.ask(s);
  // (0.7 - 0.098) / 600 each
  CHECK(s.new_token_ratio(t.decode_passes) == Approx(0.7 - 0.602 / 600).epsilon(1e-12));
  for (int i = 1; i < 600; ++i) t.ask(s);
  CHECK(s.new_token_ratio(t.decode_passes) == Approx(0.098).epsilon(1e-9));
  for (int i = 0; i < 50; ++i) t.ask(s);
  CHECK(s.new_token_ratio(t.decode_passes) == Approx(0.098).epsilon(1e-9));
  CHECK(s.new_token_ratio(t.decode_passes) >= 0.7 * 0.14);
}

TEST_CASE("a prefill leaves the ratio alone, an idle look puts it back") {
  SglangScheduler s(options());
  Table t;
  t.running = {decoding(0, 10, 10, 3)};
  for (int i = 0; i < 300; ++i) t.ask(s);
  const double before = s.new_token_ratio(t.decode_passes);
  CHECK(before == Approx(0.7 - 0.301).epsilon(1e-9));
  t.waiting = {queued(1, 5, 5)};
  REQUIRE(t.ask(s).extend.size() == 1);
  CHECK(s.new_token_ratio(t.decode_passes) == before);
  t.idle(s);
  CHECK(s.new_token_ratio(t.decode_passes) == Approx(0.7).epsilon(1e-12));
}

TEST_CASE("schedule_conservativeness scales the ratio, capped at one") {
  auto third = scheduler([](SglangOptions& o) { o.schedule_conservativeness = 0.3; });
  CHECK(third.new_token_ratio(0) == Approx(0.21).epsilon(1e-12));
  auto twice = scheduler([](SglangOptions& o) { o.schedule_conservativeness = 2; });
  CHECK(twice.new_token_ratio(0) == 1.0);
}

TEST_CASE("a decode that lacks pages retracts the request with the fewest generated tokens") {
  SglangScheduler s(options());
  Table t;
  t.page_size = 4;
  // Each holds a multiple of 4 tokens, so each needs a page for the next one; two are free.
  t.running = {decoding(0, 6, 50, 3), decoding(1, 4, 50, 5), decoding(2, 7, 50, 2)};
  for (const auto& r : t.running) REQUIRE(r.kv.tokens == 8);
  t.free_pages = 2;
  const auto plan = t.ask(s);
  // 2 made the fewest; its two pages and the two free ones cover the two that stay.
  CHECK(plan.gone == Ids{2});
  CHECK(plan.decode);
  // (3 + 5 generated + 20 x 2) / (50 + 50 + 1)
  CHECK(s.new_token_ratio(t.decode_passes) == Approx(48.0 / 101).epsilon(1e-12));
}

TEST_CASE("among equals the longest prompt is retracted first") {
  SglangScheduler s(options());
  Table t;
  t.running = {decoding(0, 9, 50, 2), decoding(1, 30, 50, 2), decoding(2, 20, 50, 2)};
  t.free_pages = 0;
  const auto plan = t.ask(s);
  CHECK(plan.gone == Ids{1});  // 31 pages come back, enough for the other two
}

TEST_CASE("retraction goes on until the next step fits, and one always stays") {
  SglangScheduler s(options());
  Table t;
  t.page_size = 4;
  // Five requests that need a page each; nothing is free. Each retraction brings one page.
  for (RequestId i = 0; i < 5; ++i) {
    t.running.push_back(decoding(i, 4 - i % 2, 50, 1 + i % 2));
    REQUIRE(t.running.back().kv.tokens == 4);
  }
  t.free_pages = 0;
  const auto plan = t.ask(s);
  // Generated 1, 2, 1, 2, 1: the ones go first. After 4 and 2, pages 2, needed 3; after 0: 3 and 2.
  CHECK(plan.gone.size() == 3);
  CHECK(plan.decode);
  for (const RequestId id : plan.gone) CHECK(id % 2 == 0);

  SglangScheduler u(options());
  Table hopeless;
  hopeless.page_size = 1;
  hopeless.running = {decoding(0, 1, 9, 1), decoding(1, 1, 9, 1)};
  hopeless.running[0].kv.tokens = hopeless.running[1].kv.tokens = 0;  // nothing to give back
  hopeless.free_pages = 0;
  hopeless.may_overdraw = true;
  const auto last = hopeless.ask(u);
  CHECK(last.gone.size() == 1);
  CHECK(last.decode);
}

TEST_CASE("a retraction opens admission and sets the ratio to at most one") {
  SglangScheduler s(options());
  Table t;
  t.running = {decoding(0, 9, 10, 5), decoding(1, 9, 10, 4)};
  t.free_pages = 1;
  t.waiting = {queued(2, 100, 10)};
  const auto plan = t.ask(s);  // 2 is refused, then two tokens need two pages of one
  CHECK(plan.gone == Ids{1});
  CHECK_FALSE(s.batch_is_full());
  // (5 + 20 x 1) / (10 + 1) is above one
  CHECK(s.new_token_ratio(t.decode_passes) == 1.0);
}

TEST_CASE("a retracted request prefills its prompt and its tokens again and reserves the rest") {
  SglangScheduler s(options());
  Table t;
  RequestView back = queued(0, 10, 20);
  back.generated = 6;
  t.waiting = {back};
  t.free_pages = 31;  // 16 to prefill + 14 to come < 31
  const auto plan = t.ask(s);
  CHECK(plan.sizes() == Sizes{16});
  SglangScheduler u(options());
  t.free_pages = 30;
  CHECK(t.ask(u).extend.empty());
}

TEST_CASE("what is cached need not be prefilled, nor reserved") {
  // Of 20 prompt tokens 16 are cached: 4 + 10 < free.
  for (const std::int64_t free : {14, 15}) {
    SglangScheduler s(options());
    Table t;
    t.cached = {{0, 16}};
    t.free_pages = free;
    t.waiting = {queued(0, 20, 10)};
    CHECK(t.ask(s).sizes() == (free == 15 ? Sizes{4} : Sizes{}));
  }
  // The chunk budget is charged for what is left as well: 4 of 8, then 4 of the next one's 20.
  auto c = scheduler([](SglangOptions& o) { o.chunked_prefill_size = 8; });
  Table t;
  t.cached = {{0, 16}};
  t.waiting = {queued(0, 20, 10), queued(1, 20, 10)};
  CHECK(t.ask(c).sizes() == Sizes{4, 4});
}

TEST_CASE("lpm looks at the longest cached prefix first, ties as they came") {
  auto s = scheduler([](SglangOptions& o) {
    o.policy = SglangPolicy::lpm;
    o.radix_cache = true;
  });
  Table t;
  t.waiting = {queued(0, 100, 5), queued(1, 100, 5), queued(2, 100, 5), queued(3, 100, 5)};
  t.cached = {{1, 40}, {2, 80}, {3, 40}};
  CHECK(t.ask(s).ids() == Ids{2, 1, 3, 0});
  // Without a cache there is nothing to match.
  auto plain = scheduler([](SglangOptions& o) { o.policy = SglangPolicy::lpm; });
  CHECK(t.ask(plain).ids() == Ids{0, 1, 2, 3});
}

TEST_CASE("lpm takes them as they came when more than 128 wait") {
  const auto order = [](RequestId n) {
    auto s = scheduler([](SglangOptions& o) {
      o.policy = SglangPolicy::lpm;
      o.radix_cache = true;
    });
    Table t;
    for (RequestId i = 0; i < n; ++i) t.waiting.push_back(queued(i, 50, 5));
    t.cached = {{n - 1, 40}};
    return t.ask(s).ids();
  };
  CHECK(order(128).front() == 127);
  CHECK(order(129).front() == 0);
}

TEST_CASE("of those who share a prefix that nobody has computed, one goes first, the others last") {
  auto s = scheduler([](SglangOptions& o) {
    o.policy = SglangPolicy::lpm;
    o.radix_cache = true;
  });
  Table t;
  t.waiting = {queued(0, 60, 5), queued(1, 60, 5), queued(2, 60, 5), queued(3, 60, 5)};
  const auto says = [&](std::size_t i, std::int64_t stream, std::int64_t shared) {
    t.waiting[i].content = Content(stream, shared);
    t.waiting[i].content.append({100 + static_cast<std::int64_t>(i), 0, 60 - shared});
  };
  says(0, 7, 32), says(1, 7, 32), says(2, 8, 60), says(3, 9, 60);
  CHECK(t.ask(s).ids() == Ids{0, 2, 3, 1});
  // 31 tokens are not worth waiting for.
  says(0, 7, 31), says(1, 7, 31);
  CHECK(t.ask(s).ids() == Ids{0, 1, 2, 3});
  // Nor does anybody wait who has more than 32 tokens cached.
  says(0, 7, 40), says(1, 7, 40);
  t.cached = {{0, 33}, {1, 33}};
  CHECK(t.ask(s).ids() == Ids{0, 1, 2, 3});
}

TEST_CASE("lof takes the longest output first, random any order but all of them") {
  Table t;
  t.waiting = {queued(0, 5, 10), queued(1, 5, 30), queued(2, 5, 20), queued(3, 5, 30)};
  auto lof = scheduler([](SglangOptions& o) { o.policy = SglangPolicy::lof; });
  CHECK(t.ask(lof).ids() == Ids{1, 3, 2, 0});
  t.waiting.clear();
  Ids all(40);
  std::iota(all.begin(), all.end(), 0);
  for (const RequestId i : all) t.waiting.push_back(queued(i, 5, 10));
  auto random = scheduler([](SglangOptions& o) { o.policy = SglangPolicy::random; });
  auto again = scheduler([](SglangOptions& o) { o.policy = SglangPolicy::random; });
  auto first = t.ask(random).ids();
  CHECK(first == t.ask(again).ids());  // the same seed
  CHECK(first != t.ask(random).ids());
  CHECK(first != all);
  std::sort(first.begin(), first.end());
  CHECK(first == all);
}

TEST_CASE("prefill_max_requests ends a prefill and leaves admission open") {
  auto s = scheduler([](SglangOptions& o) { o.prefill_max_requests = 2; });
  Table t;
  t.waiting = {queued(0, 5, 10), queued(1, 5, 10), queued(2, 5, 10)};
  CHECK(t.ask(s).ids() == Ids{0, 1});
  CHECK_FALSE(s.batch_is_full());
}

TEST_CASE("with mixed chunks those who decode ride along and use the budgets") {
  auto s = scheduler([](SglangOptions& o) {
    o.mixed_chunk = true;
    o.chunked_prefill_size = 8;
  });
  Table t;
  t.running = {decoding(0, 10, 10, 3), decoding(1, 10, 10, 3)};
  t.waiting = {queued(2, 20, 10)};
  auto plan = t.ask(s);
  CHECK(plan.decode);
  CHECK(plan.sizes() == Sizes{6});  // 8 less the two that ride
  CHECK_FALSE(plan.hold);
  // Both need a page for their token. With 1 + 1 < 17 - 2 x 7 x 0.7 - 2 = 5.2 the prompt finds
  // room whatever they take.
  t.free_pages = 17;
  t.waiting = {queued(2, 1, 1)};
  plan = t.ask(s);
  CHECK(plan.decode);
  CHECK(plan.sizes() == Sizes{1});
  CHECK(plan.free_pages == 17 - 1 - 2);
  // Nothing to prefill: an ordinary decode.
  t.waiting.clear();
  plan = t.ask(s);
  CHECK(plan.decode);
  CHECK(plan.hold);
}

TEST_CASE("prompts go alone when the riders find no pages") {
  auto s = scheduler([](SglangOptions& o) {
    o.mixed_chunk = true;
    o.chunked_prefill_size = 16;
  });
  Table t;
  t.page_size = 4;
  t.free_pages =
      2;  // 8 tokens: 1 + 1 < 8 - 2 x 0.7 - 2, which leaves one page, the riders need two
  t.running = {decoding(0, 4, 2, 1), decoding(1, 4, 2, 1)};
  t.waiting = {queued(2, 1, 1)};
  const auto plan = t.ask(s);
  CHECK(plan.ids() == Ids{2});
  CHECK_FALSE(plan.decode);
}

TEST_CASE("a decode holds until somebody arrives, or through arrivals while the batch is full") {
  SglangScheduler s(options());
  Table t;
  t.running = {decoding(0, 10, 10, 3)};
  auto plan = t.ask(s);
  REQUIRE(plan.hold);
  CHECK(plan.hold->on_arrival);
  CHECK_FALSE(plan.hold->on_leave);
  CHECK(plan.hold->until == TimePoint::never());
  // Refused for want of pages: nothing but a finish opens the queue again.
  t.free_pages = 5;
  t.waiting = {queued(1, 50, 10)};
  plan = t.ask(s);
  REQUIRE(s.batch_is_full());
  REQUIRE(plan.hold);
  CHECK_FALSE(plan.hold->on_arrival);
  CHECK(plan.hold->on_leave);
}

TEST_CASE("a prefill holds until somebody arrives when nobody waits behind it") {
  SglangScheduler s(options());
  Table t;
  t.waiting = {queued(0, 10, 10)};
  auto plan = t.ask(s);
  CHECK(plan.ids() == Ids{0});
  REQUIRE(plan.hold);
  CHECK(plan.hold->on_arrival);
  CHECK_FALSE(plan.hold->on_leave);
  // Somebody is refused for want of pages: 50 + 10 do not fit beside 10 + 10.
  t.free_pages = 60;
  t.waiting = {queued(1, 10, 10), queued(2, 50, 10)};
  plan = t.ask(s);
  CHECK(plan.ids() == Ids{1});
  CHECK_FALSE(plan.hold);
}

TEST_CASE(
    "a prefill that cuts does not hold, nor does the last chunk of a cut one that is cut again") {
  auto s = scheduler([](SglangOptions& o) { o.chunked_prefill_size = 16; });
  Table t;
  t.waiting = {queued(0, 40, 10)};
  auto plan = t.ask(s);
  CHECK(plan.ids() == Ids{0});
  CHECK_FALSE(plan.hold);
  // Of the 12 tokens left only 8 find pages, though the chunk has room.
  t.waiting.clear();
  t.prefilling = {half(0, 40, 10, 28)};
  t.free_pages = 8;
  plan = t.ask(s);
  CHECK(plan.ids() == Ids{0});
  CHECK_FALSE(plan.hold);
}

TEST_CASE("no hold beside a cut request or after a retraction") {
  SglangScheduler s(options());
  Table t;
  // The cut request finds no room now, but 0.7 falls with every pass.
  t.waiting.clear();
  t.running = {decoding(0, 10, 10, 3)};
  t.prefilling = {half(1, 20, 5, 8)};
  t.free_pages = 4;
  auto plan = t.ask(s);
  CHECK(plan.extend.empty());
  CHECK(plan.decode);
  CHECK_FALSE(plan.hold);
  t.prefilling.clear();
  t.running = {decoding(0, 9, 10, 5), decoding(1, 9, 10, 4)};
  t.free_pages = 1;
  plan = t.ask(s);
  CHECK(plan.gone == Ids{1});
  CHECK_FALSE(plan.hold);
}

TEST_CASE("a cut request that holds the pages makes even the last running one go") {
  SglangScheduler s(options());
  Table t;
  t.page_size = 4;
  t.free_pages = 0;
  t.running = {decoding(0, 4, 10, 1)};
  t.prefilling = {half(1, 20, 5, 8)};
  const auto plan = t.ask(s);
  CHECK(plan.gone == Ids{0});
  CHECK(plan.idle());
  CHECK(plan.free_pages == 1);
}
