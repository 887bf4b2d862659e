// The clock of sums and jumps against the reference that touches every request in every pass:
// equal to the picosecond on random workloads of tiny servers, on which the rare paths are common.

#include <map>

#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include "tests/support/tiny_server.hpp"

namespace {

using tiny::Run;
using tiny::Setting;

Duration us(std::int64_t n) { return Duration::picoseconds(n * 1'000'000); }

int draw(int low, int high) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(low, high + 1));
}
bool one_in(int n) { return draw(1, n) == 1; }

// Times in microseconds; a quarter of the cases has few different ones, so that many things happen
// in the same picosecond.
Setting draw_setting() {
  Setting s;
  s.engine = one_in(2) ? Setting::Engine::sglang : Setting::Engine::vllm;
  const bool sglang = s.engine == Setting::Engine::sglang;
  const bool coarse = one_in(4);
  const auto time = [&](int low, int high) {
    return coarse ? us(10 * draw(low > 0 ? 1 : 0, 2))
                  : Duration::picoseconds(draw(low * 1000, high * 1000) * 997L);
  };
  s.page_size = one_in(3) ? 1 : draw(1, 8);
  s.pages = draw(4, one_in(2) ? 16 : 120);
  s.seats = draw(1, one_in(2) ? 4 : 24);
  s.chunk = std::int64_t{s.page_size} * draw((4 + s.page_size - 1) / s.page_size, 40);
  s.input = draw(8, 200);
  s.depth = draw(1, 2);
  if (one_in(3)) s.clip = draw(1, 30);
  if (one_in(3)) s.conservativeness = 0.05;
  if (sglang && one_in(4)) s.mixed = true;
  if (sglang && one_in(4)) s.policy = static_cast<SglangPolicy>(draw(0, 3));
  if (one_in(2)) s.cache = sglang ? "radix" : "blocks";
  if (sglang && one_in(4)) s.eviction = one_in(2) ? "mru" : one_in(2) ? "fifo" : "filo";
  s.reserve_whole = one_in(2);
  if (one_in(2)) s.graph_sizes = {1, 3, 8, 32};
  if (one_in(3)) s.top_k = draw(2, 40);
  s.base = time(1, 30);
  s.per_token = time(0, 5);
  s.launch = time(0, 40);
  if (one_in(2)) s.per_kv = time(0, 2);
  if (one_in(2)) s.per_kv_squared_root = time(0, 9);
  if (one_in(2)) s.per_pair = time(0, 1);
  s.host.per_step = time(1, 10);
  s.host.per_sequence = time(0, 3);
  s.host.request_path = time(0, 5);
  s.host.response_path = time(0, 5);
  if (one_in(4)) s.host.tokenise_per_token = time(0, 1);
  if (one_in(4)) s.host.cold_start = time(0, 100);
  if (one_in(3)) s.max_concurrency = draw(1, 6);
  if (one_in(4)) s.turns = draw(2, 3), s.think = time(0, 60);
  const int longest = one_in(3) ? 300 : 24;
  Duration at;
  const int n = draw(1, 12);
  for (int i = 0; i < n; ++i) {
    tiny::Arrival a;
    a.at = at;
    a.prompt = draw(1, one_in(3) ? 60 : 8);
    if (one_in(2))
      a.content = Content(draw(1, 2), a.prompt), a.answer = one_in(2) ? draw(5, 9) : -1;
    a.max_new = draw(1, longest);
    a.output = one_in(3) ? draw(1, longest) : a.max_new;
    s.arrivals.push_back(a);
    if (one_in(2)) at += coarse ? us(10 * draw(0, 30)) : time(0, one_in(3) ? 3000 : 200);
  }
  return s;
}

// What the drawn workloads went through: a comparison of idle servers would prove nothing.
struct Seen {
  std::int64_t jumps = 0, retractions = 0, dummies = 0, rejected = 0, cached = 0, saved_calls = 0;
} seen;

void compare(const Setting& drawn) {
  Setting s = drawn;
  s.reference = true;
  const Run a = tiny::play(s);
  s.reference = false;
  const Run b = tiny::play(s);
  RC_ASSERT(a.ended);
  RC_ASSERT(b.ended);
  RC_ASSERT(a.lives.size() == b.lives.size());
  for (std::size_t i = 0; i < a.lives.size(); ++i) {
    const auto &x = a.lives[i], &y = b.lives[i];
    RC_ASSERT(x.finished == y.finished);
    RC_ASSERT(x.rejected == y.rejected);
    RC_ASSERT(x.sent == y.sent);
    RC_ASSERT(x.queued == y.queued);
    RC_ASSERT(x.first == y.first);
    RC_ASSERT(x.last == y.last);
    RC_ASSERT(x.retractions == y.retractions);
    RC_ASSERT(x.cached == y.cached);
  }
  RC_ASSERT(a.gaps == b.gaps);
  // What --output-details writes, told by the reference, are the gaps that the sums count.
  std::map<std::int64_t, std::int64_t> told;
  for (const auto& life : a.lives)
    for (std::size_t i = 1; i < life.tokens.size(); ++i)
      ++told[(life.tokens[i] - life.tokens[i - 1]).ps()];
  RC_ASSERT(b.gaps == decltype(b.gaps)(told.begin(), told.end()));
  ServerCounts x = a.counts, y = b.counts;
  RC_ASSERT(y.scheduler_calls <= x.scheduler_calls);
  seen.jumps += y.jumps;
  seen.retractions += y.retractions;
  seen.dummies += y.dummy_tokens;
  seen.rejected += y.rejected;
  seen.cached += y.cached_tokens;
  seen.saved_calls += x.scheduler_calls - y.scheduler_calls;
  x.scheduler_calls = y.scheduler_calls = x.jumps = y.jumps = 0;
  RC_ASSERT(x.passes == y.passes);
  RC_ASSERT(x.decode_passes == y.decode_passes);
  RC_ASSERT(x.dummy_tokens == y.dummy_tokens);
  RC_ASSERT(x.tokens_made == y.tokens_made);
  RC_ASSERT(x.pages_free_min == y.pages_free_min);
  RC_ASSERT(x == y);
  RC_ASSERT(a.metrics.batch_max == b.metrics.batch_max);
  RC_ASSERT(a.metrics.gpu_busy == b.metrics.gpu_busy);
  RC_ASSERT(a.metrics.in_flight_mean == b.metrics.in_flight_mean);
  RC_ASSERT(a.metrics.server_decode_throughput_peak == b.metrics.server_decode_throughput_peak);
}

}  // namespace

TEST_CASE("sums and jumps equal the reference to the picosecond") {
  seen = {};
  // Twenty workloads a case: all checks of one program begin with the same seed.
  REQUIRE(rc::check([] {
    for (int i = 0; i < 20; ++i) compare(draw_setting());
  }));
  CHECK(seen.jumps > 100);
  CHECK(seen.saved_calls > 1000);
  CHECK(seen.retractions > 100);
  CHECK(seen.dummies > 100);
  CHECK(seen.rejected > 10);
  CHECK(seen.cached > 1000);
}
