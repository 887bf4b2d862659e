#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/engine/server.hpp"
#include "sim/metrics/gaps.hpp"

/// Mean and percentiles of one latency, in milliseconds.
struct LatencySummary {
  double mean = 0, p50 = 0, p90 = 0, p99 = 0, std_dev = 0;
};

/// The outcome of one run, by the load generator's definitions (docs/metrics.md).
struct RunMetrics {
  bool overrun = false;   // the clock ran over and the run was given up
  double duration_s = 0;  // from the clock's start to the last token
  std::int64_t completed = 0, rejected = 0;
  std::int64_t input_tokens = 0, output_tokens = 0;
  double request_throughput = 0, input_throughput = 0, output_throughput = 0, total_throughput = 0;
  double prefill_throughput = 0;  // of a cold prefill: prompt tokens / time
  LatencySummary ttft_ms, tpot_ms, itl_ms, e2e_ms;
  double concurrency = 0;     // sum of latencies / duration
  double in_flight_mean = 0;  // counted over time, independently of the latencies
  std::int64_t in_flight_max = 0;
  std::int64_t batch_max = 0;
  double kv_use_max = 0;  // share of the pool
  std::int64_t retractions = 0, passes = 0, decode_passes = 0;
  /// The server's own "gen throughput" lines: 40 decode passes each, their maximum.
  double server_decode_throughput_peak = 0;
  double time_in_prefill = 0;  // share of the duration in which the GPU ran passes with prompts
  double gpu_busy = 0;         // share in which it ran anything
  double prefix_hit_rate = 0;  // share of prompt tokens found in the prefix cache
  PassRecord busiest;          // the decode pass with the largest batch (the last such)
  ServerCounts counts;

  /// Every metric by its path ("ttft_ms.p99"), in a fixed order.
  std::vector<std::pair<std::string, double>> all() const;
  std::optional<double> find(const std::string& path) const;
};

std::vector<std::string> metric_names();

/// One request that ended, as a load generator's details have it.
struct RequestRecord {
  std::int64_t index = 0, input = 0, output = 0;
  TimePoint sent, queued, first, last;
  std::vector<Duration> gaps;  // between its tokens; only where Keep::gaps asks for them
  bool rejected = false;       // turned away: no output; its last moment is the client's answer
};

/// What a collector keeps of each request that ended.
enum class Keep { latencies, records, gaps };

/// Collects a run: subscribe it to the server and to the client. Holds 24 bytes for each finished
/// request; Keep::records holds a record of each as well, Keep::gaps eight bytes for each token,
/// which only a server that announces tokens (the reference) tells.
class MetricsCollector final : public Observer {
 public:
  /// `decode_log_interval`: decode passes per log line of the server; 0: no such lines.
  explicit MetricsCollector(int decode_log_interval = 40, Keep keep = Keep::latencies);

  /// Makes room for so many; there may be more or fewer.
  void expect(std::int64_t requests);

  void on_clock(TimePoint at) override;
  void on_sent(const Request& request) override;
  void on_gaps(const GapRun& run) override;
  void on_finish(const Request& request) override;
  void on_reject(const Request& request, TimePoint at_client) override;
  void on_passes(const PassRun& run) override;
  void on_token(const Request& request, TimePoint at_client) override;

  RunMetrics summary(const ServerCounts& counts) const;
  const std::vector<RequestRecord>& requests() const { return requests_; }

 private:
  /// Requests in flight over time, from the moments at which one more and one less is; both come
  /// in order, ends ahead of the clock.
  class InFlight {
   public:
    void start(TimePoint at) { *this = {}, before_ = at; }
    void begins(TimePoint at);
    void ends(TimePoint at) { ends_.push_back(at); }
    void close();
    double area_s() const { return area_s_; }
    std::int64_t most() const { return most_; }

   private:
    void until(TimePoint at);
    std::deque<TimePoint> ends_;
    TimePoint before_;
    double area_s_ = 0;
    std::int64_t now_ = 0, most_ = 0;
  };
  void log_windows(const PassRun& run);

  int decode_log_interval_;
  Keep keep_;
  TimePoint clock_;
  bool measuring_ = false;
  std::vector<double> ttft_ms_, tpot_ms_, e2e_ms_;
  std::vector<RequestRecord> requests_;
  struct Stream {
    TimePoint last;
    std::vector<Duration> gaps;
  };
  std::map<std::int64_t, Stream> streams_;  // of requests under way, by index
  GapHistogram itl_;
  InFlight in_flight_;
  double latency_sum_s_ = 0;
  std::int64_t completed_ = 0, input_tokens_ = 0, output_tokens_ = 0, cached_tokens_ = 0;
  std::int64_t rejected_ = 0;
  TimePoint end_;
  PassRecord busiest_;
  std::int64_t batch_max_ = 0;
  Duration prefill_time_, busy_time_;
  std::int64_t window_passes_ = 0, window_tokens_ = 0;
  TimePoint window_start_;
  double window_best_ = 0;
  std::int64_t pages_free_min_ = -1;
};
