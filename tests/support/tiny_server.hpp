#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "sim/engine/server.hpp"
#include "sim/engine/sglang_scheduler.hpp"
#include "sim/engine/vllm_scheduler.hpp"
#include "sim/metrics/metrics.hpp"
#include "sim/workload/client.hpp"
#include "tests/support/fake_models.hpp"
#include "tests/support/naive_kv_caches.hpp"

/// A server small enough that every rare path is a common one, with a recorder on it.
namespace tiny {

struct Arrival {
  Duration at;
  std::int64_t prompt = 1, max_new = 1, output = 1;
  Content content = {};      // empty: unlike any other
  std::int64_t answer = -1;  // see PlannedRequest
};

struct Setting {
  enum class Engine { sglang, vllm, fcfs } engine = Engine::sglang;
  bool reference = true;
  int page_size = 1;
  std::int64_t pages = 64;
  int seats = 4;
  std::int64_t chunk = 16;  // vLLM: tokens of a step
  std::int64_t input = 32;  // SGLang: max_prefill_tokens
  std::int64_t clip = 4096;
  double conservativeness = 1;  // of the reservation for output: low ones run out of pages
  int depth = 2;
  bool mixed = false, reserve_whole = true;
  SglangPolicy policy = SglangPolicy::fcfs;
  std::string cache = "none", eviction = "lru";
  std::vector<int> graph_sizes;  // empty: eager
  std::int64_t top_k = 0;        // of sparse attention
  Duration base, per_token, launch;
  Duration per_kv, per_pair, per_kv_squared_root;  // of decode and prefill attention
  HostTimes host;
  std::vector<Arrival> arrivals;
  std::optional<int> max_concurrency;
  int turns = 1;   // every request comes again so often, its history before it
  Duration think;  // before each further turn
};

/// What a run was seen to do.
struct Run {
  struct Life {
    std::int64_t prompt = 0;
    std::int64_t tokens_expected = 0;  // after clipping to the pool; below one: rejected
    TimePoint sent, queued, ended, first, last;
    std::vector<TimePoint> tokens;  // at the client; only the reference tells
    bool finished = false, rejected = false;
    int retractions = 0;
    std::int64_t cached = 0;
  };
  struct Pass {
    PassRecord record;
    Timeline cost;  // worked out apart from the server
    std::int64_t pages_in_use = 0, pages_free = 0, pages_held = 0;
    std::int64_t pages_shared = 0;  // of those held, counted again by each who shares them
    std::int64_t waiting = 0, running = 0, unfinished = 0;
  };
  std::vector<Life> lives;
  std::vector<Pass> passes;
  std::vector<std::pair<std::int64_t, std::int64_t>> gaps;  // ps, how often; sorted
  ServerCounts counts;
  RunMetrics metrics;
  bool ended = false;
  std::int64_t waiting_at_end = 0, running_at_end = 0, pages_free_at_end = 0;
};

/// A step of two operators: a GEMM of base + per_token x tokens and attention by KV tokens, pairs
/// and a root, so that the price bends.
class Step {
 public:
  explicit Step(const Setting& s) : costs_(fake::free_kernels()), pricer_(fake::pricer(1)) {
    costs_.gemm = fake::cost<GemmShape>([base = s.base, per = s.per_token](const GemmShape& g) {
      return fake::takes(base + per * g.m);
    });
    costs_.mla_decode = fake::cost<MlaDecodeShape>(
        [kv = s.per_kv, root = s.per_kv_squared_root](const MlaDecodeShape& a) {
          std::int64_t r = 0;
          while ((r + 1) * (r + 1) <= a.kv_tokens) ++r;
          return fake::takes(kv * a.kv_tokens + root * r);
        });
    costs_.mla_prefill = fake::cost<MlaPrefillShape>(
        [pair = s.per_pair](const MlaPrefillShape& a) { return fake::takes(pair * a.pairs); });
    LaunchCosts launch;
    launch.per_launch = launch.graph = s.launch;
    Operator attention{"attention", "attention", 1, MlaOp{1, 1, 0, static_cast<int>(s.top_k)}};
    const bool attends =
        s.per_kv > Duration() || s.per_pair > Duration() || s.per_kv_squared_root > Duration();
    std::vector<Operator> operators = {fake::gemm("work")};
    if (attends) operators.push_back(attention);
    step_ = std::make_unique<StepModel>(ModelGraph{{LayerBlock{"pass", 1, operators}}}, costs_,
                                        pricer_, ExpertPopularity(1, 1, 0), launch);
  }
  const StepModel& step() const { return *step_; }

