// The definitions of sglang.bench_serving on runs whose times are written by hand, and what the
// collector sums up against lists of single values.

#include "sim/metrics/metrics.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include "sim/base/random.hpp"
#include "sim/base/statistics.hpp"

namespace {

TimePoint at(double ms) { return TimePoint::at(Duration::from_us(ms * 1000)); }
Duration ps(std::int64_t n) { return Duration::picoseconds(n); }

struct Life {
  double sent_ms = 0;
  std::vector<double> tokens_ms;
  std::int64_t prompt = 0, cached = 0;
};

Request request(std::int64_t index, const Life& life) {
  Request r;
  r.index = index;
  r.prompt = life.prompt;
  r.cached = life.cached;
  r.output = r.generated = static_cast<std::int64_t>(life.tokens_ms.size());
  r.sent = at(life.sent_ms);
  if (r.output > 0) r.first_token = at(life.tokens_ms.front());
  if (r.output > 0) r.last_token = at(life.tokens_ms.back());
  return r;
}

// Announces everything in the order of time, a finish before what is sent in the same moment.
void play(MetricsCollector& m, const std::vector<Life>& lives) {
  std::multimap<std::pair<double, int>, std::function<void()>> events;
  for (std::size_t i = 0; i < lives.size(); ++i) {
    const Life& l = lives[i];
    const Request r = request(static_cast<std::int64_t>(i), l);
    events.emplace(std::pair(l.sent_ms, 2), [&m, r] { m.on_sent(r); });
    for (const double ms : l.tokens_ms)
      events.emplace(std::pair(ms, 0), [&m, r, ms] { m.on_token(r, at(ms)); });
    for (std::size_t k = 1; k < l.tokens_ms.size(); ++k)
      events.emplace(std::pair(l.tokens_ms[k], 0),
                     [&m, gap = at(l.tokens_ms[k]) - at(l.tokens_ms[k - 1])] {
                       m.on_gaps({gap, {}, 1, 1});
                     });
    events.emplace(std::pair(l.tokens_ms.back(), 1), [&m, r] { m.on_finish(r); });
  }
  for (const auto& [when, event] : events) event();
}

/// One pass of `batch` sequences whose results are taken at `processed_ms`.
PassRun decode(std::int64_t batch, double device_ms, double processed_ms) {
  PassRun run;
  run.last.batch = run.last.shape.decode_sequences = batch;
  run.device = run.last.device = Duration::from_us(device_ms * 1000);
  run.first_processed = run.last.processed = at(processed_ms);
  return run;
}
PassRun prefill(std::int64_t batch, double device_ms, double processed_ms) {
  PassRun run = decode(0, device_ms, processed_ms);
  run.last.batch = run.last.shape.extend_sequences = batch;
  return run;
}

}  // namespace

