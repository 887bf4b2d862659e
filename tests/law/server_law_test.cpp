// What holds for every workload on every engine, checked on servers of a few pages and seats that
// announce every token. That the fast clock does the same is clock_law_test's.

#include <algorithm>
#include <array>
#include <cmath>

#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include "sim/base/random.hpp"
#include "sim/base/statistics.hpp"
#include "tests/support/tiny_server.hpp"

namespace {

using tiny::Run;
using tiny::Setting;

Duration us(std::int64_t n) { return Duration::picoseconds(n * 1'000'000); }
Duration ms(std::int64_t n) { return us(n * 1000); }

// Uniform from the first case on: left to itself, rapidcheck starts with the smallest.
int draw(int low, int high) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(low, high + 1));
}

Setting draw_setting() {
  Setting s;
  s.engine = static_cast<Setting::Engine>(draw(0, 2));
  s.mixed = s.engine == Setting::Engine::sglang && draw(0, 3) == 0;
  s.reserve_whole = draw(0, 1) == 0;
  s.page_size = draw(1, 4);
  s.pages = draw(4, 16);
  s.seats = draw(1, 4);
  // SGLang wants chunks of whole pages.
  s.chunk = std::int64_t{s.page_size} * draw((4 + s.page_size - 1) / s.page_size, 16 / s.page_size);
  s.depth = draw(1, 2);
  // A crowd of short prompts with long outputs, one by one, against a low reservation: admitted as
  // they come, then out of pages.
  const bool crowd = draw(0, 2) == 0;
  if (crowd) s.conservativeness = 0.05, s.seats = draw(3, 4);
  if (draw(0, 1) == 0) s.graph_sizes = {1, 3};
  s.base = us(draw(1, 30));
  s.per_token = us(draw(0, 5));
  s.launch = us(draw(0, 40));
  s.host.per_step = us(draw(1, 10));
  s.host.per_sequence = us(draw(0, 3));
  s.host.request_path = us(draw(0, 5));
  s.host.response_path = us(draw(0, 5));
  // Prefix caches, with prompts that begin alike and sessions that come back.
  const bool cached = s.engine != Setting::Engine::fcfs && draw(0, 1) == 0;
  if (cached && s.engine == Setting::Engine::sglang) {
    s.cache = "radix";
    s.eviction = std::array{"lru", "mru", "fifo", "filo"}[static_cast<std::size_t>(draw(0, 3))];
    s.policy = static_cast<SglangPolicy>(draw(0, 3));
  } else if (cached) {
    s.cache = "blocks";
  }
  if (cached && draw(0, 2) == 0) s.turns = draw(2, 3), s.think = us(draw(0, 100));
  Duration at;
  const int n = draw(1, 8);
  for (int i = 0; i < n; ++i) {
    tiny::Arrival a;
    a.at = at;
    a.prompt = draw(1, crowd ? 3 : 30);
    if (cached && draw(0, 3) > 0) {
      const int alike = draw(0, static_cast<int>(a.prompt));
      a.content.append({draw(1, 2), 0, alike});
      a.content.append({100 + i, 0, a.prompt - alike});
      if (draw(0, 1) == 0) a.answer = draw(11, 12);
    }
    a.max_new = crowd ? 24 : draw(1, 24);
    a.output = draw(0, 2) == 0 ? draw(1, 24) : a.max_new;
    s.arrivals.push_back(a);
    if (crowd) at += s.host.per_step + s.launch + s.base + 4 * s.per_token;
    if (draw(0, 1) == 1) at += us(draw(0, 200));
  }
  return s;
}

/// Any scheduler, with its promises written down: what it says while a hold of it is in force must
/// be what it said, and an empty server turns nobody away twice.
class Watch final : public Scheduler, public Observer {
 public:
  /// Counts decisions under a hold, and those of them with an arrival that it ignores.
  Watch(std::unique_ptr<Scheduler> inner, std::int64_t& held, std::int64_t& through_arrivals)
      : inner_(std::move(inner)), held_(held), through_arrivals_(through_arrivals) {}