 private:
  CostModels costs_;
  CollectivePricer pricer_;
  std::unique_ptr<StepModel> step_;
};

class Recorder final : public Observer {
 public:
  Recorder(const Setting& setting, const Server& server, const StepModel& step, Run& run)
      : setting_(setting), server_(server), step_(step), run_(run) {}

  void on_sent(const Request& r) override {
    Run::Life& l = life(r);
    l.sent = r.sent;
    l.prompt = r.prompt;
    const std::int64_t room = setting_.pages * setting_.page_size - 1 - r.prompt - 1;
    l.tokens_expected = setting_.engine == Setting::Engine::vllm
                            ? (r.max_new <= room ? r.output : 0)
                            : std::min({r.output, r.max_new, room});
  }
  void on_queued(const Request& r) override { life(r).queued = r.queued; }
  void on_token(const Request& r, TimePoint at) override { life(r).tokens.push_back(at); }
  void on_finish(const Request& r) override {
    Run::Life& l = life(r);
    l.finished = true;
    l.ended = l.last = r.last_token;
    l.first = r.first_token;
    l.retractions = r.retractions;
    l.cached = r.cached;
  }
  void on_reject(const Request& r, TimePoint at) override {
    life(r).rejected = true;
    life(r).ended = at;
  }
  void on_gaps(const GapRun& g) override {
    for (std::int64_t k = 0; k < g.passes; ++k)
      run_.gaps.emplace_back((g.gap + k * g.step).ps(), g.requests);
  }
  void on_passes(const PassRun& passes) override {
    if (!setting_.reference) return;
    Run::Pass p;
    p.record = passes.last;
    p.cost = step_.cost(p.record.shape.padded_to(p.record.padded), p.record.captured);
    p.pages_free = server_.cache().available();
    std::vector<naive::Said> shared;
    server_.each_request([&](const Request& r) {
      // What is computed or being computed: the newest token known has no KV until the next pass.
      const std::int64_t most = r.to_prefill() + setting_.depth - 2;
      p.pages_in_use += pages_for(std::min(r.kv.tokens, most), setting_.page_size);
      p.pages_held += r.kv.pages(setting_.page_size);
      if (r.kv.shared > 0) {
        Content said = r.content;
        if (r.answer != -1) said.append({r.answer, 0, r.output});
        shared.push_back(naive::say(said, r.kv.shared));
      }
      ++p.unfinished;
    });
    // In order, what a prefix has in common with any before it, it has with the last one.
    std::sort(shared.begin(), shared.end());
    for (std::size_t i = 1; i < shared.size(); ++i) {
      const auto [end, _] = std::mismatch(shared[i].begin(), shared[i].end(), shared[i - 1].begin(),
                                          shared[i - 1].end());
      p.pages_shared += (end - shared[i].begin()) / setting_.page_size;
    }
    p.waiting = server_.waiting();
    p.running = server_.running();
    run_.passes.push_back(p);
  }

 private:
  Run::Life& life(const Request& r) {
    const auto i = static_cast<std::size_t>(r.index);
    if (run_.lives.size() <= i) run_.lives.resize(i + 1);
    return run_.lives[i];
  }
  const Setting& setting_;
  const Server& server_;
  const StepModel& step_;
  Run& run_;
};

/// The arrivals of a setting, each coming back for its further turns.
class Source final : public RequestSource {
 public:
  explicit Source(const Setting& s) : s_(s), left_(s.arrivals.size(), s.turns - 1) {
    history_.resize(s.arrivals.size());
  }
  bool next(PlannedRequest& r) override {
    if (next_ == s_.arrivals.size()) return false;
    const Arrival& a = s_.arrivals[next_];
    r = {};
    r.input = a.prompt;
    r.output = a.output;
    r.max_new = a.max_new;
    r.send_at = a.at;
    r.prompt = a.content;
    r.answer = a.answer;
    if (s_.turns > 1) {
      r.session = static_cast<std::int64_t>(next_);
      if (r.prompt.empty()) r.prompt = Content(1'000'000 + r.session, a.prompt);
      r.answer = 2'000'000 + r.session;
      history_[next_] = r.prompt;
      history_[next_].append({r.answer, 0, a.output});
    }
    ++next_;
    return true;
  }
  bool next_turn(std::int64_t session, PlannedRequest& r) override {
    const auto i = static_cast<std::size_t>(session);
    if (left_[i]-- == 0) return false;
    const Arrival& a = s_.arrivals[i];
    const std::int64_t turn = s_.turns - left_[i];
    r = {};
    r.prompt = history_[i];
    r.prompt.append({3'000'000 + session * 100 + turn, 0, 1});
    r.input = r.prompt.tokens();
    r.output = a.output;
    r.max_new = a.max_new;
    r.send_at = s_.think;
    r.session = session;
    r.answer = 4'000'000 + session * 100 + turn;
    history_[i] = r.prompt;
    history_[i].append({r.answer, 0, a.output});
    return true;
  }

