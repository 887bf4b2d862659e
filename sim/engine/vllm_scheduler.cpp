// vLLM V1 (main of 2026-05-29): v1/core/sched/scheduler.py. Every step has a budget of tokens:
// those running come first (a decode takes one, a half-prefilled prompt its next chunk), then the
// queue in order of arrival while nobody was preempted. When a running request finds no block, the
// last of the running is preempted, itself if need be, and goes to the head of the queue.
// Leaves out: priorities, encoder inputs, several half-prefilled prompts at once
// (max_num_partial_prefills), speculation, KV connectors.

#include "sim/engine/vllm_scheduler.hpp"

#include <algorithm>
#include <vector>

namespace {

// Blocks that the next `tokens` tokens behind those of `r` need.
std::int64_t blocks_for(const RequestView& r, std::int64_t tokens, PageSize block) {
  return pages_for(r.kv.tokens + tokens, block) - r.kv.pages(block);
}

}  // namespace

// The slow way, one running request after the other: who finds no block sends the last one away.
bool VllmScheduler::preempt(const SchedulerView& view, BatchPlan& plan) {
  std::vector<const RequestView*> running;
  view.kv.each_running([&](const RequestView& r) { running.push_back(&r); });
  std::size_t last = running.size();  // [0, last) are still running
  bool half = view.prefilling != nullptr;
  std::int64_t needed = 0;
  for (std::size_t i = 0; i < last; ++i) {
    needed += running[i]->decodes && running[i]->kv.tokens % view.page_size == 0;
    while (needed > view.kv.available()) {
      ++plan.retracted;
      if (half) {
        view.kv.retract(*view.prefilling);
        half = false;
        continue;
      }
      view.kv.retract(*running[--last]);
      if (last == i) return half;  // itself
    }
  }
  return half;
}

void VllmScheduler::next_batch(const SchedulerView& view, BatchPlan& plan) {
  std::int64_t budget = options_.max_num_batched_tokens;
  std::int64_t decoding = view.decoding;
  bool half = view.prefilling != nullptr;
  if (view.decode_pages > view.kv.available()) {
    half = preempt(view, plan);
    decoding = view.kv.decoding();
  }
  if (decoding > 0) {
    view.kv.grow_running();
    plan.decode = true;
    budget -= decoding;
  }
  std::int64_t seats = options_.max_num_seqs - view.running - half;
  const std::int64_t cut = options_.long_prefill_token_threshold;
  if (half) {
    const RequestView& r = *view.prefilling;
    std::int64_t chunk = r.to_prefill() - r.prefilled;
    if (cut > 0) chunk = std::min(chunk, cut);
    chunk = std::min(chunk, budget);
    if (chunk > 0 && blocks_for(r, chunk, view.page_size) > view.kv.available()) {
      view.kv.retract(r);  // the last of the running is itself
      ++plan.retracted;
    } else if (chunk > 0) {
      const bool rest = r.prefilled + chunk < r.to_prefill();
      view.kv.admit(r, chunk);
      plan.extend.push_back({r.id, chunk});
      budget -= chunk;
      if (rest) budget = 0;  // one half-prefilled prompt at a time
    } else {
      budget = 0;
    }
  }
  bool refused = false;
  if (plan.retracted == 0) {
    for (const RequestView* r : view.waiting) {
      if (budget <= 0 || seats <= 0) {
        refused = true;
        break;
      }
      const std::int64_t cached = view.kv.hold(*r);
      std::int64_t chunk = r->to_prefill() - cached;
      if (cut > 0) chunk = std::min(chunk, cut);
      const bool whole = chunk <= budget;
      chunk = std::min(chunk, budget);
      const std::int64_t room =
          options_.scheduler_reserve_full_isl ? r->to_prefill() - cached : chunk;
      if ((!whole && !options_.enable_chunked_prefill) ||
          blocks_for(*r, room, view.page_size) > view.kv.available()) {
        view.kv.let_go(*r);
        refused = true;
        break;
      }
      const bool rest = cached + chunk < r->to_prefill();
      view.kv.admit(*r, chunk);
      plan.extend.push_back({r->id, chunk});
      budget -= chunk;
      --seats;
      if (rest) {
        refused = true;
        break;
      }
    }
  }
  if (plan.idle() || plan.retracted > 0 || half) return;
  // Nobody waits any more: all that comes is decoding. Or else somebody is refused for want of
  // blocks or a seat: so it stays until somebody leaves.
  if (!refused || (plan.decode && plan.extend.empty()))
    plan.hold = Hold{.on_arrival = !refused, .on_leave = refused};
}
