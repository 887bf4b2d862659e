// The reference clock: a loop over the running requests in every pass, one event for every token.

#include <algorithm>

#include "sim/base/assert.hpp"
#include "sim/engine/server.hpp"

namespace {

class ReferenceServer final : public Server {
 public:
  using Server::Server;

 private:
  // Whether the next decode pass takes it.
  bool decodes(const Request& r) const {
    return !rules_.skips_finished || launched_[static_cast<std::size_t>(r.id)] < r.max_new;
  }

  void fill(SchedulerView& view) override {
    for (const Request* r : running_) {
      view.reserved_tokens += std::min(r->max_new - r->generated, sizes_.reserve_clip);
      if (!decodes(*r)) continue;
      ++view.decoding;
      view.decode_pages += r->kv.tokens % page_size() == 0;
    }
  }

  std::int64_t decoding() const override {
    return std::count_if(running_.begin(), running_.end(),
                         [this](const Request* r) { return decodes(*r); });
  }

  void grow_running() override {
    for (Request* r : running_) {
      if (!decodes(*r)) continue;
      if (r->kv.tokens % page_size() == 0) cache_->take(1);
      ++r->kv.tokens;
    }
    note_pages();
  }

  void each_running(const std::function<void(const RequestView&)>& visit) override {
    for (Request* r : std::vector<Request*>(running_)) {
      r->decodes = decodes(*r);
      visit(*r);
    }
  }

  void decode_shape(Pass& pass) override {
    pass.decode_number = ++decode_passes_;
    pass.decoded.clear();
    PassShape& shape = pass.record.shape;
    for (Request* r : running_) {
      if (!decodes(*r)) continue;
      ++launched_[static_cast<std::size_t>(r->id)];
      const std::int64_t kv = r->kv.tokens;
      if (wants_lengths_) pass.kv_each.push_back(kv);
      shape.decode_sequences += 1;
      shape.decode_kv_tokens += kv;
      shape.decode_kv_tokens_capped += sparse_top_k_ > 0 ? std::min(kv, sparse_top_k_) : kv;
      shape.kv_max = std::max(shape.kv_max, kv);
      pass.decoded.push_back({r, r->serial, r->retractions, true});
    }
  }

  void join(Request& r, Pass&) override {
    running_.push_back(&r);
    launched_.resize(std::max(launched_.size(), slots_.size()));
    launched_[static_cast<std::size_t>(r.id)] = r.generated + 1;
  }

  void leave_running(Request& r) override { std::erase(running_, &r); }

  void collect_decodes(Pass& pass, TimePoint at_client) override {
    for (const Member& member : pass.decoded) one_token(member, pass, at_client);
  }

  void first_tokens(Pass& pass, TimePoint at_client) override {
    for (const Member& member : pass.extended)
      if (member.makes_token) one_token(member, pass, at_client);
  }

  void keep_tokens(Pass& pass, TimePoint at_client) override {
    for (const Member& member : pass.kept) {
      Request& r = *member.request;
      token_made(r, at_client);
      announce(r, at_client);
      if (r.generated == r.output) finish(r, at_client);
    }
  }

  void one_token(const Member& member, Pass& pass, TimePoint at_client) {
    Request& r = *member.request;
    if (!member.still_there()) {
      const bool retracted = r.serial == member.serial;
      if (retracted && rules_.keeps_token_in_flight)
        pass.kept.push_back(member);
      else
        ++counts_.dummy_tokens;
      return;
    }
    if (r.state == Request::State::finished) {
      ++counts_.dummy_tokens;
      return;
    }
    const bool first = r.prefilled == r.to_prefill();
    token_made(r, at_client);
    if (r.generated == r.output) {
      std::erase(running_, &r);
      announce(r, at_client);
      finish(r, at_client);
      return;
    }
    if (first && !rules_.shares_at_admission) publish_prompt(r);
    announce(r, at_client);
  }

  void announce(const Request& r, TimePoint at_client) {
    for (Observer* o : observers_) o->on_token(r, at_client);
  }

  std::vector<Request*> running_;
  std::vector<std::int64_t> launched_;  // tokens made or being made, by slot
  std::int64_t decode_passes_ = 0;
};

}  // namespace

std::unique_ptr<Server> make_reference_server(PriceList& prices, EngineSetup& setup,
                                              const HostTimes& host, std::int64_t sparse_top_k) {
  return std::make_unique<ReferenceServer>(prices, setup, host, sparse_top_k);
}
