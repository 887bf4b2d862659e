#pragma once

#include <cstdint>

#include "sim/base/random.hpp"
#include "sim/engine/scheduler.hpp"

/// In which order SGLang's queue is looked at.
enum class SglangPolicy {
  fcfs,    // as they came
  lpm,     // longest cached prefix first; as they came when more than 128 wait
  lof,     // longest output (limit) first
  random,  // shuffled at every look
};

/// The options of SGLang's scheduler, named as its flags.
struct SglangOptions {
  int max_running_requests = 2048;
  std::int64_t max_prefill_tokens = 16384;
  std::int64_t chunked_prefill_size = 8192;  // <= 0: prompts are never cut
  int prefill_max_requests = 0;              // 0: no limit of its own
  double schedule_conservativeness = 1.0;
  std::int64_t clip_max_new_tokens = 4096;  // SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION
  SglangPolicy policy = SglangPolicy::fcfs;
  bool mixed_chunk = false;  // decodes ride in prefill passes
  bool radix_cache = false;
  bool overlap = true;  // the loop takes results one pass late
};

/// SGLang 0.5.9's rules: prefill first and alone, three admission budgets, sticky batch_is_full,
/// reservation of future output by a decaying ratio, retraction of the youngest.
class SglangScheduler final : public Scheduler {
 public:
  explicit SglangScheduler(SglangOptions options);
  void next_batch(const SchedulerView& view, BatchPlan& plan) override;
  void on_repeat() override;
  void on_finish(const RequestView& request) override;
  void on_idle(const SchedulerView& view) override { set_ratio(ratio_init_, view); }

  double new_token_ratio(std::int64_t decode_passes) const;
  bool batch_is_full() const { return batch_is_full_; }

 private:
  void prefill(const SchedulerView& view, BatchPlan& plan);
  void decode(const SchedulerView& view, BatchPlan& plan);
  /// The waiting requests in the order of the policy; null: as they stand.
  const std::vector<const RequestView*>* ordered(const SchedulerView& view);
  void set_ratio(double ratio, const SchedulerView& view) {
    ratio_at_ = ratio;
    ratio_since_ = view.decode_passes;
  }

  SglangOptions options_;
  double ratio_init_, ratio_min_, ratio_decay_;
  // The ratio falls with every decode pass since it was last set.
  double ratio_at_;
  std::int64_t ratio_since_ = 0;
  bool batch_is_full_ = false;
  // Finished requests stay in SGLang's batch until the next decode is chosen, and count as running.
  std::int64_t finished_unfiltered_ = 0;
  RandomStream random_;
  std::vector<const RequestView*> order_;
  std::vector<std::pair<std::int64_t, std::int64_t>> keys_;
};