TEST_CASE("throughput and latencies of three requests are the load generator's") {
  // Clock at 1000 ms.           sent   tokens at
  // A: 10 tokens in             1000   1100 1150 1250
  // B: 20                       1050   1300
  // C: 30                       1200   1400 1600
  MetricsCollector m(40, Keep::gaps);
  m.on_clock(at(1000));
  play(m, {{1000, {1100, 1150, 1250}, 10, 4}, {1050, {1300}, 20, 0}, {1200, {1400, 1600}, 30, 8}});
  const RunMetrics r = m.summary({});

  CHECK(r.completed == 3);
  CHECK(r.input_tokens == 60);
  CHECK(r.output_tokens == 6);
  CHECK(r.duration_s == Approx(0.6));
  CHECK(r.request_throughput == Approx(3 / 0.6));
  CHECK(r.input_throughput == Approx(60 / 0.6));
  CHECK(r.output_throughput == Approx(6 / 0.6));
  CHECK(r.total_throughput == Approx(66 / 0.6));
  // First token minus send: 100, 250, 200.
  CHECK(r.ttft_ms.mean == Approx(550.0 / 3));
  CHECK(r.ttft_ms.p50 == Approx(200));
  // np.percentile(.., 99) of three: 200 + (250 - 200) x 0.98
  CHECK(r.ttft_ms.p99 == Approx(249));
  // (last - first) / (tokens - 1), only for more than one token: 150 / 2 and 200 / 1.
  CHECK(r.tpot_ms.mean == Approx((75.0 + 200.0) / 2));
  // Gaps of all requests pooled: 50, 100, 200.
  CHECK(r.itl_ms.mean == Approx(350.0 / 3));
  CHECK(r.itl_ms.p50 == Approx(100));
  // Last token minus send: 250, 250, 400.
  CHECK(r.e2e_ms.mean == Approx(300));
  CHECK(r.e2e_ms.p50 == Approx(250));
  CHECK(r.e2e_ms.std_dev == Approx(std::sqrt((50.0 * 50 + 50 * 50 + 100 * 100) / 3)));
  // Sum of latencies / duration: 0.9 / 0.6; counted over time it is the same (Little).
  CHECK(r.concurrency == Approx(1.5));
  CHECK(r.in_flight_mean == Approx(1.5));
  CHECK(r.in_flight_max == 3);  // 1200 to 1250
  // 4 + 8 of 60 prompt tokens were cached.
  CHECK(r.prefix_hit_rate == Approx(0.2));
  REQUIRE(m.requests().size() == 3);
  CHECK(m.requests()[0].index == 0);
  CHECK(m.requests()[1].first == at(1300));
  CHECK(m.requests()[2].output == 2);
  // The gaps of a request are its own.
  CHECK(m.requests()[0].gaps == std::vector<Duration>{at(1150) - at(1100), at(1250) - at(1150)});
  CHECK(m.requests()[1].gaps.empty());
  CHECK(m.requests()[2].gaps == std::vector<Duration>{at(1600) - at(1400)});
  MetricsCollector without(40, Keep::records);
  play(without, {{1000, {1100, 1150}, 10, 4}});
  CHECK(without.requests().at(0).gaps.empty());
}

TEST_CASE("warm-up requests and what came before the clock count for nothing") {
  MetricsCollector m;
  m.on_gaps({ps(1'000'000), {}, 1, 1});
  m.on_finish(request(-1, {0, {50, 60}, 5}));
  m.on_passes(decode(9, 10, 50));
  m.on_clock(at(1000));
  play(m, {{1000, {1100}, 3}});
  m.on_finish(request(-1, {0, {50, 60}, 5}));
  const auto r = m.summary({});
  CHECK(r.completed == 1);
  CHECK(r.input_tokens == 3);
  CHECK(r.output_tokens == 1);
  CHECK(r.duration_s == Approx(0.1));
  CHECK(r.itl_ms.mean == 0);
  CHECK(r.batch_max == 0);
  CHECK(r.gpu_busy == 0);
}

TEST_CASE("a rejected request is counted and gives no latency") {
  MetricsCollector m;
  m.on_clock(at(0));
  m.on_sent(request(0, {0, {100}}));
  m.on_sent(request(1, {0, {}}));
  m.on_finish(request(0, {0, {100}}));
  m.on_reject(request(1, {0, {}}), at(150));
  const auto r = m.summary({});
  CHECK(r.completed == 1);
  CHECK(r.rejected == 1);
  CHECK(r.duration_s == Approx(0.15));
  CHECK(r.e2e_ms.mean == Approx(100));
  CHECK(r.in_flight_mean == Approx((100.0 + 150) / 150));
  // In the records it is there, for the details of a result file.
  MetricsCollector records(40, Keep::records);
  records.on_clock(at(0));
  records.on_sent(request(7, {0, {}}));
  records.on_reject(request(7, {0, {}}), at(150));
  REQUIRE(records.requests().size() == 1);
  CHECK(records.requests()[0].rejected);
  CHECK(records.requests()[0].index == 7);
  CHECK(records.requests()[0].output == 0);
}