  void next_batch(const SchedulerView& view, BatchPlan& plan) override {
    const bool in_force = hold_ && !(hold_->on_leave && finished_) &&
                          !(hold_->on_arrival && arrived_) && hold_->passes > 0 &&
                          view.now < hold_->until && view.decode_pages <= view.kv.available();
    const bool empty = view.running == 0 && !view.prefilling &&
                       view.kv.available() == view.total_pages && !view.waiting.empty();
    inner_->next_batch(view, plan);
    if (in_force) {
      RC_ASSERT(plan.extend.empty());
      RC_ASSERT(plan.retracted == 0);
      RC_ASSERT(plan.decode == (view.decoding > 0));
      ++held_;
      through_arrivals_ += arrived_;
      --hold_->passes;
    } else {
      hold_ = plan.hold;
      if (hold_) --hold_->passes;
      arrived_ = finished_ = false;
    }
    if (plan.hold) RC_ASSERT(!plan.idle() && plan.retracted == 0);
    turned_away_ = empty && plan.idle() ? turned_away_ + 1 : 0;
    RC_ASSERT(turned_away_ < 2);
    if (plan.idle()) RC_ASSERT(view.kv.decoding() == 0);
  }
  void on_repeat() override { inner_->on_repeat(); }
  void on_finish(const RequestView& r) override { inner_->on_finish(r); }
  void on_idle(const SchedulerView& view) override { inner_->on_idle(view); }
  void on_queued(const Request&) override { arrived_ = true; }
  void on_finish(const Request&) override { finished_ = true; }

 private:
  std::unique_ptr<Scheduler> inner_;
  std::optional<Hold> hold_;  // the oldest that nothing has ended
  bool arrived_ = false, finished_ = false;
  int turned_away_ = 0;
  std::int64_t &held_, &through_arrivals_;
};

// `draws` in each of rapidcheck's hundred cases: a second check would draw the same ones again.
template <class Law>
bool on_every_server(Law law, int draws = 10) {
  return rc::check([&] {
    for (int i = 0; i < draws; ++i) {
      const Setting s = draw_setting();
      law(s, tiny::play(s));
    }
  });
}

Setting three_requests(int depth) {
  Setting s;
  s.depth = depth;
  s.base = ms(10);
  s.launch = ms(2);
  s.host.per_step = ms(1);
  s.arrivals = {{ms(0), 4, 1, 1}, {ms(0), 4, 3, 3}, {ms(15), 4, 2, 2}};
  return s;
}

