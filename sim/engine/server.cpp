// The loop (SGLang's event_loop_overlap at depth 2, event_loop_normal at depth 1): receive, choose
// a pass, issue it, and only then wait for the results of the pass before (depth 2) or of this one
// (depth 1). A finish is therefore discovered one pass late at depth 2: the request takes part in
// one more pass, whose token is dropped.

#include "sim/engine/server.hpp"

#include <algorithm>

#include "sim/base/assert.hpp"

Server::Server(Simulation& simulation, const StepModel& step, EngineSetup& setup, HostTimes host,
               std::int64_t sparse_top_k)
    : simulation_(simulation),
      step_(step),
      setup_(setup),
      host_(host),
      sparse_top_k_(sparse_top_k) {
  free_pages_ = setup.sizes.kv_tokens.count() / setup.sizes.page_size;
  counts_.pages_total = counts_.pages_free_min = free_pages_;
}

ServerCounts Server::counts() const {
  ServerCounts out = counts_;
  out.pages_free_end = free_pages_;
  return out;
}

RequestId Server::send(std::int64_t prompt, std::int64_t max_new, std::int64_t output) {
  SIM_ASSERT(prompt > 0 && max_new > 0 && output > 0);
  auto request = std::make_unique<Request>();
  request->id = static_cast<RequestId>(requests_.size());
  request->prompt = prompt;
  request->max_new = max_new;
  request->output = std::min(output, max_new);
  Request& r = *request;
  requests_.push_back(std::move(request));
  simulation_.schedule_in(host_.request_path, Phase::arrival, [this, &r] { receive(r); });
  return r.id;
}

void Server::receive(Request& r) {
  ++counts_.arrived;
  // The limit on new tokens is clipped to what fits; a prompt that leaves no room is turned away.
  r.max_new = std::min(r.max_new, setup_.sizes.max_request_tokens - r.prompt - 1);
  r.output = std::min(r.output, r.max_new);
  if (r.max_new < 1) {
    r.state = Request::State::rejected;
    ++counts_.rejected;
    for (Observer* o : observers_) o->on_reject(r, simulation_.now() + host_.response_path);
    return;
  }
  waiting_.push_back(&r);
  for (Observer* o : observers_) o->on_queued(r, simulation_.now());
  wake();
}

void Server::wake() {
  if (!asleep_) return;
  asleep_ = false;
  simulation_.schedule(simulation_.now(), Phase::decision, [this] { iterate(); });
}

void Server::iterate() {
  const SchedulerView view{simulation_.now(),     waiting_,    running_,
                           prefilling_,           free_pages_, counts_.pages_total,
                           setup_.sizes.page_size};
  const BatchPlan plan = setup_.scheduler->next_batch(view);
  if (!plan.idle()) {
    idle_told_ = false;
    Pass pass;
    apply(plan, pass);
    launch(std::move(pass));
    return;
  }
  for (const RequestId id : plan.retract) retract(get(id));
  if (!in_flight_.empty()) {
    await_oldest(simulation_.now() + host_.per_step);
    return;
  }
  setup_.scheduler->on_idle();
  // Ask once more before sleeping: an idle look may clear the scheduler's own flags.
  if (!waiting_.empty() && !idle_told_) {
    idle_told_ = true;
    simulation_.schedule_in(host_.per_step, Phase::decision, [this] { iterate(); });
    return;
  }
  SIM_ASSERT(waiting_.empty() && running_.empty() && !prefilling_);
  asleep_ = true;
}

void Server::allocate(Request& r, std::int64_t tokens) {
  r.kv_tokens += tokens;
  const std::int64_t pages = pages_for(r.kv_tokens, setup_.sizes.page_size);
  free_pages_ -= pages - r.pages;
  r.pages = pages;
  SIM_ASSERT(free_pages_ >= 0);
  counts_.pages_free_min = std::min(counts_.pages_free_min, free_pages_);
}

void Server::release(Request& r) {
  free_pages_ += r.pages;
  r.pages = r.kv_tokens = 0;
  SIM_ASSERT(free_pages_ <= counts_.pages_total);
}

void Server::retract(Request& r) {
  SIM_ASSERT(r.state == Request::State::running);
  std::erase(running_, &r);
  release(r);
  r.state = Request::State::waiting;
  r.prefilled = 0;
  ++r.epoch;
  ++r.retractions;
  ++counts_.retractions;
  waiting_.push_back(&r);
}