TEST_CASE("the server's log counts 40 decode passes, dropped tokens included, prefills not") {
  MetricsCollector m;
  m.on_clock(at(0));
  double t = 0;
  // First window: 40 passes of 5 sequences, one every 10 ms: 200 tokens in 400 ms.
  for (int i = 0; i < 40; ++i, t += 10) m.on_passes(decode(5, 10, t + 10));
  CHECK(m.summary({}).server_decode_throughput_peak == Approx(500));
  // A prefill makes first tokens that do not count, but its time does.
  t += 100;
  m.on_passes(prefill(8, 100, t));
  // Second window: 400 tokens in 100 + 400 ms; higher than the first.
  for (int i = 0; i < 40; ++i, t += 10) m.on_passes(decode(10, 10, t + 10));
  CHECK(m.summary({}).server_decode_throughput_peak == Approx(800));
  // 39 passes make no line, however fast.
  for (int i = 0; i < 39; ++i, t += 1) m.on_passes(decode(10, 1, t + 1));
  CHECK(m.summary({}).server_decode_throughput_peak == Approx(800));
}

TEST_CASE("the counter of the log is not reset when the benchmark begins") {
  MetricsCollector m;
  double t = 0;
  for (int i = 0; i < 39; ++i, t += 10) m.on_passes(decode(1, 10, t + 10));
  m.on_clock(at(t));
  m.on_passes(decode(1, 10, t + 10));  // the fortieth: 40 tokens in 400 ms
  CHECK(m.summary({}).server_decode_throughput_peak == Approx(100));
}

TEST_CASE("an engine that logs by the clock has no lines of decode passes") {
  MetricsCollector m(0);
  m.on_clock(at(0));
  for (int i = 1; i <= 100; ++i) m.on_passes(decode(5, 1, i));
  CHECK(m.summary({}).server_decode_throughput_peak == 0);
}

TEST_CASE("busy and prefill shares are the GPU's own time, waits for the host left out") {
  MetricsCollector m;
  m.on_clock(at(0));
  m.on_passes(prefill(1, 100, 110));
  m.on_passes(decode(1, 50, 190));  // 110 to 190, of which 30 ms waiting for launches
  play(m, {{0, {110, 200}}});
  const auto r = m.summary({});
  CHECK(r.time_in_prefill == Approx(0.5));  // 100 of 200 ms
  CHECK(r.gpu_busy == Approx(0.75));        // 150 of 200 ms
}

TEST_CASE("the largest batch and the fullest pool are those of any pass") {
  MetricsCollector m;
  m.on_clock(at(0));
  PassRun run = decode(3, 10, 10);
  run.last.free_pages = 25;
  m.on_passes(run);
  run = decode(5, 10, 20);
  run.last.free_pages = 60;
  m.on_passes(run);
  ServerCounts counts;
  counts.pages_total = 100;
  const auto r = m.summary(counts);
  CHECK(r.batch_max == 5);
  CHECK(r.kv_use_max == Approx(0.75));
  CHECK(r.busiest.batch == 5);
}

