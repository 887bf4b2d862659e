// Hand traces of SGLang 0.5.9's rules, each against a scheduler that sees nothing but a view.

#include "sim/engine/sglang_scheduler.hpp"

#include <deque>
#include <vector>

#include <catch2/catch.hpp>

namespace {

RequestView queued(RequestId id, std::int64_t prompt, std::int64_t max_new) {
  RequestView r;
  r.id = id;
  r.prompt = prompt;
  r.max_new = max_new;
  return r;
}

RequestView decoding(RequestId id, std::int64_t prompt, std::int64_t max_new,
                     std::int64_t generated) {
  RequestView r = queued(id, prompt, max_new);
  r.generated = generated;
  r.prefilled = prompt;
  r.kv_tokens = prompt + generated - 1;  // the last token has no KV yet
  return r;
}

/// What the scheduler is shown; tests move requests about by hand.
struct Table {
  int page_size = 1;
  std::int64_t free_pages = 1'000'000;
  std::vector<RequestView> waiting, running;
  std::vector<RequestView> prefilling;  // one at most

  BatchPlan ask(SglangScheduler& s) const {
    std::deque<const RequestView*> w;
    std::vector<const RequestView*> r;
    for (const auto& q : waiting) w.push_back(&q);
    for (const auto& q : running) r.push_back(&q);
    return s.next_batch({TimePoint(), w, r, prefilling.empty() ? nullptr : &prefilling.front(),
                         free_pages, 1'000'000, page_size});
  }
};

std::vector<RequestId> ids(const BatchPlan& plan) {
  std::vector<RequestId> out;
  for (const auto& c : plan.extend) out.push_back(c.id);
  return out;
}

std::vector<std::int64_t> sizes(const BatchPlan& plan) {
  std::vector<std::int64_t> out;
  for (const auto& c : plan.extend) out.push_back(c.tokens);
  return out;
}

using Ids = std::vector<RequestId>;
using Sizes = std::vector<std::int64_t>;

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
  CHECK(ids(prefill) == Ids{1, 2});  // all that fit share one pass
  CHECK(sizes(prefill) == Sizes{5, 7});
  CHECK_FALSE(prefill.decode);
  t.waiting.clear();
  const auto decode = t.ask(s);
  CHECK(decode.extend.empty());
  CHECK(decode.decode);
}

TEST_CASE("with nothing waiting and nothing running the plan is idle") {
  SglangScheduler s(options());
  CHECK(Table().ask(s).idle());
}

TEST_CASE("the first refusal ends the pass, nobody is skipped") {
  SglangScheduler s(options());
  Table t;
  t.free_pages = 100;
  // 0 takes 10 + 10; 1 would need 90 + 10 of the 80 left; 2 alone would fit.
  t.waiting = {queued(0, 10, 10), queued(1, 90, 10), queued(2, 1, 1)};
  CHECK(ids(t.ask(s)) == Ids{0});
  CHECK(s.batch_is_full());
}

