// Hand traces of vLLM V1's rules (main of 2026-05-29, v1/core/sched/scheduler.py), each against a
// scheduler that sees nothing but a view.

#include "sim/engine/vllm_scheduler.hpp"

#include <catch2/catch.hpp>

#include "tests/support/scheduler_table.hpp"
#include "tests/support/tiny_server.hpp"

namespace {

using namespace table;

VllmScheduler scheduler(std::int64_t budget, void (*change)(VllmOptions&) = nullptr) {
  VllmOptions o;
  o.max_num_batched_tokens = budget;
  if (change) change(o);
  return VllmScheduler(o);
}

RequestView last_scheduled(RequestView r) {
  r.decodes = false;
  return r;
}

}  // namespace

TEST_CASE("vLLM: those running take a token each of the budget, prompts share the rest") {
  auto s = scheduler(16);
  Table t;
  t.running = {decoding(0, 10, 10, 3), decoding(1, 10, 10, 3), decoding(2, 10, 10, 3)};
  t.waiting = {queued(3, 8, 5), queued(4, 20, 5), queued(5, 1, 5)};
  const auto plan = t.ask(s);
  CHECK(plan.decode);
  // 16 - 3 = 13: 8 for the first, 5 of the second's 20, nothing for the third.
  CHECK(plan.ids() == Ids{3, 4});
  CHECK(plan.sizes() == Sizes{8, 5});
  CHECK_FALSE(plan.hold);
}

TEST_CASE("vLLM: with nothing to do the plan is idle") {
  auto s = scheduler(16);
  Table t;
  CHECK(t.ask(s).idle());
}

TEST_CASE("vLLM: a prompt that was cut goes on before the queue, and alone until it is complete") {
  auto s = scheduler(16);
  Table t;
  t.running = {decoding(0, 10, 10, 3), decoding(1, 10, 10, 3)};
  t.prefilling = {half(2, 40, 5, 8)};
  t.waiting = {queued(3, 8, 5)};
  // 16 - 2 = 14 of the 32 that it lacks.
  auto plan = t.ask(s);
  CHECK(plan.decode);
  CHECK(plan.ids() == Ids{2});
  CHECK(plan.sizes() == Sizes{14});
  // The last 10 leave 4 for the next one.
  t.prefilling = {half(2, 40, 5, 30)};
  plan = t.ask(s);
  CHECK(plan.ids() == Ids{2, 3});
  CHECK(plan.sizes() == Sizes{10, 4});
}

TEST_CASE("vLLM: long_prefill_token_threshold cuts prompts below the budget") {
  auto s = scheduler(16, [](VllmOptions& o) { o.long_prefill_token_threshold = 6; });
  Table t;
  t.waiting = {queued(0, 20, 5), queued(1, 4, 5)};
  CHECK(t.ask(s).sizes() == Sizes{6});
  t.waiting = {queued(1, 4, 5)};
  t.prefilling = {half(0, 20, 5, 6)};
  CHECK(t.ask(s).sizes() == Sizes{6});
}

TEST_CASE("vLLM: without chunked prefill a prompt waits until it fits the budget whole") {
  auto s = scheduler(16, [](VllmOptions& o) { o.enable_chunked_prefill = false; });
  Table t;
  t.waiting = {queued(0, 10, 5), queued(1, 7, 5), queued(2, 1, 5)};
  CHECK(t.ask(s).ids() == Ids{0});  // 1 lacks a token of budget, and nobody is skipped
}

TEST_CASE("vLLM: a new request needs blocks for its whole prompt, unless told otherwise") {
  Table t;
  t.page_size = 4;
  t.free_pages = 3;
  t.waiting = {queued(0, 16, 100)};  // 4 blocks; its first chunk takes 2
  auto whole = scheduler(8);
  CHECK(t.ask(whole).extend.empty());
  auto chunk = scheduler(8, [](VllmOptions& o) { o.scheduler_reserve_full_isl = false; });
  CHECK(t.ask(chunk).sizes() == Sizes{8});
  // Nothing is kept for the output: 12 tokens and 100 to come find room in 3 blocks.
  t.waiting = {queued(0, 12, 100)};
  CHECK(t.ask(whole).sizes() == Sizes{8});
}