TEST_CASE("passes that come as one run count as those passes one by one") {
  CHECK(rc::check([] {
    const int interval = *rc::gen::inRange(1, 45);
    MetricsCollector runs(interval), singles(interval);
    const auto both = [&](const PassRun& run) {
      runs.on_passes(run);
      for (std::int64_t k = 0; k < run.passes; ++k) {
        PassRun one;
        one.last = run.last;
        one.first_processed = one.last.processed = run.processed(k);
        one.device = Duration::picoseconds(run.device.ps() / run.passes);
        singles.on_passes(one);
      }
    };
    const int clock_after = *rc::gen::inRange(0, 4), n = *rc::gen::inRange(1, 12);
    TimePoint now;
    for (int i = 0; i < n; ++i) {
      if (i == clock_after) runs.on_clock(now), singles.on_clock(now);
      PassRun run = *rc::gen::inRange(0, 4) == 0 ? prefill(2, 1, 0) : decode(1, 1, 0);
      if (run.last.shape.extend_sequences == 0) {
        run.last.batch = *rc::gen::inRange(1, 9);
        run.passes = *rc::gen::inRange(1, 300);
      }
      run.device = run.passes * Duration::picoseconds(*rc::gen::inRange(1, 1000));
      run.gap = Duration::picoseconds(*rc::gen::inRange(1, 1'000'000));
      // The clock says only such runs: passes of the same requests do not become shorter.
      run.gap_step = Duration::picoseconds(*rc::gen::inRange(0, 1000));
      run.first_processed = now + Duration::picoseconds(*rc::gen::inRange(1, 1'000'000));
      run.last.free_pages = *rc::gen::inRange(0, 100);
      now = run.last.processed = run.processed(run.passes - 1);
      both(run);
    }
    if (clock_after >= n) return;
    runs.on_reject(request(0, {0, {}}), now + ps(1'000'000));  // so that it lasts for some time
    singles.on_reject(request(0, {0, {}}), now + ps(1'000'000));
    ServerCounts counts;
    counts.pages_total = 100;
    const RunMetrics a = runs.summary(counts), b = singles.summary(counts);
    RC_ASSERT(a.server_decode_throughput_peak == b.server_decode_throughput_peak);
    RC_ASSERT(a.gpu_busy == b.gpu_busy);
    RC_ASSERT(a.time_in_prefill == b.time_in_prefill);
    RC_ASSERT(a.batch_max == b.batch_max);
    RC_ASSERT(a.kv_use_max == b.kv_use_max);
  }));
}

TEST_CASE("requests in flight over time are those of a count at every moment") {
  CHECK(rc::check([] {
    // Whole milliseconds, so that many begin and end together. A request is announced a while after
    // it was sent, its end a while before its client has it.
    const int path = *rc::gen::inRange(0, 5), back = *rc::gen::inRange(0, 5);
    struct Stay {
      int sent, end;
    };
    std::vector<Stay> stays;
    int sent = 0;
    const int n = *rc::gen::inRange(1, 20);
    for (int i = 0; i < n; ++i) {
      sent += *rc::gen::inRange(0, 8);
      stays.push_back({sent, sent + path + back + *rc::gen::inRange(1, 30)});
    }
    MetricsCollector m;
    m.on_clock(at(0));
    std::multimap<std::pair<int, int>, const Stay*> events;
    for (const Stay& s : stays) {
      events.emplace(std::pair(s.end - back, 0), &s);
      events.emplace(std::pair(s.sent + path, 1), &s);
    }
    int last = 0;
    for (const auto& [when, s] : events) {
      last = std::max(last, s->end);
      const Request r = request(0, {double(s->sent), {double(s->end)}});
      when.second == 1 ? m.on_sent(r) : m.on_finish(r);
    }
    std::int64_t area = 0, most = 0;
    for (int t = 0; t < last; ++t) {
      const auto here = std::count_if(stays.begin(), stays.end(),
                                      [t](const Stay& s) { return s.sent <= t && t < s.end; });
      area += here;
      most = std::max<std::int64_t>(most, here);
    }
    const RunMetrics r = m.summary({});
    RC_ASSERT(r.in_flight_max == most);
    RC_ASSERT(std::abs(r.in_flight_mean - double(area) / last) < 1e-9);
    RC_ASSERT(std::abs(r.in_flight_mean - r.concurrency) < 1e-9);
  }));
}

