// Prefix caches: what one request costs from match() to release(), with 64 others under way and a
// pool of 28,000 blocks of 16 tokens, most of them evictable. A run has a million requests and at
// most 500 ns for each of them here.

#include <benchmark/benchmark.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "sim/engine/kv_cache.hpp"

namespace {

constexpr int page = 16, output = 256;
constexpr std::int64_t pages = 28'000;

/// Next prompts of some conversations, one after the other; several at a time may be under way.
class Prompts {
 public:
  /// Each conversation starts with one of `openings` of `opening` tokens, adds `turn` tokens of its
  /// own a turn, and ends after `turns`.
  Prompts(std::size_t conversations, int openings, int opening, int turn, int turns)
      : said_(conversations),
        turn_(conversations),
        openings_(openings),
        opening_(opening),
        tokens_(turn),
        turns_(turns) {
    // Not all at their end at the same time.
    for (std::size_t i = 0; i < conversations; ++i) turn_[i] = static_cast<int>(i) % turns;
  }

  std::size_t next() {
    at_ = (at_ + 1) % said_.size();
    Content& said = said_[at_];
    if (turn_[at_]++ % turns_ == 0) {
      said = {};
      if (openings_ > 0) said.append({streams_ % openings_, 0, opening_});
    }
    said.append({1'000'000 + streams_++, 0, tokens_});
    return at_;
  }
  const Content& said(std::size_t i) const { return said_[i]; }
  void answer(std::size_t i) { said_[i].append({1'000'000 + streams_++, 0, output}); }

 private:
  std::vector<Content> said_;
  std::vector<int> turn_;
  int openings_, opening_, tokens_, turns_;
  std::size_t at_ = 0;
  std::int64_t streams_ = 0;
};

void requests(benchmark::State& state, const char* kind, Prompts prompts) {
  const auto* factory = Registry<KvCacheFactory>::find(kind);
  if (factory == nullptr) std::abort();
  const auto cache = (*factory)(pages, page, "lru");
  struct UnderWay {
    KvHold hold;
    std::size_t who = 0;
  };
  std::array<UnderWay, 64> ring;
  std::size_t turn = 0;
  double asked = 0, found = 0;
  const auto one = [&] {
    UnderWay& r = ring[turn++ % ring.size()];
    if (r.hold.handle >= 0) {
      prompts.answer(r.who);
      cache->release(r.hold, prompts.said(r.who), r.hold.tokens - 1, true);
    }
    r.who = prompts.next();
    const Content& prompt = prompts.said(r.who);
    const std::int64_t tokens = prompt.tokens();
    const std::int64_t hit = cache->match(prompt, tokens - 1);
    cache->hold(r.hold, prompt, hit);
    r.hold.tokens = tokens;
    cache->take(r.hold.own_pages(page));
    cache->publish(r.hold, prompt, tokens);
    const std::int64_t before = r.hold.pages(page);
    r.hold.tokens += output;
    cache->take(r.hold.pages(page) - before);
    asked += static_cast<double>(tokens) / page;
    found += static_cast<double>(hit) / page;
  };
  for (int i = 0; i < 20'000; ++i) one();
  asked = found = 0;
  for (auto _ : state) one();
  state.counters["blocks"] = asked / static_cast<double>(state.iterations());
  state.counters["found"] = found / static_cast<double>(state.iterations());
  state.counters["calls"] = 6;
}

void unique_prompts(benchmark::State& state, const char* kind) {
  requests(state, kind, Prompts(100, 0, 0, 512, 1));
}
BENCHMARK_CAPTURE(unique_prompts, blocks, "blocks");
BENCHMARK_CAPTURE(unique_prompts, radix, "radix");

void shared_system_prompt(benchmark::State& state, const char* kind) {
  requests(state, kind, Prompts(100, 16, 800, 512, 1));
}
BENCHMARK_CAPTURE(shared_system_prompt, blocks, "blocks");
BENCHMARK_CAPTURE(shared_system_prompt, radix, "radix");

void conversation(benchmark::State& state, const char* kind) {
  requests(state, kind, Prompts(300, 16, 300, 100, 6));
}
BENCHMARK_CAPTURE(conversation, blocks, "blocks");
BENCHMARK_CAPTURE(conversation, radix, "radix");

}  // namespace
