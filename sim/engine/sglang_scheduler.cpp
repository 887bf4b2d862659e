// SGLang v0.5.9 (2026-02-23): srt/managers/scheduler.py, schedule_policy.py, schedule_batch.py,
// environ.py. Leaves out: priorities, policies dfs-weight and routing-key, DP attention,
// speculation, the exact lookahead that ignore_eos without radix cache takes, the prefill delayer.

#include "sim/engine/sglang_scheduler.hpp"

#include <algorithm>
#include <numeric>

namespace {

std::int64_t ceil_to(std::int64_t tokens, PageSize page) { return pages_for(tokens, page) * page; }

// Tokens that two prompts share from the beginning.
std::int64_t common_prefix(const Content& a, const Content& b) {
  std::int64_t shared = 0;
  auto x = a.segments().begin(), y = b.segments().begin();
  for (; x != a.segments().end() && y != b.segments().end(); ++x, ++y) {
    if (x->stream != y->stream || x->offset != y->offset) break;
    shared += std::min(x->tokens, y->tokens);
    if (x->tokens != y->tokens) break;
  }
  return shared;
}

/// PrefillAdder: what one prefill pass may still take.
class Admission {
 public:
  enum class Answer { go_on, no_tokens, other };

  Admission(const SchedulerView& view, const SglangOptions& options, double new_token_ratio,
            std::int64_t riding, BatchPlan& plan)
      : kv_(view.kv),
        plan_(plan),
        page_(view.page_size),
        clip_(options.clip_max_new_tokens),
        cuts_(options.chunked_prefill_size > 0),
        input_left_(options.max_prefill_tokens - riding),
        chunk_left_(options.chunked_prefill_size - riding),
        reserved_(static_cast<double>(view.reserved_tokens) * new_token_ratio +
                  static_cast<double>(riding)) {}

  /// The next chunk of a request that was cut before; it goes first. False when there is no room
  /// for it.
  bool add_cut(const RequestView& r) {
    std::int64_t length = r.to_prefill() - r.prefilled;
    const std::int64_t most =
        std::min(cuts_ ? chunk_left_ : length, static_cast<std::int64_t>(total_left()));
    const bool cut = length > most;
    if (cut) length = whole_pages(most);
    if (length == 0) return false;
    take(r, length, cut ? 0 : std::min(r.max_new, clip_));
    cuts_one_ = cut;
    return true;
  }

  /// A request from the queue.
  Answer add(const RequestView& r) {
    const std::int64_t cached = kv_.hold(r);  // from here on locked: less can be evicted
    const std::int64_t length = r.to_prefill() - cached;
    const std::int64_t new_tokens = std::min(r.max_new - r.generated, clip_);
    if (static_cast<double>(length + new_tokens) >= total_left())
      return refuse(r, Answer::no_tokens);
    const std::int64_t charged = ceil_to(length, page_);
    if (charged >= input_left_ && !plan_.extend.empty()) return refuse(r, Answer::other);
    if (!cuts_ || charged <= chunk_left_) {
      take(r, length, std::min(r.max_new, clip_));
    } else {
      const std::int64_t part = whole_pages(chunk_left_);
      if (part <= 0) return refuse(r, Answer::other);
      take(r, part, 0);  // a cut request reserves no output yet
      cuts_one_ = true;
    }
    return state();
  }

  /// Whether a request is cut in this pass.
  bool cuts_one() const { return cuts_one_; }

 private:
  double total_left() const { return static_cast<double>(kv_.available() * page_) - reserved_; }
  Answer refuse(const RequestView& r, Answer why) {
    kv_.let_go(r);
    return why;
  }
  void take(const RequestView& r, std::int64_t length, std::int64_t reserved) {
    const std::int64_t charged = ceil_to(length, page_);
    kv_.admit(r, length);
    reserved_ += static_cast<double>(reserved);
    input_left_ -= charged;
    chunk_left_ -= charged;
    plan_.extend.push_back({r.id, length});
  }
  std::int64_t whole_pages(std::int64_t tokens) const {
    return std::max<std::int64_t>(tokens, 0) / page_ * page_;
  }
  Answer state() const {
    if (total_left() <= 0) return Answer::no_tokens;
    if (input_left_ <= 0 || (cuts_ && chunk_left_ <= 0)) return Answer::other;
    return Answer::go_on;
  }

