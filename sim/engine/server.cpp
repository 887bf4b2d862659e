#include "sim/engine/server.hpp"

#include <algorithm>

#include "sim/base/assert.hpp"

namespace {

// Streams of what nobody named: far from those of workloads.
constexpr std::int64_t unnamed_prompt = std::int64_t{1} << 62;
constexpr std::int64_t unnamed_answer = std::int64_t{1} << 61;

constexpr TimePoint last_moment = TimePoint::at(Duration::max());

std::unique_ptr<KvCache> make_cache(const EngineSizes& sizes) {
  const auto* factory = Registry<KvCacheFactory>::find(sizes.prefix_cache);
  SIM_ASSERT(factory);
  return (*factory)(sizes.kv_tokens.count() / sizes.page_size - sizes.null_pages, sizes.page_size,
                    sizes.eviction);
}

}  // namespace

void Server::Pass::clear() {
  // The rest is written when it is launched and collected.
  record.shape = {};
  record.captured = false;
  run.passes = 1;
  number = decode_number = dropped = 0;
  extended.clear(), finishing.clear(), kept.clear();
}

Server::Server(PriceList& prices, EngineSetup& setup, const HostTimes& host,
               std::int64_t sparse_top_k)
    : prices_(prices),
      setup_(setup),
      sizes_(setup.sizes),
      rules_(setup.sizes.rules),
      host_(host),
      sparse_top_k_(sparse_top_k),
      wants_lengths_(prices.step().wants_lengths()),
      caches_prefixes_(setup.sizes.prefix_cache != "none"),
      cache_(make_cache(setup.sizes)) {
  if (!sizes_.graph_sizes.empty())
    for (int batch = 0; batch <= sizes_.graph_sizes.back(); ++batch)
      captured_sizes_.push_back(sizes_.captured_size(batch));
  counts_.pages_total = counts_.pages_free_min = cache_->total();
  SIM_ASSERT(sizes_.loop_depth == 1 || sizes_.loop_depth == 2);
}

ServerCounts Server::counts() const {
  ServerCounts out = counts_;
  out.pages_free_end = cache_->available();
  return out;
}

void Server::each_request(const std::function<void(const Request&)>& visit) const {
  for (const auto& slot : slots_)
    if (slot->state == Request::State::waiting || slot->state == Request::State::prefilling ||
        slot->state == Request::State::running)
      visit(*slot);
}

// ---- the loop ----

bool Server::run(Load& load) {
  load_ = &load;
  next_known_ = false;
  BatchPlan plan;
  while (now_ < last_moment) {
    deliver(now_, [this](TimePoint) { return now_; });
    if (hold_ && jump()) {
      ++counts_.jumps;
      continue;
    }
    plan.clear();
    admitted_.clear();
    if (hold_ && repeats_decode()) {
      grow_running();
      plan.decode = true;
      setup_.scheduler->on_repeat();
    } else {
      hold_.reset();
      ask_scheduler(plan);
      hold_ = plan.hold;
    }
    if (!plan.idle()) {
      idle_told_ = false;
      if (hold_) --hold_->passes;
      Pass& pass = in_flight_.next();
      pass.clear();
      if (wants_lengths_) pass.kv_each.clear(), pass.prompts.clear();
      apply(plan, pass);
      const TimePoint host_free = launch(pass);
      launched(pass);
      in_flight_.push();
      if (static_cast<int>(in_flight_.size()) < sizes_.loop_depth)
        now_ = host_free;
      else
        await_oldest(host_free);
      continue;
    }
    SIM_ASSERT(admitted_.empty());
    if (!in_flight_.empty()) {
      await_oldest(now_ + host_.per_step);
      continue;
    }
    setup_.scheduler->on_idle(view());
    // Ask once more before sleeping: an idle look may clear the scheduler's own flags.
    if (!waiting_.empty() && !idle_told_) {
      idle_told_ = true;
      now_ += host_.per_step;
      continue;
    }
    const TimePoint next = next_arrival();
    if (next == TimePoint::never()) {
      SIM_ASSERT(waiting_.empty() && seats_ == 0 && !prefilling_);
      return true;
    }
    now_ = std::max(now_, next);
  }
  return false;
}