void Server::apply(const BatchPlan& plan, Pass& pass) {
  PassShape& shape = pass.record.shape;
  for (const RequestId id : plan.retract) retract(get(id));
  const auto capped = [&](std::int64_t kv) {
    return sparse_top_k_ > 0 ? std::min(kv, sparse_top_k_) : kv;
  };
  if (plan.decode) {
    SIM_ASSERT(static_cast<int>(running_.size()) <= setup_.sizes.max_running_requests);
    for (const RequestView* view : running_) {
      Request& r = get(view->id);
      allocate(r, 1);
      shape.decode_sequences += 1;
      shape.decode_kv_tokens += r.kv_tokens;
      shape.decode_kv_tokens_capped += capped(r.kv_tokens);
      shape.kv_max = std::max(shape.kv_max, r.kv_tokens);
      pass.members.push_back({&r, r.epoch, true});
    }
    shape.heads_rows += shape.decode_sequences;
  }
  for (const Chunk& chunk : plan.extend) {
    Request& r = get(chunk.id);
    SIM_ASSERT(chunk.tokens > 0 && r.prefilled + chunk.tokens <= r.to_prefill());
    if (&r == prefilling_) {
      prefilling_ = nullptr;
    } else {
      SIM_ASSERT(r.state == Request::State::waiting);
      const auto at = std::find(waiting_.begin(), waiting_.end(), &r);
      SIM_ASSERT(at != waiting_.end());
      waiting_.erase(at);
      r.state = Request::State::prefilling;
    }
    const std::int64_t past = r.prefilled;
    r.prefilled += chunk.tokens;
    allocate(r, chunk.tokens);
    shape.extend_sequences += 1;
    shape.extend_tokens += chunk.tokens;
    shape.extend_tokens_max = std::max(shape.extend_tokens_max, chunk.tokens);
    // query i of the chunk (1-based) sees past + i keys
    const std::int64_t n = chunk.tokens;
    const auto pairs_up_to = [](std::int64_t kv) { return kv * (kv + 1) / 2; };
    const std::int64_t pairs = pairs_up_to(past + n) - pairs_up_to(past);
    shape.extend_pairs += pairs;
    if (sparse_top_k_ == 0 || past + n <= sparse_top_k_) {
      shape.extend_pairs_capped += pairs;
    } else {
      const std::int64_t whole = std::max<std::int64_t>(sparse_top_k_ - past, 0);
      shape.extend_pairs_capped +=
          pairs_up_to(past + whole) - pairs_up_to(past) + (n - whole) * sparse_top_k_;
    }
    shape.kv_max = std::max(shape.kv_max, r.kv_tokens);
    const bool complete = r.prefilled == r.to_prefill();
    if (complete) {
      r.state = Request::State::running;
      running_.push_back(&r);
      shape.heads_rows += 1;
    } else {
      SIM_ASSERT(prefilling_ == nullptr);
      prefilling_ = &r;
    }
    pass.members.push_back({&r, r.epoch, complete});
  }
}

void Server::launch(Pass pass) {
  PassRecord& record = pass.record;
  record.batch = static_cast<std::int64_t>(pass.members.size());
  record.free_pages = free_pages_;
  PassShape shape = record.shape;
  if (shape.extend_sequences == 0) {
    if (const int size = setup_.sizes.captured_size(shape.decode_sequences); size > 0) {
      // Padding rows do the work of a sequence of one token.
      const std::int64_t added = size - shape.decode_sequences;
      shape.decode_sequences += added;
      shape.decode_kv_tokens += added;
      shape.decode_kv_tokens_capped += added;
      shape.heads_rows += added;
      record.captured = true;
    }
  }
  record.padded = shape.decode_sequences;
  const Timeline time = step_.cost(shape, record.captured);
  record.launched = simulation_.now() + host_.per_step;
  record.finished = std::max(gpu_free_ + time.device, record.launched + time.span);
  gpu_free_ = record.finished;
  const TimePoint host_free = record.launched + time.host;

  ++counts_.passes;
  counts_.decode_passes += record.shape.extend_sequences == 0;
  in_flight_.push_back(std::move(pass));
  if (static_cast<int>(in_flight_.size()) < setup_.sizes.loop_depth) {
    simulation_.schedule(host_free, Phase::decision, [this] { iterate(); });
    return;
  }
  await_oldest(host_free);
}

void Server::await_oldest(TimePoint host_free) {
  Pass oldest = std::move(in_flight_.front());
  in_flight_.pop_front();
  const TimePoint ready = std::max(host_free, oldest.record.finished);
  const TimePoint processed = ready + oldest.record.batch * host_.per_sequence;
  simulation_.schedule(processed, Phase::completion,
                       [this, p = std::move(oldest)]() mutable { collect(std::move(p)); });
}

void Server::collect(Pass pass) {
  pass.record.processed = simulation_.now();
  const TimePoint at_client = simulation_.now() + host_.response_path;
  for (const Member& member : pass.members) {
    Request& r = *member.request;
    if (!member.makes_token) continue;
    if (member.epoch != r.epoch || r.state == Request::State::finished) {
      ++counts_.dummy_tokens;
      continue;
    }
    ++r.generated;
    ++counts_.tokens_made;
    const bool finished = r.generated >= r.output;
    if (finished) {
      std::erase(running_, &r);
      setup_.scheduler->on_finish(r);
      release(r);
      r.state = Request::State::finished;
      ++counts_.finished;
    }
    for (Observer* o : observers_) o->on_tokens(r, 1, at_client);
    if (finished)
      for (Observer* o : observers_) o->on_finish(r, at_client);
  }
  for (Observer* o : observers_) o->on_pass(pass.record);
  simulation_.schedule(simulation_.now(), Phase::decision, [this] { iterate(); });
}