TEST_CASE("vLLM: what is cached needs neither budget nor blocks") {
  auto s = scheduler(8);
  Table t;
  t.page_size = 4;
  t.free_pages = 2;
  t.cached = {{0, 12}};
  t.waiting = {queued(0, 20, 5)};
  const auto plan = t.ask(s);
  CHECK(plan.sizes() == Sizes{8});
  CHECK(plan.free_pages == 0);
}

TEST_CASE("vLLM: the first refusal ends the queue, nobody is skipped") {
  auto s = scheduler(64);
  Table t;
  t.page_size = 4;
  t.free_pages = 5;
  t.waiting = {queued(0, 8, 5), queued(1, 16, 5), queued(2, 1, 1)};
  CHECK(t.ask(s).ids() == Ids{0});  // 2 blocks; 1 would need 4 of the 3 left
}

TEST_CASE("vLLM: seats are max_num_seqs, a cut prompt and one that is about to end hold theirs") {
  auto s = scheduler(64, [](VllmOptions& o) { o.max_num_seqs = 3; });
  Table t;
  t.running = {last_scheduled(decoding(0, 10, 10, 9))};
  t.prefilling = {half(1, 10, 5, 4)};
  t.waiting = {queued(2, 5, 5), queued(3, 5, 5)};
  const auto plan = t.ask(s);
  CHECK(plan.ids() == Ids{1, 2});
  CHECK_FALSE(plan.decode);  // nobody decodes
}

TEST_CASE("vLLM: who is scheduled for its last token takes no part and no budget") {
  auto s = scheduler(4);
  Table t;
  t.page_size = 4;
  t.free_pages = 1;
  // Both are at the end of a block, but only 1 takes another token.
  t.running = {last_scheduled(decoding(0, 6, 7, 3)), decoding(1, 6, 9, 3)};
  t.waiting = {queued(2, 5, 5)};
  const auto plan = t.ask(s);
  CHECK(plan.decode);
  CHECK(plan.gone.empty());
  CHECK(plan.free_pages == 0);
  CHECK(plan.extend.empty());  // no block left for it
  t.free_pages = 3;
  CHECK(t.ask(s).sizes() == Sizes{3});  // 4 less the one that decodes
}

TEST_CASE("vLLM: who finds no block sends the last of the running away") {
  auto s = scheduler(64);
  Table t;
  t.page_size = 4;
  // Each fills its blocks (2, 1 and 2) and needs another one.
  t.running = {decoding(0, 6, 50, 3), decoding(1, 3, 50, 2), decoding(2, 7, 50, 2)};
  t.free_pages = 1;
  const auto plan = t.ask(s);
  // 0 takes the free one; for 1 the last goes: its 2 blocks come back.
  CHECK(plan.gone == Ids{2});
  CHECK(plan.decode);
  CHECK(plan.free_pages == 1 + 2 - 2);
  CHECK_FALSE(plan.hold);
}

TEST_CASE("vLLM: the last of the running sends itself away") {
  auto s = scheduler(64);
  Table t;
  t.page_size = 4;
  t.running = {decoding(0, 6, 50, 2), decoding(1, 3, 50, 2)};  // only 1 needs a block
  t.free_pages = 0;
  const auto plan = t.ask(s);
  CHECK(plan.gone == Ids{1});
  CHECK(plan.decode);
  CHECK(plan.free_pages == 1);
  // Alone with nothing to give but its own: nothing runs.
  t.running = {decoding(1, 3, 50, 2)};
  const auto alone = t.ask(s);
  CHECK(alone.gone == Ids{1});
  CHECK(alone.idle());
}

TEST_CASE("vLLM: a cut prompt came last and goes first") {
  auto s = scheduler(64);
  Table t;
  t.page_size = 4;
  t.running = {decoding(0, 6, 50, 3), decoding(1, 3, 50, 2)};
  t.prefilling = {half(2, 30, 5, 8)};
  t.free_pages = 1;
  const auto plan = t.ask(s);
  CHECK(plan.gone == Ids{2});
  CHECK(plan.decode);
  CHECK(plan.extend.empty());
  CHECK(plan.free_pages == 1 + 2 - 2);
}