SchedulerView Server::view() {
  SchedulerView view{.now = now_, .waiting = waiting_, .kv = *this};
  view.prefilling = prefilling_;
  view.running = seats_;
  view.decode_passes = counts_.decode_passes;
  view.total_pages = counts_.pages_total;
  view.page_size = sizes_.page_size;
  fill(view);
  return view;
}

void Server::ask_scheduler(BatchPlan& plan) {
  ++counts_.scheduler_calls;
  setup_.scheduler->next_batch(view(), plan);
}

void Server::ask_load() {
  next_ = load_->next();
  next_known_ = true;
  next_arrival_ = TimePoint::never();
  if (next_.request)
    next_arrival_ = std::max(next_.at + host_.request_path, path_free_) +
                    next_.request->input * host_.tokenise_per_token;
}

Request& Server::new_request() {
  RequestId id;
  if (free_slots_.empty()) {
    id = static_cast<RequestId>(slots_.size());
    slots_.push_back(std::make_unique<Request>());
  } else {
    id = free_slots_.back();
    free_slots_.pop_back();
    Request& r = get(id);
    Content content;
    if (caches_prefixes_) content = std::move(r.content);  // its memory serves again
    std::destroy_at(&r);
    ::new (static_cast<void*>(&r)) Request;  // every member says what it begins as
    if (caches_prefixes_) content.clear(), r.content = std::move(content);
  }
  Request& r = get(id);
  r.id = id;
  r.serial = ++serials_;
  return r;
}

void Server::receive(TimePoint arrived, TimePoint seen) {
  PlannedRequest& planned = *next_.request;
  SIM_ASSERT(planned.input > 0 && planned.output > 0 && planned.limit() > 0);
  path_free_ = arrived;
  Request& r = new_request();
  r.prompt = planned.input;
  r.max_new = planned.limit();
  r.output = std::min(planned.output, r.max_new);
  r.index = next_.index;
  r.session = planned.session;
  r.sent = next_.at;
  r.queued = seen;
  if (caches_prefixes_) {
    if (planned.prompt.empty())
      r.content.append({unnamed_prompt + r.serial, 0, r.prompt});
    else
      r.content.swap(planned.prompt);
    r.answer = planned.answer != -1 ? planned.answer : unnamed_answer + r.serial;
  }
  load_->take();
  next_known_ = false;
  ++counts_.arrived;
  if (r.index >= 0)
    for (Observer* o : observers_) o->on_sent(r);
  const std::int64_t room = sizes_.max_request_tokens - r.prompt - 1;
  if (rules_.clips_max_new) {
    // The limit on new tokens is clipped to what fits; a prompt that leaves no room is turned away.
    r.max_new = std::min(r.max_new, room);
    r.output = std::min(r.output, r.max_new);
  }
  if (r.max_new < 1 || r.max_new > room) {
    r.state = Request::State::rejected;
    ++counts_.rejected;
    const TimePoint at_client = seen + host_.response_path;
    for (Observer* o : observers_) o->on_reject(r, at_client);
    ended(r, at_client);
    return;
  }
  waiting_.push_back(&r);
  if (hold_ && hold_->on_arrival) hold_.reset();
  for (Observer* o : observers_) o->on_queued(r);
}

// ---- pages ----

const Content& Server::said(const Request& r, std::int64_t generated) {
  said_ = r.content;
  if (r.answer != -1) said_.append({r.answer, 0, generated});
  return said_;
}

std::int64_t Server::cached(const RequestView& waiting) {
  const Request& r = get(waiting.id);
  const std::int64_t limit = r.to_prefill() - 1;
  return cache_->match(r.generated > 0 ? said(r) : r.content, limit);
}

std::int64_t Server::hold(const RequestView& waiting) {
  Request& r = get(waiting.id);
  SIM_ASSERT(r.state == Request::State::waiting && !r.held);
  const std::int64_t tokens = caches_prefixes_ ? cached(waiting) : 0;
  const bool again = caches_prefixes_ && r.generated > 0;
  cache_->hold(r.kv, again ? said(r) : r.content, tokens);
  SIM_ASSERT(r.kv.tokens == tokens && r.kv.shared == tokens);
  r.prefilled = tokens;
  r.held = true;
  return tokens;
}