  KvLedger& kv_;
  BatchPlan& plan_;
  PageSize page_;
  std::int64_t clip_;
  bool cuts_, cuts_one_ = false;
  std::int64_t input_left_, chunk_left_;
  double reserved_;
};

}  // namespace

SglangScheduler::SglangScheduler(SglangOptions options)
    : options_(options),
      ratio_init_(std::min(0.7 * options.schedule_conservativeness, 1.0)),
      ratio_min_(ratio_init_ * 0.14),
      ratio_decay_((ratio_init_ - ratio_min_) / 600),
      ratio_at_(ratio_init_),
      random_(0, "sglang schedule_policy random") {}

double SglangScheduler::new_token_ratio(std::int64_t decode_passes) const {
  if (ratio_at_ <= ratio_min_) return ratio_min_;
  return std::max(ratio_at_ - ratio_decay_ * static_cast<double>(decode_passes - ratio_since_),
                  ratio_min_);
}

void SglangScheduler::on_finish(const RequestView& request) {
  // Without overlap a request that ends with its prefill is dropped before it joins the batch.
  const bool never_decoded = request.kv.tokens == request.prefilled;
  if (options_.overlap || !never_decoded) ++finished_unfiltered_;
}

// What decode() would do besides: those who finished leave the batch.
void SglangScheduler::on_repeat() { finished_unfiltered_ = 0; }

void SglangScheduler::next_batch(const SchedulerView& view, BatchPlan& plan) {
  prefill(view, plan);
  if (plan.idle()) decode(view, plan);
}

