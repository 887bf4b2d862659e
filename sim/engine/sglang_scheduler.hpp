#pragma once

#include <cstdint>
#include <optional>

#include "sim/engine/scheduler.hpp"

/// The options of SGLang's scheduler, named as its flags.
struct SglangOptions {
  int max_running_requests = 2048;
  std::int64_t max_prefill_tokens = 16384;
  std::int64_t chunked_prefill_size = 8192;  // <= 0: prompts are never cut
  double schedule_conservativeness = 1.0;
  std::int64_t clip_max_new_tokens = 4096;  // SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION
  bool overlap = true;                      // the loop takes results one pass late
};

/// SGLang 0.5.9's rules: prefill first and alone, three admission budgets, sticky batch_is_full,
/// reservation of future output by a decaying ratio, retraction of the youngest.
class SglangScheduler final : public Scheduler {
 public:
  explicit SglangScheduler(SglangOptions options);
  BatchPlan next_batch(const SchedulerView& view) override;
  void on_finish(const RequestView& request) override;
  void on_idle() override { new_token_ratio_ = ratio_init_; }

  double new_token_ratio() const { return new_token_ratio_; }
  bool batch_is_full() const { return batch_is_full_; }

 private:
  BatchPlan prefill(const SchedulerView& view);
  BatchPlan decode(const SchedulerView& view);

  SglangOptions options_;
  double ratio_init_, ratio_min_, ratio_decay_, new_token_ratio_;
  bool batch_is_full_ = false;
  // Finished requests stay in SGLang's batch until the next decode is chosen, and count as running.
  int finished_unfiltered_ = 0;
};
