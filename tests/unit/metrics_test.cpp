// The definitions of sglang.bench_serving on runs whose times are written by hand.

#include "sim/metrics/metrics.hpp"

#include <cmath>

#include <catch2/catch.hpp>

namespace {

TimePoint at(double ms) { return TimePoint::at(Duration::from_us(ms * 1000)); }

Request request(RequestId id, std::int64_t prompt = 0) {
  Request r;
  r.id = id;
  r.prompt = prompt;
  return r;
}

void play(MetricsCollector& m, std::size_t index, RequestId id, double sent_ms,
          const std::vector<double>& tokens_ms, std::int64_t prompt = 0) {
  m.on_send(index, id, at(sent_ms));
  for (const double t : tokens_ms) m.on_tokens(request(id, prompt), 1, at(t));
  m.on_finish(request(id, prompt), at(tokens_ms.back()));
}

PassRecord decode(std::int64_t batch, double launched_ms, double finished_ms, double processed_ms) {
  PassRecord p;
  p.batch = p.shape.decode_sequences = batch;
  p.launched = at(launched_ms);
  p.finished = at(finished_ms);
  p.processed = at(processed_ms);
  return p;
}

}  // namespace

TEST_CASE("throughput and latencies of three requests are the load generator's") {
  // Clock at 1000 ms.           sent   tokens at
  // A: 10 tokens in             1000   1100 1150 1250
  // B: 20                       1050   1300
  // C: 30                       1200   1400 1600
  MetricsCollector m;
  m.on_clock(at(1000));
  play(m, 0, 7, 1000, {1100, 1150, 1250}, 10);
  play(m, 1, 8, 1050, {1300}, 20);
  play(m, 2, 9, 1200, {1400, 1600}, 30);
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
}

TEST_CASE("tokens that arrive together share the gap before them") {
  MetricsCollector m;
  m.on_clock(at(0));
  m.on_send(0, 0, at(0));
  m.on_tokens(request(0), 1, at(10));
  m.on_tokens(request(0), 4, at(30));  // four gaps of 5 ms
  m.on_finish(request(0), at(30));
  const auto r = m.summary({});
  CHECK(r.itl_ms.mean == Approx(5));
  CHECK(r.itl_ms.p99 == Approx(5));
  CHECK(r.tpot_ms.mean == Approx(20.0 / 4));
  CHECK(r.output_tokens == 5);
}

TEST_CASE("warm-up requests and what came before the clock count for nothing") {
  MetricsCollector m;
  m.on_tokens(request(0), 1, at(50));  // never announced: a warm-up
  m.on_finish(request(0), at(50));
  m.on_pass(decode(9, 40, 50, 50));
  m.on_clock(at(1000));
  play(m, 0, 1, 1000, {1100});
  const auto r = m.summary({});
  CHECK(r.completed == 1);
  CHECK(r.output_tokens == 1);
  CHECK(r.duration_s == Approx(0.1));
  CHECK(r.batch_max == 0);
  CHECK(r.gpu_busy == 0);
}

TEST_CASE("a rejected request is counted and gives no latency") {
  MetricsCollector m;
  m.on_clock(at(0));
  play(m, 0, 0, 0, {100});
  m.on_send(1, 1, at(0));
  m.on_reject(request(1), at(150));
  const auto r = m.summary({});
  CHECK(r.completed == 1);
  CHECK(r.rejected == 1);
  CHECK(r.duration_s == Approx(0.15));
  CHECK(r.e2e_ms.mean == Approx(100));
}

TEST_CASE("the server's log counts 40 decode passes, dropped tokens included, prefills not") {
  MetricsCollector m;
  m.on_clock(at(0));
  double t = 0;
  // First window: 40 passes of 5 sequences, one every 10 ms: 200 tokens in 400 ms.
  for (int i = 0; i < 40; ++i, t += 10) m.on_pass(decode(5, t, t + 10, t + 10));
  CHECK(m.summary({}).server_decode_throughput_peak == Approx(500));
  // A prefill makes first tokens that do not count, but its time does.
  PassRecord prefill = decode(0, t, t + 100, t + 100);
  prefill.batch = prefill.shape.extend_sequences = 8;
  m.on_pass(prefill);
  t += 100;
  // Second window: 400 tokens in 100 + 400 ms; higher than the first.
  for (int i = 0; i < 40; ++i, t += 10) m.on_pass(decode(10, t, t + 10, t + 10));
  CHECK(m.summary({}).server_decode_throughput_peak == Approx(800));
  // 39 passes make no line, however fast.
  for (int i = 0; i < 39; ++i, t += 1) m.on_pass(decode(10, t, t + 1, t + 1));
  CHECK(m.summary({}).server_decode_throughput_peak == Approx(800));
}

TEST_CASE("the counter of the log is not reset when the benchmark begins") {
  MetricsCollector m;
  double t = 0;
  for (int i = 0; i < 39; ++i, t += 10) m.on_pass(decode(1, t, t + 10, t + 10));
  m.on_clock(at(t));
  m.on_pass(decode(1, t, t + 10, t + 10));  // the fortieth: 40 tokens in 400 ms
  CHECK(m.summary({}).server_decode_throughput_peak == Approx(100));
}

TEST_CASE("busy and prefill shares count the GPU's time once") {
  MetricsCollector m;
  m.on_clock(at(0));
  PassRecord prefill = decode(0, 10, 110, 110);
  prefill.shape.extend_sequences = prefill.batch = 1;
  m.on_pass(prefill);
  m.on_pass(decode(1, 60, 160, 160));  // issued at 60, but the GPU is free at 110 only
  play(m, 0, 0, 0, {110, 200});
  const auto r = m.summary({});
  CHECK(r.time_in_prefill == Approx(0.5));  // 100 of 200 ms
  CHECK(r.gpu_busy == Approx(0.75));        // 10 to 160
}

TEST_CASE("every metric has a path under which it is found, once") {
  const auto names = metric_names();
  const RunMetrics m;
  for (const auto& name : names) {
    CHECK(m.find(name).has_value());
    CHECK(std::count(names.begin(), names.end(), name) == 1);
  }
  for (const char* name : {"output_throughput", "ttft_ms.mean", "e2e_ms.p99", "duration_s",
                           "server_decode_throughput_peak"})
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