void Server::let_go(const RequestView& waiting) {
  Request& r = get(waiting.id);
  SIM_ASSERT(r.held);
  cache_->let_go(r.kv);
  r.kv = {};
  r.prefilled = 0;
  r.held = false;
}

void Server::admit(const RequestView& request, std::int64_t tokens) {
  Request& r = get(request.id);
  SIM_ASSERT(tokens > 0);
  const bool goes_on = &r == prefilling_;
  if (goes_on) {
    if (!rules_.shares_at_admission) publish_prompt(r);
  } else {
    SIM_ASSERT(r.state == Request::State::waiting);
    if (!r.held) {
      cache_->hold(r.kv, r.content, 0);
      r.prefilled = 0;
    }
    r.held = false;
    if (r.retractions == 0) r.cached = r.prefilled;
    counts_.prompt_tokens += r.to_prefill();
    counts_.cached_tokens += r.prefilled;
  }
  SIM_ASSERT(r.prefilled == r.kv.tokens && r.prefilled + tokens <= r.to_prefill());
  const std::int64_t before = r.kv.pages(page_size());
  r.kv.tokens += tokens;
  r.prefilled += tokens;
  cache_->take(r.kv.pages(page_size()) - before);
  if (rules_.shares_at_admission) publish_prompt(r);
  note_pages();
  admitted_.push_back(r.id);
}

void Server::publish_prompt(Request& r) {
  if (!caches_prefixes_) return;
  cache_->publish(r.kv, r.prefilled > r.prompt ? said(r, r.prefilled - r.prompt) : r.content,
                  r.prefilled);
}

void Server::retract(const RequestView& request) {
  Request& r = get(request.id);
  if (&r == prefilling_) {
    prefilling_ = nullptr;
  } else {
    SIM_ASSERT(r.state == Request::State::running);
    leave_running(r);
    --seats_;
  }
  const bool keep = rules_.caches_retracted && caches_prefixes_;
  // At most what the engine knows it has said: the token in flight has no content yet.
  cache_->release(r.kv, keep ? said(r) : r.content, std::min(r.kv.tokens, r.to_prefill()), keep);
  r.kv = {};
  r.state = Request::State::waiting;
  r.prefilled = 0;
  ++r.retractions;
  ++counts_.retractions;
  if (rules_.retracted_first)
    waiting_.push_front(&r);
  else
    waiting_.push_back(&r);
}

// ---- passes ----

void Server::apply(const BatchPlan& plan, Pass& pass) {
  PassShape& shape = pass.record.shape;
  pass.number = ++counts_.passes;
  if (plan.decode) {
    decode_shape(pass);
    shape.heads_rows += shape.decode_sequences;
  }
  SIM_ASSERT(plan.extend.size() == admitted_.size());
  for (std::size_t i = 0; i < plan.extend.size(); ++i) {
    SIM_ASSERT(plan.extend[i].id == admitted_[i]);
    extend(get(admitted_[i]), plan.extend[i].tokens, pass);
  }
  SIM_ASSERT(seats_ <= sizes_.max_running_requests);
  pass.record.batch = shape.decode_sequences + shape.extend_sequences;
}

// The next `n` tokens of its prompt are in the pass.
[[gnu::noinline]] void Server::extend(Request& r, std::int64_t n, Pass& pass) {
  PassShape& shape = pass.record.shape;
  if (&r == prefilling_) {
    prefilling_ = nullptr;
  } else if (waiting_.front() == &r) {
    waiting_.pop_front();
  } else {
    const auto at = std::find(waiting_.begin(), waiting_.end(), &r);
    SIM_ASSERT(at != waiting_.end());
    waiting_.erase(at);
  }
  r.state = Request::State::prefilling;
  const std::int64_t past = r.prefilled - n;
  SIM_ASSERT(past >= 0);
  shape.extend_sequences += 1;
  shape.extend_tokens += n;
  shape.extend_tokens_max = std::max(shape.extend_tokens_max, n);
  // query i of the chunk (1-based) sees past + i keys
  const PassShape part = PassShape::extend(n, past, sparse_top_k_);
  shape.extend_pairs += part.extend_pairs;
  shape.extend_pairs_capped += part.extend_pairs_capped;
  shape.kv_max = std::max(shape.kv_max, r.kv.tokens);
  if (wants_lengths_) pass.prompts.push_back({n, past});
  const bool complete = r.prefilled == r.to_prefill();
  pass.extended.push_back({&r, r.serial, r.retractions, complete});
  if (complete) {
    r.state = Request::State::running;
    ++seats_;
    shape.heads_rows += 1;
    join(r, pass);
  } else {
    SIM_ASSERT(prefilling_ == nullptr);
    prefilling_ = &r;
  }
}