TEST_CASE("gaps are exact while few differ: mean, spread and percentiles of the list") {
  CHECK(rc::check([] {
    GapHistogram histogram;
    std::vector<double> list;
    const int n = *rc::gen::inRange(1, 20);
    for (int i = 0; i < n; ++i) {
      const std::int64_t gap = *rc::gen::inRange(0, 1'000'000), step = *rc::gen::inRange(0, 5000),
                         passes = *rc::gen::inRange(0, 30), requests = *rc::gen::inRange(0, 6);
      histogram.add(ps(gap), ps(step), passes, requests);
      for (std::int64_t k = 0; k < passes; ++k)
        list.insert(list.end(), static_cast<std::size_t>(requests), ps(gap + k * step).ms());
    }
    std::sort(list.begin(), list.end());
    RC_ASSERT(histogram.count() == static_cast<std::int64_t>(list.size()));
    RC_ASSERT(std::abs(histogram.mean_ms() - mean(list)) <= 1e-12);
    RC_ASSERT(std::abs(histogram.std_dev_ms() - standard_deviation(list)) <= 1e-9);
    const std::vector<double> q = {0, 1, 50, 90, 99, 100};
    const auto got = histogram.percentiles_ms(q);
    for (std::size_t i = 0; i < q.size(); ++i)
      RC_ASSERT(std::abs(got[i] - percentile(list, q[i])) <= 1e-15);
  }));
}

TEST_CASE("the same few gaps again and again stay exact, however many there are") {
  GapHistogram histogram;
  for (int i = 0; i < 300'000; ++i) histogram.add(ps(1'000'001 + i % 3), {}, 1, 1);
  const auto p = histogram.percentiles_ms({0, 50, 100});
  CHECK(p == std::vector<double>{ps(1'000'001).ms(), ps(1'000'002).ms(), ps(1'000'003).ms()});
}

TEST_CASE("beyond 65,536 different gaps percentiles are right to 0.4 %, runs or single gaps") {
  RandomStream random(1, "gaps");
  const auto draw = [&](double low, double high) {
    return static_cast<std::int64_t>(low * std::pow(high / low, random.uniform()));
  };
  const std::vector<double> q = {0, 1, 10, 50, 90, 99, 99.9, 100};
  for (int round = 0; round < 3; ++round) {
    GapHistogram runs, singles;
    std::vector<double> list;
    while (list.size() < 400'000) {
      // 20 us to 2 s, each up to some percent longer than the one before it
      const std::int64_t gap = draw(2e7, 2e12), n = draw(1, 30'000), requests = draw(1, 4);
      const std::int64_t step = round == 0 ? 0 : draw(1, static_cast<double>(gap) / 1000);
      runs.add(ps(gap), ps(step), n, requests);
      for (std::int64_t k = 0; k < n; ++k) {
        singles.add(ps(gap + k * step), {}, 1, requests);
        list.insert(list.end(), static_cast<std::size_t>(requests), ps(gap + k * step).ms());
      }
    }
    std::sort(list.begin(), list.end());
    CHECK(runs.count() == static_cast<std::int64_t>(list.size()));
    CHECK(runs.mean_ms() == Approx(mean(list)).epsilon(1e-9));
    CHECK(runs.std_dev_ms() == Approx(standard_deviation(list)).epsilon(1e-6));
    const auto a = runs.percentiles_ms(q), b = singles.percentiles_ms(q);
    for (std::size_t i = 0; i < q.size(); ++i) {
      INFO("round " << round << ", percentile " << q[i]);
      const double exact = percentile(list, q[i]);
      // Without steps there are few different gaps: exact.
      CHECK(a[i] == Approx(exact).epsilon(round == 0 ? 1e-12 : 0.004));
      CHECK(a[i] == b[i]);
    }
  }
}

TEST_CASE("every metric has a path under which it is found, once") {
  const auto names = metric_names();
  const RunMetrics m;
  for (const auto& name : names) {
    CHECK(m.find(name).has_value());
    CHECK(std::count(names.begin(), names.end(), name) == 1);
  }
  for (const char* name : {"output_throughput", "ttft_ms.mean", "e2e_ms.p99", "duration_s",
                           "server_decode_throughput_peak", "prefix_hit_rate"})
    CHECK(m.find(name).has_value());
  CHECK_FALSE(m.find("ttft_ms").has_value());
  CHECK_FALSE(m.find("output").has_value());
}

TEST_CASE("a run of nothing has no infinities in it") {
  MetricsCollector m;
  m.on_clock(at(5));
  for (const auto& [name, value] : m.summary({}).all()) {
    INFO(name);
    CHECK(value == 0);
  }
}
