// SGLang v0.5.9 (2026-02-23): srt/managers/scheduler.py, schedule_policy.py, schedule_batch.py,
// environ.py. Policy fcfs, its default.
// Leaves out: the radix cache (finished memory counts as free, as evictable memory does there),
// other policies and priorities, mixed chunk, DP attention, speculation, the exact lookahead that
// ignore_eos without radix cache takes, prefill_max_requests.

#include "sim/engine/sglang_scheduler.hpp"

#include <algorithm>

namespace {

std::int64_t ceil_to(std::int64_t tokens, int page) { return pages_for(tokens, page) * page; }

/// PrefillAdder: what one prefill pass may still take.
class Admission {
 public:
  enum class Answer { go_on, no_tokens, other };

  Admission(const SchedulerView& view, const SglangOptions& options, double new_token_ratio)
      : page_(view.page_size),
        clip_(options.clip_max_new_tokens),
        cuts_(options.chunked_prefill_size > 0),
        input_left_(options.max_prefill_tokens),
        chunk_left_(options.chunked_prefill_size),
        total_left_(view.free_tokens()) {
    for (const RequestView* r : view.running)
      total_left_ -= static_cast<std::int64_t>(
          static_cast<double>(std::min(r->max_new - r->generated, clip_)) * new_token_ratio);
  }

  /// The next chunk of a request that was cut before; it goes first. False when there is no room
  /// for it.
  bool add_cut(const RequestView& r) {
    std::int64_t length = r.to_prefill() - r.prefilled;
    const std::int64_t most = std::min(cuts_ ? chunk_left_ : length, total_left_);
    const bool cut = length > most;
    if (cut) length = std::max<std::int64_t>(most / page_ * page_, 0);
    if (length == 0) return false;
    take(r, length, cut ? 0 : std::min(r.max_new, clip_));
    return true;
  }

  /// A request from the queue.
  Answer add(const RequestView& r) {
    const std::int64_t length = r.to_prefill() - r.prefilled;
    const std::int64_t new_tokens = std::min(r.max_new - r.generated, clip_);
    if (length + new_tokens >= total_left_) return Answer::no_tokens;
    const std::int64_t charged = ceil_to(length, page_);
    if (charged >= input_left_ && !chunks_.empty()) return Answer::other;
    if (!cuts_ || charged <= chunk_left_) {
      take(r, length, std::min(r.max_new, clip_));
    } else {
      const std::int64_t part = chunk_left_ / page_ * page_;
      if (part <= 0) return Answer::other;
      take(r, part, 0);  // a cut request reserves no output yet
    }
    return state();
  }

  std::vector<Chunk> chunks() && { return std::move(chunks_); }
  std::size_t size() const { return chunks_.size(); }

 private:
  void take(const RequestView& r, std::int64_t length, std::int64_t reserved) {
    const std::int64_t charged = ceil_to(length, page_);
    total_left_ -= charged + reserved;
    input_left_ -= charged;
    chunk_left_ -= charged;
    chunks_.push_back({r.id, length});
  }
  Answer state() const {
    if (total_left_ <= 0) return Answer::no_tokens;
    if (input_left_ <= 0 || (cuts_ && chunk_left_ <= 0)) return Answer::other;
    return Answer::go_on;
  }

  int page_;
  std::int64_t clip_;
  bool cuts_;
  std::int64_t input_left_, chunk_left_, total_left_;
  std::vector<Chunk> chunks_;
};

}  // namespace

SglangScheduler::SglangScheduler(SglangOptions options)
    : options_(options),
      ratio_init_(std::min(0.7 * options.schedule_conservativeness, 1.0)),
      ratio_min_(ratio_init_ * 0.14),
      ratio_decay_((ratio_init_ - ratio_min_) / 600),
      new_token_ratio_(ratio_init_) {}

void SglangScheduler::on_finish(const RequestView& request) {
  // Without overlap a request that ends with its prefill is dropped before it joins the batch.
  const bool never_decoded = request.kv_tokens == request.prefilled;
  if (options_.overlap || !never_decoded) ++finished_unfiltered_;
}

BatchPlan SglangScheduler::next_batch(const SchedulerView& view) {
  if (BatchPlan plan = prefill(view); !plan.idle()) return plan;
  return decode(view);
}

BatchPlan SglangScheduler::prefill(const SchedulerView& view) {
  if ((batch_is_full_ || view.waiting.empty()) && !view.prefilling) return {};
  const auto running = static_cast<std::int64_t>(view.running.size()) + finished_unfiltered_;
  const std::int64_t slots = options_.max_running_requests - running;
  if (slots <= 0 && !view.prefilling) {
    batch_is_full_ = true;
    return {};
  }
  Admission admission(view, options_, new_token_ratio_);
  // Nobody overtakes the request that was cut: it holds a slot already.
  if (view.prefilling && !admission.add_cut(*view.prefilling)) return {};
  for (const RequestView* r : view.waiting) {
    if (static_cast<std::int64_t>(admission.size()) >= slots) {
      batch_is_full_ = true;
      break;
    }
    const auto answer = admission.add(*r);
    if (answer == Admission::Answer::go_on) continue;
    // The first refusal ends the pass: nobody is skipped.
    if (answer == Admission::Answer::no_tokens) batch_is_full_ = true;
    break;
  }
  BatchPlan plan;
  plan.extend = std::move(admission).chunks();
  return plan;
}

BatchPlan SglangScheduler::decode(const SchedulerView& view) {
  // Filtering the batch: only a smaller one may take new requests again.
  if (finished_unfiltered_ > 0) batch_is_full_ = false;
  finished_unfiltered_ = 0;
  BatchPlan plan;
  if (view.running.empty()) {
    batch_is_full_ = false;
    return plan;
  }

  // Who needs a new page for the next token; the most generated stay, then the shortest prompts.
  std::vector<const RequestView*> stay = view.running;
  const auto pages_needed = [&] {
    std::int64_t n = 0;
    for (const RequestView* r : stay) n += r->kv_tokens % view.page_size == 0;
    return n;
  };
  std::int64_t free = view.free_pages;
  if (pages_needed() > free) {
    std::stable_sort(stay.begin(), stay.end(), [](const RequestView* a, const RequestView* b) {
      if (a->generated != b->generated) return a->generated > b->generated;
      return a->prompt < b->prompt;
    });
    do {
      free += pages_for(stay.back()->kv_tokens, view.page_size);
      plan.retract.push_back(stay.back()->id);
      stay.pop_back();
      // One always stays, unless a half-prefilled request holds the pages it needs.
    } while (stay.size() > (view.prefilling ? 0 : 1) && pages_needed() > free);
    // What those who stay have made, against what they may still make.
    double generated = 0, may_make = 0;
    for (const RequestView* r : stay) {
      generated += static_cast<double>(r->generated);
      may_make += static_cast<double>(r->max_new);
    }
    new_token_ratio_ =
        std::min(1.0, (generated + 20.0 * static_cast<double>(stay.size())) / (may_make + 1));
    batch_is_full_ = false;
  } else {
    new_token_ratio_ = std::max(new_token_ratio_ - ratio_decay_, ratio_min_);
  }
  plan.decode = !stay.empty();
  return plan;
}