const std::vector<const RequestView*>* SglangScheduler::ordered(const SchedulerView& view) {
  // Matching a long queue would take longer than it saves.
  const bool by_prefix =
      options_.policy == SglangPolicy::lpm && options_.radix_cache && view.waiting.size() <= 128;
  if (options_.policy == SglangPolicy::fcfs || (options_.policy == SglangPolicy::lpm && !by_prefix))
    return nullptr;
  order_.assign(view.waiting.begin(), view.waiting.end());
  if (options_.policy == SglangPolicy::random) {
    for (std::size_t i = order_.size(); i > 1; --i)
      std::swap(order_[i - 1], order_[random_.next() % i]);
    return &order_;
  }
  if (options_.policy == SglangPolicy::lof) {
    std::stable_sort(order_.begin(), order_.end(), [](const RequestView* a, const RequestView* b) {
      return a->max_new > b->max_new;
    });
    return &order_;
  }
  // Of those that share a prefix which nobody has computed yet, the first goes now and the others
  // when they can hit it (IN_BATCH_PREFIX_CACHING thresholds, 32 tokens each).
  constexpr std::int64_t hardly_cached = 32, worth_waiting = 32;
  std::vector<std::pair<std::int64_t, const RequestView*>> keyed;
  std::vector<const RequestView*> firsts;
  for (const RequestView* r : order_) {
    std::int64_t cached = view.kv.cached(*r);
    if (cached <= hardly_cached) {
      const bool later = std::any_of(firsts.begin(), firsts.end(), [&](const RequestView* f) {
        return common_prefix(f->content, r->content) >= worth_waiting;
      });
      if (later)
        cached = -1;
      else
        firsts.push_back(r);
    }
    keyed.emplace_back(cached, r);
  }
  std::stable_sort(keyed.begin(), keyed.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (std::size_t i = 0; i < keyed.size(); ++i) order_[i] = keyed[i].second;
  return &order_;
}

void SglangScheduler::prefill(const SchedulerView& view, BatchPlan& plan) {
  if ((batch_is_full_ || view.waiting.empty()) && !view.prefilling) return;
  const std::int64_t running = view.running + finished_unfiltered_;
  const std::int64_t slots = options_.max_running_requests - running;
  if (slots <= 0 && !view.prefilling) {
    batch_is_full_ = true;
    return;
  }
  const std::int64_t riding = options_.mixed_chunk ? running : 0;
  Admission admission(view, options_, new_token_ratio(view.decode_passes), riding, plan);
  // Nobody overtakes the request that was cut: it holds a slot already.
  if (view.prefilling && !admission.add_cut(*view.prefilling)) return;
  const auto admit = [&](const RequestView& r) {
    if (static_cast<std::int64_t>(plan.extend.size()) >= slots) {
      batch_is_full_ = true;
      return false;
    }
    if (options_.prefill_max_requests > 0 &&
        static_cast<int>(plan.extend.size()) >= options_.prefill_max_requests)
      return false;
    const auto answer = admission.add(r);
    // The first refusal ends the pass: nobody is skipped.
    if (answer == Admission::Answer::no_tokens) batch_is_full_ = true;
    return answer == Admission::Answer::go_on;
  };
  const auto admit_all = [&](const auto& queue) {
    return std::all_of(queue.begin(), queue.end(), [&](const RequestView* r) { return admit(*r); });
  };
  const auto* order = ordered(view);
  // Nobody waits any more: until somebody arrives all that comes is decoding.
  if ((order ? admit_all(*order) : admit_all(view.waiting)) && !admission.cuts_one() &&
      !batch_is_full_)
    plan.hold = Hold{.on_leave = false};
  if (options_.mixed_chunk && !plan.extend.empty() && view.decoding > 0) {
    finished_unfiltered_ = 0;
    // Riders need their pages too; without them the prompts go alone.
    if (view.decode_pages <= view.kv.available()) {
      view.kv.grow_running();
      plan.decode = true;
    }
  }
}

void SglangScheduler::decode(const SchedulerView& view, BatchPlan& plan) {
  // Filtering the batch: only a smaller one may take new requests again.
  if (finished_unfiltered_ > 0) batch_is_full_ = false;
  finished_unfiltered_ = 0;
  if (view.running == 0) {
    batch_is_full_ = false;
    return;
  }
  if (view.decode_pages > view.kv.available()) {
    // The most generated stay, then the shortest prompts.
    std::vector<const RequestView*> stay;
    view.kv.each_running([&](const RequestView& r) { stay.push_back(&r); });
    std::stable_sort(stay.begin(), stay.end(), [](const RequestView* a, const RequestView* b) {
      if (a->generated != b->generated) return a->generated > b->generated;
      return a->prompt < b->prompt;
    });
    std::int64_t needed = view.decode_pages;
    do {
      const RequestView& r = *stay.back();
      needed -= r.kv.tokens % view.page_size == 0;
      view.kv.retract(r);
      ++plan.retracted;
      stay.pop_back();
      // One always stays, unless a half-prefilled request holds the pages it needs.
    } while (stay.size() > (view.prefilling ? 0 : 1) && needed > view.kv.available());
    // What those who stay have made, against what they may still make.
    double generated = 0, may_make = 0;
    for (const RequestView* r : stay) {
      generated += static_cast<double>(r->generated);
      may_make += static_cast<double>(r->max_new);
    }
    set_ratio(std::min(1.0, (generated + 20.0 * static_cast<double>(stay.size())) / (may_make + 1)),
              view);
    // The pass chosen now does not make it fall.
    ++ratio_since_;
    batch_is_full_ = false;
    if (stay.empty()) return;
  }
  view.kv.grow_running();
  plan.decode = true;
  // The cut request asks again; a queue that may be looked at is looked at.
  if (!view.prefilling && (batch_is_full_ || view.waiting.empty()) && plan.retracted == 0)
    plan.hold = Hold{.on_arrival = !batch_is_full_, .on_leave = batch_is_full_};
}
