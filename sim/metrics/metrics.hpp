#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/workload/client.hpp"

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
  double time_in_prefill = 0;  // share of the duration in which the GPU ran extend passes
  double gpu_busy = 0;         // share in which it ran anything
  PassRecord busiest;          // the decode pass with the largest batch (the last such)
  ServerCounts counts;

  /// Every metric by its path ("ttft_ms.p99"), in a fixed order.
  std::vector<std::pair<std::string, double>> all() const;
  std::optional<double> find(const std::string& path) const;
};

std::vector<std::string> metric_names();

/// Collects a run: subscribe it to the server and hand it to the client.
class MetricsCollector final : public Observer, public Client::Listener {
 public:
  /// `decode_log_interval`: decode passes per log line of the server.
  explicit MetricsCollector(int decode_log_interval = 40);

  void on_clock(TimePoint at) override;
  void on_send(std::size_t index, RequestId id, TimePoint at) override;
  void on_tokens(const Request& request, int new_tokens, TimePoint at_client) override;
  void on_finish(const Request& request, TimePoint at_client) override;
  void on_reject(const Request& request, TimePoint at_client) override;
  void on_pass(const PassRecord& pass) override;

  RunMetrics summary(const ServerCounts& counts) const;

 private:
  struct Record {
    std::size_t index = 0;
    TimePoint sent, first, last;
    std::int64_t tokens = 0, input = 0;
    bool finished = false;
  };
  int decode_log_interval_;
  TimePoint clock_;
  bool measuring_ = false;
  std::map<RequestId, Record> records_;
  std::vector<double> itl_ms_;
  std::int64_t rejected_ = 0;
  TimePoint end_;
  PassRecord busiest_;
  std::int64_t batch_max_ = 0;
  Duration prefill_time_, busy_time_;
  TimePoint gpu_last_;
  std::int64_t window_passes_ = 0, window_tokens_ = 0;
  TimePoint window_start_;
  double window_best_ = 0;
  std::int64_t pages_free_min_ = -1;
};