TimePoint Server::launch(Pass& pass) {
  PassRecord& record = pass.record;
  record.free_pages = cache_->available();
  const PassShape& shape = record.shape;
  record.padded = shape.decode_sequences;
  if (shape.extend_sequences == 0) {
    if (const std::int64_t size = captured_size(shape.decode_sequences); size > 0) {
      record.padded = size;
      record.captured = true;
    }
  } else if (sizes_.captures(shape.tokens())) {
    record.captured = true;
  }
  const auto price = [&] {
    if (!wants_lengths_) return prices_.cost(shape, record.padded, record.captured);
    PassShape with_lengths = shape;
    with_lengths.decode_kv_each = pass.kv_each;
    with_lengths.prompts = pass.prompts;
    return prices_.cost(with_lengths, record.padded, record.captured);
  };
  const Timeline time = price();
  record.launched = now_ + host_.per_step;
  if (pass.number == 1) record.launched += host_.cold_start;
  record.finished = std::max(gpu_free_ + time.device, record.launched + time.span);
  record.device = time.device;
  gpu_free_ = record.finished;
  counts_.decode_passes += shape.extend_sequences == 0;
  return record.launched + time.host;
}

void Server::await_oldest(TimePoint host_free) {
  Pass& oldest = in_flight_[0];
  in_flight_.pop();
  now_ = std::max(host_free, oldest.record.finished) + oldest.record.batch * host_.per_sequence;
  oldest.record.processed = now_;
  collect(oldest);
}

void Server::collect(Pass& pass) {
  const TimePoint at_client = now_ + host_.response_path;
  if (pass.decode_number > 0) collect_decodes(pass, at_client);
  if (!pass.extended.empty()) first_tokens(pass, at_client);
  if (!pass.kept.empty()) keep_tokens(pass, at_client);
  pass.run.device = pass.record.device;
  pass.run.first_processed = now_;
  for (Observer* o : observers_) o->on_passes(pass.run);
}

// ---- the end of a request ----

void Server::token_made(Request& r, TimePoint at_client) {
  if (r.generated == 0) {
    r.first_token = at_client;
  } else {
    const GapRun gap{at_client - r.last_token, {}, 1, 1};
    if (r.index >= 0)
      for (Observer* o : observers_) o->on_gaps(gap);
  }
  ++r.generated;
  ++counts_.tokens_made;
  r.last_token = at_client;
}

void Server::finish(Request& r, TimePoint at_client) {
  SIM_ASSERT(r.generated == r.output && r.last_token == at_client);
  somebody_left();
  if (r.state == Request::State::waiting) {  // its last token came after it had been retracted
    const auto at = std::find(waiting_.begin(), waiting_.end(), &r);
    SIM_ASSERT(at != waiting_.end());
    waiting_.erase(at);
  } else {
    --seats_;
    setup_.scheduler->on_finish(r);
    // The last token's own KV was never computed, or nobody wants it.
    if (r.answer != -1) r.content.append({r.answer, 0, r.generated});
    cache_->release(r.kv, r.content, r.to_prefill() - 1, caches_prefixes_);
  }
  r.kv = {};
  r.state = Request::State::finished;
  ++counts_.finished;
  for (Observer* o : observers_) o->on_finish(r);
  ended(r, at_client);
}

void Server::ended(const Request& r, TimePoint at_client) {
  if (load_->ended(r.index, r.session, at_client)) next_known_ = false;
  free_slots_.push_back(r.id);
}
