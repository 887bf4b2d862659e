#pragma once

#include <cstdint>

#include "sim/engine/scheduler.hpp"

/// The options of vLLM's scheduler, named as its flags.
struct VllmOptions {
  std::int64_t max_num_batched_tokens = 8192;
  int max_num_seqs = 1024;
  std::int64_t long_prefill_token_threshold = 0;  // 0: off
  bool enable_chunked_prefill = true;
  bool scheduler_reserve_full_isl = true;  // a new request needs room for its whole prompt
};

/// vLLM V1's one rule: a budget of tokens, the running first, then the queue.
class VllmScheduler final : public Scheduler {
 public:
  explicit VllmScheduler(VllmOptions options) : options_(options) {}
  void next_batch(const SchedulerView& view, BatchPlan& plan) override;

 private:
  bool preempt(const SchedulerView& view, BatchPlan& plan);
  VllmOptions options_;
};