std::vector<std::int64_t> in_ms(const std::vector<TimePoint>& times) {
  std::vector<std::int64_t> out;
  for (const TimePoint t : times) {
    CHECK(t.since_start().ps() % 1'000'000'000 == 0);
    out.push_back(t.since_start().ps() / 1'000'000'000);
  }
  return out;
}

using Times = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("every request finishes with exactly its tokens or is rejected") {
  CHECK(on_every_server([](const Setting&, const Run& run) {
    for (const auto& life : run.lives) {
      RC_ASSERT(life.finished != life.rejected);
      RC_ASSERT(life.rejected == (life.tokens_expected < 1));
      RC_ASSERT(static_cast<std::int64_t>(life.tokens.size()) ==
                std::max<std::int64_t>(life.tokens_expected, 0));
    }
    const auto& c = run.counts;
    RC_ASSERT(c.arrived == static_cast<std::int64_t>(run.lives.size()));
    RC_ASSERT(c.arrived == c.finished + c.rejected);
    RC_ASSERT(run.ended);
    RC_ASSERT(run.waiting_at_end == 0);
    RC_ASSERT(run.running_at_end == 0);
  }));
}

TEST_CASE("at every pass the pages held and free make the pool") {
  CHECK(on_every_server([](const Setting& s, const Run& run) {
    for (const auto& p : run.passes) {
      // A shared page is there once; vLLM keeps second copies of what two computed at a time.
      const std::int64_t taken = s.pages - p.pages_free;
      RC_ASSERT(taken >= p.pages_held - p.pages_shared);
      RC_ASSERT(taken <= p.pages_held - (s.cache == "blocks" ? 0 : p.pages_shared));
      RC_ASSERT(p.pages_in_use == p.pages_held);  // no page beyond what the tokens need
      RC_ASSERT(p.pages_free >= 0);
      RC_ASSERT(p.record.free_pages >= 0);
    }
    RC_ASSERT(run.counts.pages_free_end == s.pages);
    RC_ASSERT(run.counts.pages_free_min >= 0);
  }));
}

TEST_CASE("what of the prompts the prefix cache does not have is computed, and no more") {
  CHECK(on_every_server([](const Setting& s, const Run& run) {
    const auto& c = run.counts;
    std::int64_t computed = 0, found = 0;
    for (const auto& p : run.passes) computed += p.record.shape.extend_tokens;
    for (const auto& life : run.lives) {
      RC_ASSERT(life.cached % s.page_size == 0);
      RC_ASSERT(life.cached == 0 || life.cached < life.prompt);  // the last one makes the token
      found += life.cached;
    }
    RC_ASSERT(s.cache != "none" || found == 0);
    // Somebody retracted comes again, if need be before his prompt was done.
    RC_ASSERT(computed <= c.prompt_tokens - c.cached_tokens);
    RC_ASSERT(found <= c.cached_tokens);
    if (c.retractions > 0) return;
    RC_ASSERT(computed == c.prompt_tokens - c.cached_tokens);
    RC_ASSERT(found == c.cached_tokens);
  }));
}

TEST_CASE("at every pass those who came are waiting, prefilling, running or gone") {
  CHECK(on_every_server([](const Setting& s, const Run& run) {
    for (const auto& p : run.passes) {
      // Requests on the way to the scheduler are not in its queue yet; one may be half prefilled.
      RC_ASSERT(p.waiting + p.running <= p.unfinished);
      RC_ASSERT(p.running <= s.seats);
      RC_ASSERT(p.record.batch <= s.seats);
      if (s.engine == Setting::Engine::sglang) RC_ASSERT(p.record.shape.extend_tokens <= s.chunk);
      if (s.engine == Setting::Engine::vllm)
        RC_ASSERT(p.record.shape.tokens() <= std::max<std::int64_t>(s.chunk, s.seats));
      const bool mixes = s.mixed || s.engine == Setting::Engine::vllm;
      if (!mixes)
        RC_ASSERT(p.record.shape.extend_sequences == 0 || p.record.shape.decode_sequences == 0);
    }
  }));
}

TEST_CASE("no token comes before its request, and those of a request come one after the other") {
  CHECK(on_every_server([](const Setting& s, const Run& run) {
    for (const auto& life : run.lives) {
      TimePoint before = life.sent + s.host.request_path + s.host.response_path;
      for (const TimePoint t : life.tokens) {
        RC_ASSERT(t > before);
        before = t;
      }
      if (life.finished) RC_ASSERT(life.ended == life.tokens.back());
    }
  }));
}

TEST_CASE("the GPU runs one pass at a time, each for its full length after its launch") {
  CHECK(on_every_server([](const Setting&, const Run& run) {
    TimePoint gpu_free;
    for (const auto& p : run.passes) {
      RC_ASSERT(p.record.finished - p.cost.device >= gpu_free);
      RC_ASSERT(p.record.finished >= p.record.launched + p.cost.span);
      // and no longer than it must
      RC_ASSERT(p.record.finished ==
                std::max(gpu_free + p.cost.device, p.record.launched + p.cost.span));
      gpu_free = p.record.finished;
    }
  }));
}

TEST_CASE("results are taken in order and not before the GPU has them") {
  CHECK(on_every_server([](const Setting& s, const Run& run) {
    TimePoint processed, host_free;
    for (const auto& p : run.passes) {
      RC_ASSERT(p.record.processed >= p.record.finished + p.record.batch * s.host.per_sequence);
      RC_ASSERT(p.record.processed > processed);
      RC_ASSERT(p.record.launched >= host_free + s.host.per_step);
      processed = p.record.processed;
      host_free = p.record.launched + p.cost.host;
    }
    RC_ASSERT(run.counts.passes == static_cast<std::int64_t>(run.passes.size()));
  }));
}

TEST_CASE("at depth one a pass is launched only when the last one has been taken") {
  CHECK(on_every_server([](const Setting& s, const Run& run) {
    for (std::size_t i = static_cast<std::size_t>(s.depth); i < run.passes.size(); ++i)
      RC_ASSERT(run.passes[i].record.launched >=
                run.passes[i - static_cast<std::size_t>(s.depth)].record.processed +
                    s.host.per_step);
  }));
}

TEST_CASE("dropped tokens are at most one per finish and retraction, none at depth one") {
  CHECK(on_every_server([](const Setting& s, const Run& run) {
    const auto& c = run.counts;
    RC_ASSERT(c.dummy_tokens <= (s.depth == 1 ? 0 : c.finished + c.retractions));
    std::int64_t made = 0, computed = 0;
    for (const auto& life : run.lives) made += static_cast<std::int64_t>(life.tokens.size());
    RC_ASSERT(c.tokens_made == made);
    // Whoever takes part in a pass makes a token, drops one, or is only partly prefilled.
    for (const auto& p : run.passes) computed += p.record.shape.heads_rows;
    RC_ASSERT(computed == c.tokens_made + c.dummy_tokens);
  }));
}

TEST_CASE("the loop never rests while somebody is there") {
  // Between the taking of a pass and the next launch lie at most two looks at the queue: an idle
  // one, which clears the scheduler's flags, and the one that chooses.
  CHECK(on_every_server([](const Setting& s, const Run& run) {
    for (std::size_t i = 0; i < run.passes.size(); ++i) {
      const TimePoint taken = i == 0 ? TimePoint() : run.passes[i - 1].record.processed;
      TimePoint since = TimePoint::never();  // when the loop is free and somebody is there
      for (const auto& life : run.lives) {
        if (life.rejected || life.ended - s.host.response_path <= taken) continue;
        since = std::min(since, std::max(taken, life.queued));
      }
      RC_ASSERT(run.passes[i].record.launched <= since + 2 * s.host.per_step);
    }
  }));
}

TEST_CASE("somebody ends before long, however often pages run out") {
  // At least one request keeps its pages in every pass, and no pass does less than a token: those
  // under way cannot need more passes than they have tokens before one of them is done.
  CHECK(on_every_server([](const Setting& s, const Run& run) {
    std::int64_t tokens = 0, passes = 0, before = 0;
    for (const auto& life : run.lives)
      tokens += life.prompt + 2 * std::max<std::int64_t>(life.tokens_expected, 0);
    for (const auto& p : run.passes) {
      const std::int64_t ended =
          std::count_if(run.lives.begin(), run.lives.end(), [&](const auto& life) {
            return life.finished && life.ended <= p.record.processed + s.host.response_path;
          });
      passes = ended > before ? 0 : passes + 1;
      before = ended;
      RC_ASSERT(passes <= tokens);
    }
  }));
}

TEST_CASE("a hold is always right, and nobody is left waiting for an empty server") {
  std::int64_t held = 0, held_through_arrivals = 0;
  CHECK(rc::check([&] {
    for (int i = 0; i < 5; ++i) {
      const Setting s = draw_setting();
      EngineSetup setup = tiny::engine(s);
      auto watch = std::make_unique<Watch>(std::move(setup.scheduler), held, held_through_arrivals);
      Watch& observer = *watch;
      setup.scheduler = std::move(watch);
      tiny::play(s, std::move(setup), &observer);
    }
  }));
  CHECK(held > 100);
  CHECK(held_through_arrivals > 10);
}

TEST_CASE("one seat and equal service: the mean wait is that of M/D/1") {
  // Poisson arrivals at 0.7 of what the server can do: W = rho d / (2 (1 - rho)) = 116.7 us
  // (Pollaczek-Khinchine), within the confidence interval of 30 batch means (Student's t of 29
  // degrees of freedom, 99.9 %: 3.66).
  constexpr double rho = 0.7, service_us = 100, t_quantile = 3.66;
  constexpr std::size_t batches = 30, per_batch = 400;
  Setting s;
  s.seats = 1;
  s.base = us(100);
  NumpyLegacyRandom random(1);
  Duration at;
  for (std::size_t i = 0; i < batches * per_batch; ++i) {
    tiny::Arrival a;
    a.at = at;
    s.arrivals.push_back(a);
    at += Duration::from_us(random.exponential(service_us / rho));
  }
  // With results one pass late only vLLM knows the end of a request beforehand; the others give it
  // a second pass.
  for (const auto& [engine, depth] : {std::pair{Setting::Engine::sglang, 1},
                                      {Setting::Engine::fcfs, 1},
                                      {Setting::Engine::vllm, 1},
                                      {Setting::Engine::vllm, 2}})
    for (const bool reference : {true, false}) {
      INFO("engine " << static_cast<int>(engine) << ", depth " << depth << ", "
                     << (reference ? "reference" : "sums"));
      s.engine = engine;
      s.depth = depth;
      s.reference = reference;
      const Run run = tiny::play(s);
      REQUIRE(run.lives.size() == batches * per_batch);
      std::vector<double> waits;
      for (std::size_t b = 0; b < batches; ++b) {
        double sum = 0;
        for (std::size_t i = b * per_batch; i < (b + 1) * per_batch; ++i)
          sum += (run.lives[i].first - run.lives[i].sent).us() - service_us;
        waits.push_back(sum / per_batch);
      }
      const double error = standard_deviation(waits) / std::sqrt(double{batches} - 1);
      CHECK(std::abs(mean(waits) - rho * service_us / (2 * (1 - rho))) < t_quantile * error);
      CHECK(error < 0.1 * mean(waits));  // an interval that says something
    }
}

TEST_CASE("a first token is not made before its prompt has gone through the GPU") {
  CHECK(on_every_server([](const Setting& s, const Run& run) {
    for (std::size_t i = 0; i < run.lives.size(); ++i) {
      const auto& life = run.lives[i];
      if (life.tokens.empty()) continue;
      RC_ASSERT(life.tokens.front() >= life.queued + s.host.per_step + s.launch + s.base +
                                           s.per_token + s.host.response_path);
    }
  }));
}

TEST_CASE("the same workload runs the same way twice") {
  CHECK(on_every_server([](const Setting& s, const Run& run) {
    const Run again = tiny::play(s);
    RC_ASSERT(again.passes.size() == run.passes.size());
    for (std::size_t i = 0; i < run.passes.size(); ++i)
      RC_ASSERT(again.passes[i].record.processed == run.passes[i].record.processed);
    for (std::size_t i = 0; i < run.lives.size(); ++i)
      RC_ASSERT(again.lives[i].tokens == run.lives[i].tokens);
  }));
}

TEST_CASE("a null page is one that the pool does not have") {
  CHECK(on_every_server([](const Setting& s, const Run& run) {
    EngineSetup larger = tiny::engine(s);
    larger.sizes.kv_tokens = Tokens((s.pages + 1) * s.page_size);
    larger.sizes.null_pages = 1;
    const Run again = tiny::play(s, std::move(larger));
    RC_ASSERT(again.counts.pages_free_end == s.pages);
    RC_ASSERT(again.passes.size() == run.passes.size());
    for (std::size_t i = 0; i < run.lives.size(); ++i)
      RC_ASSERT(again.lives[i].tokens == run.lives[i].tokens);
  }));
}

TEST_CASE("one request alone is no faster on a smaller chunk and needs as many pages") {
  CHECK(rc::check([] {
    Setting s = draw_setting();
    s.arrivals.resize(1);
    s.depth = 1;
    const Run small = tiny::play(s);
    s.chunk = std::int64_t{s.page_size} * 64;
    const Run large = tiny::play(s);
    RC_PRE(small.lives[0].finished);
    RC_ASSERT(large.lives[0].ended <= small.lives[0].ended);
    RC_ASSERT(large.counts.pages_free_min == small.counts.pages_free_min);
  }));
}

TEST_CASE("the random workloads reach every rare path") {
  // Each path is rare in a hundred draws; one that two thousand do not reach is not drawn at all.
  std::int64_t retractions[3] = {}, rejected = 0, dummies = 0, captured = 0, padded = 0, full = 0,
               chunks = 0, mixed = 0, hits[3] = {}, shared[3] = {}, cached_retractions[3] = {};
  CHECK(on_every_server(
      [&](const Setting& s, const Run& run) {
        retractions[static_cast<int>(s.engine)] += run.counts.retractions;
        hits[static_cast<int>(s.engine)] += run.counts.cached_tokens;
        if (s.cache != "none")
          cached_retractions[static_cast<int>(s.engine)] += run.counts.retractions;
        rejected += run.counts.rejected;
        dummies += run.counts.dummy_tokens;
        for (const auto& p : run.passes) {
          const PassShape& shape = p.record.shape;
          shared[static_cast<int>(s.engine)] += p.pages_shared;
          captured += p.record.captured;
          padded += p.record.padded > shape.decode_sequences;
          full += p.record.batch == s.seats && s.seats > 1;
          chunks += shape.extend_sequences + shape.decode_sequences > shape.heads_rows;
          mixed += s.mixed && shape.extend_sequences > 0 && shape.decode_sequences > 0;
        }
      },
      20));
  CHECK(retractions[0] > 0);
  CHECK(retractions[1] > 0);
  CHECK(retractions[2] == 0);  // fcfs keeps room for all that anybody may make
  for (const int engine : {0, 1}) {
    CHECK(hits[engine] > 0);
    CHECK(shared[engine] > 0);
    CHECK(cached_retractions[engine] > 0);
  }
  CHECK(mixed > 0);
  CHECK(rejected > 0);
  CHECK(dummies > 0);
  CHECK(captured > 0);
  CHECK(padded > 0);
  CHECK(full > 0);
  CHECK(chunks > 0);
}

TEST_CASE("three requests step by step, waiting for each result") {
  // 1 ms to choose, 2 ms to issue, 10 ms on the GPU: a pass chosen at t is ready at t + 13.
  const Run run = tiny::play(three_requests(1));
  //  0: A and B prefill         -> 13: A1 (A ends), B1
  // 13: B decodes               -> 26: B2         C comes at 15 and waits for the pass to end
  // 26: C prefills, alone       -> 39: C1
  // 39: B and C decode          -> 52: B3, C2 (both end)
  CHECK(in_ms(run.lives[0].tokens) == Times{13});
  CHECK(in_ms(run.lives[1].tokens) == Times{13, 26, 52});
  CHECK(in_ms(run.lives[2].tokens) == Times{39, 52});
  CHECK(run.counts.passes == 4);
  CHECK(run.counts.decode_passes == 2);
  CHECK(run.counts.dummy_tokens == 0);
}

TEST_CASE("three requests step by step, results one pass late") {
  const Run run = tiny::play(three_requests(2));
  //  0: P1 prefills A, B. Launched 1, issued 3, on the GPU 3 to 13.
  //  3: P2 decodes A, B. Launched 4, issued 6, on the GPU 13 to 23. Then P1 is awaited.
  // 13: A1 (A is done, but rides in P2), B1. P3 decodes B: launched 14, on the GPU 23 to 33.
  // 23: P2: A's token is dropped, B2. C came at 15: P4 prefills C, on the GPU 33 to 43.
  // 33: P3: B3 (B is done; P4 does not hold it). P5 decodes C: on the GPU 43 to 53.
  // 43: P4: C1. P6 decodes C: on the GPU 53 to 63.
  // 53: P5: C2 (C is done, but rides in P6). Nothing to do: P6 is awaited.
  // 63: P6: C's token is dropped.
  CHECK(in_ms(run.lives[0].tokens) == Times{13});
  CHECK(in_ms(run.lives[1].tokens) == Times{13, 23, 33});
  CHECK(in_ms(run.lives[2].tokens) == Times{43, 53});
  CHECK(run.counts.passes == 6);
  CHECK(run.counts.decode_passes == 4);
  CHECK(run.counts.dummy_tokens == 2);
  std::vector<TimePoint> finished;
  for (const auto& p : run.passes) finished.push_back(p.record.finished);
  CHECK(in_ms(finished) == Times{13, 23, 33, 43, 53, 63});
}

TEST_CASE("with results one pass late a slow host hands the first token over late") {
  Setting s;
  s.base = ms(10);
  s.launch = ms(20);
  s.host.per_step = ms(1);
  s.arrivals = {{ms(0), 4, 2, 2}};
  // At once: 1 + 20 + 10 = 31 ms, then as much again.
  s.depth = 1;
  CHECK(in_ms(tiny::play(s).lives[0].tokens) == Times{31, 62});
  // One late: the GPU has the first token at 31, but the host issues the next pass until
  // 21 + 1 + 20 = 42 before it looks. That pass is done at 52; the host issues a third one (the
  // request's extra pass) until 63 before it looks again.
  s.depth = 2;
  CHECK(in_ms(tiny::play(s).lives[0].tokens) == Times{42, 63});
}

TEST_CASE("host work around a pass adds to the step where it is not hidden") {
  Setting s;
  s.depth = 1;
  s.base = ms(10);
  s.host.per_step = ms(1);
  s.host.per_sequence = ms(2);
  s.host.request_path = ms(5);
  s.host.response_path = ms(3);
  s.arrivals = {{ms(0), 4, 2, 2}, {ms(0), 4, 2, 2}};
  // 5 on the way in, 1 to choose, 10 on the GPU, 2 x 2 to process, 3 on the way back: 23; the next
  // pass begins at 20 and takes 1 + 10 + 4, and 3 back: 38.
  const Run run = tiny::play(s);
  CHECK(in_ms(run.lives[0].tokens) == Times{23, 38});
  CHECK(in_ms(run.lives[1].tokens) == Times{23, 38});
}

TEST_CASE("a padded batch costs what the captured size costs") {
  Setting s;
  s.depth = 1;
  s.base = ms(10);
  s.per_token = ms(1);
  s.host.per_step = ms(1);
  s.graph_sizes = {1, 4};
  s.arrivals = {{ms(0), 3, 2, 2}, {ms(0), 3, 2, 2}};
  // Prefill of 6 tokens: 1 + 10 + 6 = 17. Decode of 2, padded to 4: 1 + 10 + 4 = 15.
  const Run run = tiny::play(s);
  CHECK(in_ms(run.lives[0].tokens) == Times{17, 32});
  REQUIRE(run.passes.size() == 2);
  CHECK_FALSE(run.passes[0].record.captured);
  CHECK(run.passes[1].record.captured);
  CHECK(run.passes[1].record.padded == 4);
}
