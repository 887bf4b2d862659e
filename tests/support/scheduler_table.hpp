#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/engine/scheduler.hpp"

/// A scheduler alone: it is shown a table of requests, which a test moves about by hand, and a KV
/// ledger that counts pages.
namespace table {

inline RequestView queued(RequestId id, std::int64_t prompt, std::int64_t max_new) {
  RequestView r;
  r.id = id;
  r.prompt = prompt;
  r.max_new = max_new;
  return r;
}

inline RequestView decoding(RequestId id, std::int64_t prompt, std::int64_t max_new,
                            std::int64_t generated) {
  RequestView r = queued(id, prompt, max_new);
  r.generated = generated;
  r.prefilled = prompt;
  r.kv.tokens = prompt + generated - 1;  // the last token has no KV yet
  return r;
}

/// Half prefilled: `done` tokens of its prompt have KV.
inline RequestView half(RequestId id, std::int64_t prompt, std::int64_t max_new,
                        std::int64_t done) {
  RequestView r = queued(id, prompt, max_new);
  r.prefilled = r.kv.tokens = done;
  return r;
}

/// A plan, and what the scheduler did to the ledger on the way.
struct Plan : BatchPlan {
  std::vector<RequestId> gone;  // retracted, in order
  std::int64_t free_pages = 0;  // that are left

  std::vector<RequestId> ids() const {
    std::vector<RequestId> out;
    for (const auto& c : extend) out.push_back(c.id);
    return out;
  }
  std::vector<std::int64_t> sizes() const {
    std::vector<std::int64_t> out;
    for (const auto& c : extend) out.push_back(c.tokens);
    return out;
  }
};

using Ids = std::vector<RequestId>;
using Sizes = std::vector<std::int64_t>;

struct Table {
  int page_size = 1;
  std::int64_t free_pages = 1'000'000, total_pages = 1'000'000;
  std::int64_t clip = 4096;  // of output tokens that count as reserved for one request
  std::vector<RequestView> waiting, running;
  std::vector<RequestView> prefilling;       // one at most
  std::map<RequestId, std::int64_t> cached;  // tokens at the beginning of waiting requests
  std::int64_t decode_passes = 0;            // counts the plans that only decode
  bool may_overdraw = false;                 // more pages than there are

  Plan ask(Scheduler& scheduler) {
    Ledger ledger(*this);
    Plan plan;
    scheduler.next_batch(view(ledger), plan);
    CHECK(ledger.held_.empty());
    CHECK(ledger.grown_ == plan.decode);
    CHECK(plan.retracted == static_cast<std::int64_t>(ledger.gone_.size()));
    CHECK(plan.ids() == ledger.admitted_);
    if (!may_overdraw) CHECK(ledger.free_ >= 0);
    plan.gone = ledger.gone_;
    plan.free_pages = ledger.free_;
    decode_passes += plan.decode && plan.extend.empty();
    return plan;
  }
  void idle(Scheduler& scheduler) {
    Ledger ledger(*this);
    scheduler.on_idle(view(ledger));
  }

 private:
  class Ledger final : public KvLedger {
   public:
    explicit Ledger(const Table& t) : t_(t), free_(t.free_pages), waiting_(t.waiting) {
      for (RequestView& r : waiting_) queue_.push_back(&r);
    }
    std::int64_t available() const override { return free_; }
    std::int64_t cached(const RequestView& r) override {
      const auto it = t_.cached.find(r.id);
      return it == t_.cached.end() ? 0 : std::min(it->second, r.to_prefill() - 1);
    }
    std::int64_t hold(const RequestView& r) override {
      CHECK(held_.insert(r.id).second);
      RequestView& mine = waiting(r);
      return mine.prefilled = mine.kv.tokens = mine.kv.shared = cached(r);
    }
    void let_go(const RequestView& r) override {
      CHECK(held_.erase(r.id) == 1);
      waiting(r).kv = {};
      waiting(r).prefilled = 0;
    }
    void admit(const RequestView& r, std::int64_t tokens) override {
      held_.erase(r.id);
      CHECK(tokens > 0);
      CHECK(r.kv.tokens + tokens <= r.to_prefill());
      free_ -= pages_for(r.kv.tokens + tokens, t_.page_size) - r.kv.pages(t_.page_size);
      admitted_.push_back(r.id);
    }
    std::int64_t decoding() const override {
      return std::count_if(t_.running.begin(), t_.running.end(),
                           [this](const RequestView& r) { return decodes(r); });
    }
    void grow_running() override {
      CHECK_FALSE(grown_);
      grown_ = true;
      for (const RequestView& r : t_.running)
        free_ -= decodes(r) && r.kv.tokens % t_.page_size == 0;
    }
    void retract(const RequestView& r) override {
      CHECK(std::count(gone_.begin(), gone_.end(), r.id) == 0);
      free_ += r.kv.pages(t_.page_size);
      gone_.push_back(r.id);
    }
    void each_running(const std::function<void(const RequestView&)>& visit) override {
      for (const RequestView& r : t_.running) visit(r);
    }
    bool decodes(const RequestView& r) const {
      return r.decodes && std::count(gone_.begin(), gone_.end(), r.id) == 0;
    }

    RequestView& waiting(const RequestView& r) {
      return *std::find_if(waiting_.begin(), waiting_.end(),
                           [&](const RequestView& w) { return w.id == r.id; });
    }

    const Table& t_;
    std::int64_t free_;
    std::vector<RequestView> waiting_;  // as the plan leaves them; the table is the test's
    std::deque<RequestView*> queue_;
    std::set<RequestId> held_;
    std::vector<RequestId> gone_, admitted_;
    bool grown_ = false;
  };

  SchedulerView view(Ledger& ledger) const {
    SchedulerView v{.now = TimePoint(), .waiting = ledger.queue_, .kv = ledger};
    v.prefilling = prefilling.empty() ? nullptr : &prefilling.front();
    v.running = static_cast<std::int64_t>(running.size());
    for (const RequestView& r : running) {
      v.reserved_tokens += std::min(r.max_new - r.generated, clip);
      v.decoding += r.decodes;
      v.decode_pages += r.decodes && r.kv.tokens % page_size == 0;
    }
    v.decode_passes = decode_passes;
    v.total_pages = total_pages;
    v.page_size = page_size;
    return v;
  }
};

}  // namespace table