TEST_CASE("admission needs strictly more room than prompt and new tokens") {
  for (const std::int64_t free : {20, 21}) {
    SglangScheduler s(options());
    Table t;
    t.free_pages = free;
    t.waiting = {queued(0, 10, 10)};  // needs 10 + 10 < free
    CHECK(ids(t.ask(s)) == (free == 21 ? Ids{0} : Ids{}));
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
  CHECK(ids(t.ask(enough)) == Ids{1, 2});
  t.free_pages = 102;
  SglangScheduler short_by_one(options());
  CHECK(ids(t.ask(short_by_one)) == Ids{1});
  CHECK(short_by_one.batch_is_full());
}

TEST_CASE("nobody reserves more than 4096 new tokens") {
  SglangScheduler s(options());
  Table t;
  t.waiting = {queued(0, 10, 100'000)};
  t.free_pages = 10 + 4096 + 1;
  CHECK(ids(t.ask(s)) == Ids{0});
  // Running: min(99,990, 4096) x 0.7 = 2867.2, rounded down.
  SglangScheduler other(options());
  t.running = {decoding(1, 10, 100'000, 10)};
  t.waiting = {queued(0, 10, 10)};
  t.free_pages = 2867 + 20;
  CHECK(t.ask(other).extend.empty());
  SglangScheduler another(options());
  t.free_pages = 2867 + 21;
  CHECK(ids(t.ask(another)) == Ids{0});
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
    CHECK(ids(t.ask(s)) == (max_new == 90 ? Ids{0, 1} : Ids{0}));
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
  CHECK(ids(t.ask(s)) == Ids{2});
}

TEST_CASE("running out of input or chunk budget does not set batch_is_full") {
  auto s = scheduler([](SglangOptions& o) { o.max_prefill_tokens = 10; });
  Table t;
  t.waiting = {queued(0, 8, 5), queued(1, 8, 5)};
  CHECK(ids(t.ask(s)) == Ids{0});
  CHECK_FALSE(s.batch_is_full());
  auto c = scheduler([](SglangOptions& o) { o.chunked_prefill_size = 8; });
  CHECK(ids(t.ask(c)) == Ids{0});
  CHECK_FALSE(c.batch_is_full());
}

TEST_CASE("slots are those of max_running_requests, finished ones count until the next decode") {
  auto s = scheduler([](SglangOptions& o) { o.max_running_requests = 3; });
  Table t;
  t.running = {decoding(0, 10, 10, 3)};
  t.waiting = {queued(1, 5, 5), queued(2, 5, 5), queued(3, 5, 5)};
  CHECK(ids(t.ask(s)) == Ids{1, 2});
  CHECK(s.batch_is_full());  // the third hit the limit

  auto f = scheduler([](SglangOptions& o) { o.max_running_requests = 3; });
  Table u;
  u.running = {decoding(0, 10, 10, 3), decoding(1, 10, 10, 3)};
  f.on_finish(decoding(9, 10, 10, 10));  // a third, not filtered yet
  u.waiting = {queued(2, 5, 5)};
  CHECK(u.ask(f).decode);          // no slot: decode, which filters it
  CHECK(ids(u.ask(f)) == Ids{2});  // now there is one
}

TEST_CASE("the input budget lets the first request pass whatever its length") {
  auto s = scheduler([](SglangOptions& o) { o.max_prefill_tokens = 100; });
  Table t;
  t.waiting = {queued(0, 500, 5), queued(1, 1, 5)};
  CHECK(ids(t.ask(s)) == Ids{0});
  // In second place it is refused: 40 + 60 would use all of the 100.
  t.waiting = {queued(0, 40, 5), queued(1, 60, 5), queued(2, 1, 5)};
  CHECK(ids(t.ask(s)) == Ids{0});
  t.waiting = {queued(0, 40, 5), queued(1, 59, 5)};
  CHECK(ids(t.ask(s)) == Ids{0, 1});
}

TEST_CASE("a prompt above the chunk budget is cut at a page and goes first in the next pass") {
  auto s = scheduler([](SglangOptions& o) { o.chunked_prefill_size = 32; });
  Table t;
  t.page_size = 8;
  // 0 uses ceil(10 / 8) pages = 16 of 32 tokens; 1 gets the other 16 of its 50.
  t.waiting = {queued(0, 10, 5), queued(1, 50, 5), queued(2, 6, 5)};
  auto plan = t.ask(s);
  CHECK(ids(plan) == Ids{0, 1});
  CHECK(sizes(plan) == Sizes{10, 16});
  // Next pass: 34 are left, 32 of them fit, nobody else does.
  t.waiting = {queued(2, 6, 5)};
  t.prefilling = {queued(1, 50, 5)};
  t.prefilling[0].prefilled = t.prefilling[0].kv_tokens = 16;
  plan = t.ask(s);
  CHECK(ids(plan) == Ids{1});
  CHECK(sizes(plan) == Sizes{32});
  // Last chunk: 2 tokens use one page, 24 are left for the queue.
  t.prefilling[0].prefilled = t.prefilling[0].kv_tokens = 48;
  plan = t.ask(s);
  CHECK(ids(plan) == Ids{1, 2});
  CHECK(sizes(plan) == Sizes{2, 6});
}

TEST_CASE("a cut between pages is rounded down to a whole page") {
  auto s = scheduler([](SglangOptions& o) { o.chunked_prefill_size = 32; });
  Table t;
  t.page_size = 8;
  t.waiting = {queued(0, 20, 5), queued(1, 50, 5)};  // 24 charged, 8 left
  CHECK(sizes(t.ask(s)) == Sizes{20, 8});
  t.waiting = {queued(0, 25, 5), queued(1, 50, 5)};  // 32 charged, nothing left
  auto u = scheduler([](SglangOptions& o) { o.chunked_prefill_size = 32; });
  CHECK(sizes(t.ask(u)) == Sizes{25});
}

TEST_CASE("a cut request reserves no output") {
  // Chunk 8 of a prompt of 16 with 30 new tokens. Its admission needs 16 + 30 < free, but of 50 it
  // takes only 8, so the next pass has 42 for its rest and reservation.
  auto s = scheduler([](SglangOptions& o) { o.chunked_prefill_size = 8; });
  Table t;
  t.free_pages = 42;
  t.prefilling = {queued(0, 24, 30)};
  t.prefilling[0].prefilled = t.prefilling[0].kv_tokens = 8;
  t.waiting = {queued(1, 5, 25)};
  // The second chunk of three fills the pass.
  CHECK(sizes(t.ask(s)) == Sizes{8});
  CHECK_FALSE(s.batch_is_full());
  // The last chunk takes 4 and reserves 30: 42 - 34 = 8, too little for 5 + 25.
  t.prefilling = {queued(0, 12, 30)};
  t.prefilling[0].prefilled = t.prefilling[0].kv_tokens = 8;
  CHECK(sizes(t.ask(s)) == Sizes{4});
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
  CHECK(sizes(t.ask(s)) == Sizes{8});
  t.waiting = {queued(2, 3, 5)};
  t.prefilling = {queued(1, 20, 5)};
  t.prefilling[0].prefilled = t.prefilling[0].kv_tokens = 16;
  const auto plan = t.ask(s);  // the last 4; no slot for 2
  CHECK(ids(plan) == Ids{1});
  CHECK(s.batch_is_full());
}

TEST_CASE("when a cut request finds no room, nobody behind it is admitted") {
  auto s = scheduler([](SglangOptions& o) { o.chunked_prefill_size = 8; });
  Table t;
  t.page_size = 4;
  t.free_pages = 2;  // 8 tokens, of which 0.7 x 8 = 5 are reserved: 3 are left, less than a page
  t.running = {decoding(0, 4, 10, 2)};
  t.prefilling = {queued(1, 20, 5)};
  t.prefilling[0].prefilled = t.prefilling[0].kv_tokens = 8;
  t.waiting = {queued(2, 1, 1)};  // 1 + 1 < 3 would fit
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
    CHECK(sizes(t.ask(s)) == Sizes{20'000});
  }
}

TEST_CASE("new_token_ratio starts at 0.7 and falls to 0.098 in 600 decodes, not below") {
  SglangScheduler s(options());
  Table t;
  t.running = {decoding(0, 10, 10, 3)};
  CHECK(s.new_token_ratio() == Approx(0.7).epsilon(1e-12));
  t.ask(s);
  // (0.7 - 0.098) / 600 each
  CHECK(s.new_token_ratio() == Approx(0.7 - 0.602 / 600).epsilon(1e-12));
  for (int i = 1; i < 600; ++i) t.ask(s);
  CHECK(s.new_token_ratio() == Approx(0.098).epsilon(1e-9));
  for (int i = 0; i < 50; ++i) t.ask(s);
  CHECK(s.new_token_ratio() == Approx(0.098).epsilon(1e-9));
  CHECK(s.new_token_ratio() >= 0.7 * 0.14);
}

TEST_CASE("a prefill leaves the ratio alone, an idle look puts it back") {
  SglangScheduler s(options());
  Table t;
  t.running = {decoding(0, 10, 10, 3)};
  for (int i = 0; i < 300; ++i) t.ask(s);
  const double before = s.new_token_ratio();
  CHECK(before == Approx(0.7 - 0.301).epsilon(1e-9));
  t.waiting = {queued(1, 5, 5)};
  REQUIRE(t.ask(s).extend.size() == 1);
  CHECK(s.new_token_ratio() == before);
  s.on_idle();
  CHECK(s.new_token_ratio() == Approx(0.7).epsilon(1e-12));
}

TEST_CASE("schedule_conservativeness scales the ratio, capped at one") {
  auto third = scheduler([](SglangOptions& o) { o.schedule_conservativeness = 0.3; });
  CHECK(third.new_token_ratio() == Approx(0.21).epsilon(1e-12));
  auto twice = scheduler([](SglangOptions& o) { o.schedule_conservativeness = 2; });
  CHECK(twice.new_token_ratio() == 1.0);
}

TEST_CASE("a decode that lacks pages retracts the request with the fewest generated tokens") {
  SglangScheduler s(options());
  Table t;
  t.page_size = 4;
  // Each holds a multiple of 4 tokens, so each needs a page for the next one; two are free.
  t.running = {decoding(0, 6, 50, 3), decoding(1, 4, 50, 5), decoding(2, 7, 50, 2)};
  for (const auto& r : t.running) REQUIRE(r.kv_tokens == 8);
  t.free_pages = 2;
  const auto plan = t.ask(s);
  // 2 made the fewest; its two pages and the two free ones cover the two that stay.
  CHECK(plan.retract == Ids{2});
  CHECK(plan.decode);
  // (3 + 5 generated + 20 x 2) / (50 + 50 + 1)
  CHECK(s.new_token_ratio() == Approx(48.0 / 101).epsilon(1e-12));
}

TEST_CASE("among equals the longest prompt is retracted first") {
  SglangScheduler s(options());
  Table t;
  t.running = {decoding(0, 9, 50, 2), decoding(1, 30, 50, 2), decoding(2, 20, 50, 2)};
  t.free_pages = 0;
  const auto plan = t.ask(s);
  CHECK(plan.retract == Ids{1});  // 31 pages come back, enough for the other two
}

TEST_CASE("retraction goes on until the next step fits, and one always stays") {
  SglangScheduler s(options());
  Table t;
  t.page_size = 4;
  // Five requests that need a page each; nothing is free. Each retraction brings one page.
  for (RequestId i = 0; i < 5; ++i) {
    t.running.push_back(decoding(i, 4 - i % 2, 50, 1 + i % 2));
    REQUIRE(t.running.back().kv_tokens == 4);
  }
  t.free_pages = 0;
  const auto plan = t.ask(s);
  // Generated 1, 2, 1, 2, 1: the ones go first. After 4 and 2, pages 2, needed 3; after 0: 3 and 2.
  CHECK(plan.retract.size() == 3);
  CHECK(plan.decode);
  for (const RequestId id : plan.retract) CHECK(id % 2 == 0);

  SglangScheduler u(options());
  Table hopeless;
  hopeless.page_size = 1;
  hopeless.running = {decoding(0, 1, 9, 1), decoding(1, 1, 9, 1)};
  hopeless.running[0].kv_tokens = hopeless.running[1].kv_tokens = 0;  // nothing to give back
  hopeless.free_pages = 0;
  const auto last = hopeless.ask(u);
  CHECK(last.retract.size() == 1);
  CHECK(last.decode);
}

TEST_CASE("a retraction opens admission and sets the ratio to at most one") {
  SglangScheduler s(options());
  Table t;
  t.running = {decoding(0, 9, 10, 5), decoding(1, 9, 10, 4)};
  t.free_pages = 1;
  t.waiting = {queued(2, 100, 10)};
  const auto plan = t.ask(s);  // 2 is refused, then two tokens need two pages of one
  CHECK(plan.retract == Ids{1});
  CHECK_FALSE(s.batch_is_full());
  // (5 + 20 x 1) / (10 + 1) is above one
  CHECK(s.new_token_ratio() == 1.0);
}

TEST_CASE("a retracted request prefills its prompt and its tokens again and reserves the rest") {
  SglangScheduler s(options());
  Table t;
  RequestView back = queued(0, 10, 20);
  back.generated = 6;
  t.waiting = {back};
  t.free_pages = 31;  // 16 to prefill + 14 to come < 31
  const auto plan = t.ask(s);
  CHECK(sizes(plan) == Sizes{16});
  SglangScheduler u(options());
  t.free_pages = 30;
  CHECK(t.ask(u).extend.empty());
}