 private:
  const Setting& s_;
  std::size_t next_ = 0;
  std::vector<std::int64_t> left_;
  std::vector<Content> history_;
};

inline EngineSetup engine(const Setting& s) {
  EngineSetup setup;
  EngineSizes& sizes = setup.sizes;
  sizes.kv_tokens = Tokens(s.pages * s.page_size);
  sizes.page_size = s.page_size;
  sizes.max_running_requests = s.seats;
  sizes.max_request_tokens = s.pages * s.page_size - 1;
  sizes.loop_depth = s.depth;
  sizes.graph_sizes = s.graph_sizes;
  sizes.prefix_cache = s.cache;
  sizes.eviction = s.eviction;
  sizes.reserve_clip = s.clip;
  if (s.engine == Setting::Engine::sglang) {
    SglangOptions o;
    o.max_running_requests = s.seats;
    o.chunked_prefill_size = s.chunk;
    o.schedule_conservativeness = s.conservativeness;
    o.max_prefill_tokens = s.input;
    o.clip_max_new_tokens = s.clip;
    o.mixed_chunk = s.mixed;
    o.policy = s.policy;
    o.radix_cache = s.cache != "none";
    o.overlap = s.depth > 1;
    setup.scheduler = std::make_unique<SglangScheduler>(o);
  } else if (s.engine == Setting::Engine::fcfs) {
    // It is known by its name only; of what it makes, the sizes are those above.
    const Settings options =
        Settings::map({{"max_running_requests", {}, Settings::scalar(std::to_string(s.seats), {})},
                       {"page_size", {}, Settings::scalar(std::to_string(s.page_size), {})}},
                      {});
    EngineFacts facts;
    facts.gpu_memory = Bytes(std::int64_t{1} << 40);
    facts.kv_per_token = BytesPerToken(1);
    facts.context_length = sizes.max_request_tokens;
    Reading reading;
    Section section(options, "engine", reading);
    setup.scheduler = Registry<EngineKind>::find("fcfs")->setup(facts, section).scheduler;
  } else {
    sizes.rules = {.skips_finished = true,
                   .keeps_token_in_flight = true,
                   .retracted_first = true,
                   .caches_retracted = true,
                   .shares_at_admission = true,
                   .clips_max_new = false};
    VllmOptions o;
    o.max_num_seqs = s.seats;
    o.max_num_batched_tokens = std::max<std::int64_t>(s.chunk, s.seats);
    o.scheduler_reserve_full_isl = s.reserve_whole;
    setup.scheduler = std::make_unique<VllmScheduler>(o);
  }
  return setup;
}

/// `also` hears what the recorder hears.
inline Run play(const Setting& s, EngineSetup setup, Observer* also = nullptr) {
  Run run;
  const Step step(s);
  PriceList prices(step.step());
  const auto server =
      (s.reference ? make_reference_server : make_server)(prices, setup, s.host, s.top_k);
  WorkloadPlan plan;
  plan.max_concurrency = s.max_concurrency;
  plan.source = [&s] { return std::make_unique<Source>(s); };
  Client client(plan);
  Recorder recorder(s, *server, step.step(), run);
  MetricsCollector metrics(40);
  client.subscribe(metrics);
  server->subscribe(metrics);
  server->subscribe(recorder);
  if (also) server->subscribe(*also);
  run.ended = server->run(client);
  std::sort(run.gaps.begin(), run.gaps.end());
  std::vector<std::pair<std::int64_t, std::int64_t>> merged;
  for (const auto& [ps, n] : run.gaps)
    if (!merged.empty() && merged.back().first == ps)
      merged.back().second += n;
    else
      merged.emplace_back(ps, n);
  run.gaps = std::move(merged);
  run.counts = server->counts();
  run.metrics = metrics.summary(run.counts);
  run.waiting_at_end = server->waiting();
  run.running_at_end = server->running();
  run.pages_free_at_end = server->cache().available();
  return run;
}
inline Run play(const Setting& s) { return play(s, engine(s)); }

}  // namespace tiny