TEST_CASE("vLLM: a cut prompt whose next chunk finds no block goes back to the queue") {
  auto s = scheduler(64);
  Table t;
  t.page_size = 4;
  t.running = {decoding(0, 6, 50, 2)};  // 7 tokens: needs none
  t.prefilling = {half(1, 30, 5, 8)};
  t.free_pages = 5;  // 22 tokens need 6
  t.waiting = {queued(2, 1, 1)};
  const auto plan = t.ask(s);
  CHECK(plan.gone == Ids{1});
  CHECK(plan.decode);
  CHECK(plan.extend.empty());
}

TEST_CASE("vLLM: a step that preempted admits nobody, the next one does") {
  auto s = scheduler(64);
  Table t;
  t.page_size = 4;
  t.running = {decoding(0, 6, 50, 3), decoding(1, 15, 50, 2)};
  t.free_pages = 0;
  t.waiting = {queued(2, 4, 1)};
  const auto plan = t.ask(s);
  CHECK(plan.gone == Ids{1});
  CHECK(plan.free_pages == 3);  // 4 came back, one was taken: room for 2
  CHECK(plan.extend.empty());
  t.running = {decoding(0, 6, 50, 4)};
  t.free_pages = 3;
  CHECK(t.ask(s).ids() == Ids{2});
}

TEST_CASE("vLLM: a decode holds until somebody arrives, or through arrivals once one is refused") {
  auto s = scheduler(64, [](VllmOptions& o) { o.max_num_seqs = 2; });
  Table t;
  t.running = {decoding(0, 10, 10, 3), decoding(1, 10, 10, 3)};
  auto plan = t.ask(s);
  REQUIRE(plan.hold);
  CHECK(plan.hold->on_arrival);
  CHECK_FALSE(plan.hold->on_leave);
  t.waiting = {queued(2, 5, 5)};  // no seat
  plan = t.ask(s);
  REQUIRE(plan.hold);
  CHECK_FALSE(plan.hold->on_arrival);
  CHECK(plan.hold->on_leave);
  t.running.pop_back();
  t.free_pages = 3;  // no block
  plan = t.ask(s);
  REQUIRE(plan.hold);
  CHECK_FALSE(plan.hold->on_arrival);
}

TEST_CASE("vLLM: behind a pass that takes in all who wait, all that comes is decoding") {
  auto s = scheduler(64);
  Table t;
  t.running = {decoding(0, 10, 10, 3)};
  t.waiting = {queued(1, 5, 5)};
  auto plan = t.ask(s);
  REQUIRE(plan.hold);
  CHECK(plan.hold->on_arrival);
  CHECK_FALSE(plan.hold->on_leave);
  t.waiting = {queued(1, 70, 5)};  // cut: its rest is to come
  CHECK_FALSE(t.ask(s).hold);
}

TEST_CASE("vLLM: a preempted request is first in the queue again") {
  // 5 blocks of 4. A and B (4 tokens in, 9 out) grow to 3 blocks each: B is preempted, and on its
  // return needs as many. C would fit at once, but waits behind B until A has ended.
  tiny::Setting s;
  s.engine = tiny::Setting::Engine::vllm;
  s.page_size = 4;
  s.pages = 5;
  s.seats = 2;
  s.depth = 1;
  s.base = Duration::from_us(10);
  s.host.per_step = Duration::from_us(1);
  for (const std::int64_t output : {9, 9, 1}) {
    tiny::Arrival a;
    a.prompt = 4;
    a.max_new = a.output = output;
    s.arrivals.push_back(a);
  }
  const auto run = tiny::play(s);
  REQUIRE(run.lives.size() == 3);
  CHECK(run.lives[0].retractions == 0);
  CHECK(run.lives[1].retractions == 1);
  CHECK(run.lives[2].first > run.lives[0].last);
  CHECK(run.lives[1].last >= run.lives[2].first);
}
