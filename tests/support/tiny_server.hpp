#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "sim/engine/server.hpp"
#include "sim/engine/sglang_scheduler.hpp"
#include "tests/support/fake_models.hpp"

/// A server small enough that every rare path is a common one, with a recorder on it.
namespace tiny {

struct Arrival {
  Duration at;
  std::int64_t prompt = 1, max_new = 1, output = 1;
};

struct Setting {
  int page_size = 1;
  std::int64_t pages = 64;
  int seats = 4;
  std::int64_t chunk = 16;
  double conservativeness = 1;  // of the reservation for output: low ones run out of pages
  int depth = 2;
  std::vector<int> graph_sizes;  // empty: eager
  Duration base, per_token, launch;
  HostTimes host;
  std::vector<Arrival> arrivals;
};

/// What a run was seen to do.
struct Run {
  struct Life {
    std::int64_t tokens_expected = 0;  // after clipping to the pool; below one: rejected
    TimePoint sent, queued, ended;
    std::vector<TimePoint> tokens;  // at the client
    bool finished = false, rejected = false;
    int retractions = 0;
  };
  struct Pass {
    PassRecord record;
    Timeline cost;  // worked out apart from the server
    std::int64_t pages_in_use = 0, pages_free = 0, pages_held = 0;
    std::int64_t waiting = 0, running = 0, unfinished = 0;
  };
  std::vector<Life> lives;
  std::vector<Pass> passes;
  ServerCounts counts;
  std::int64_t waiting_at_end = 0, running_at_end = 0;
};

class Recorder final : public Observer {
 public:
  Recorder(const Setting& setting, const Server& server, Run& run)
      : setting_(setting), server_(server), run_(run) {}

  void on_queued(const Request& r, TimePoint at) override { life(r).queued = at; }
  void on_tokens(const Request& r, int new_tokens, TimePoint at) override {
    for (int i = 0; i < new_tokens; ++i) life(r).tokens.push_back(at);
  }
  void on_finish(const Request& r, TimePoint at) override {
    life(r).finished = true;
    life(r).ended = at;
  }
  void on_reject(const Request& r, TimePoint at) override {
    life(r).rejected = true;
    life(r).ended = at;
  }
  void on_pass(const PassRecord& record) override {
    Run::Pass p;
    p.record = record;
    const std::int64_t tokens = record.padded + record.shape.extend_tokens;
    const Duration device = setting_.base + setting_.per_token * tokens;
    p.cost = Timeline::kernels(1, setting_.launch, device);
    p.pages_free = server_.free_pages();
    for (std::size_t id = 0; id < sent; ++id) {
      const Request& r = server_.request(static_cast<RequestId>(id));
      p.pages_in_use += pages_for(r.kv_tokens, setting_.page_size);
      p.pages_held += r.pages;
      p.unfinished += r.state == Request::State::waiting || r.state == Request::State::prefilling ||
                      r.state == Request::State::running;
      run_.lives[id].retractions = r.retractions;
    }
    p.waiting = server_.waiting();
    p.running = server_.running();
    run_.passes.push_back(p);
  }

  std::size_t sent = 0;

 private:
  Run::Life& life(const Request& r) { return run_.lives[static_cast<std::size_t>(r.id)]; }
  const Setting& setting_;
  const Server& server_;
  Run& run_;
};

inline Run play(const Setting& s) {
  Run run;
  EngineSetup setup;
  setup.sizes.kv_tokens = Tokens(s.pages * s.page_size);
  setup.sizes.page_size = s.page_size;
  setup.sizes.max_running_requests = s.seats;
  setup.sizes.max_request_tokens = s.pages * s.page_size - 1;
  setup.sizes.loop_depth = s.depth;
  setup.sizes.graph_sizes = s.graph_sizes;
  SglangOptions options;
  options.max_running_requests = s.seats;
  options.chunked_prefill_size = s.chunk;
  options.schedule_conservativeness = s.conservativeness;
  options.max_prefill_tokens = 2 * s.chunk;
  setup.scheduler = std::make_unique<SglangScheduler>(options);

  LaunchCosts launch;
  launch.per_launch = launch.graph = s.launch;
  const fake::AffineStep step(s.base, s.per_token, launch);
  Simulation simulation;
  Server server(simulation, step.step(), setup, s.host, 0);
  Recorder recorder(s, server, run);
  server.subscribe(recorder);
  run.lives.resize(s.arrivals.size());
  for (const Arrival& a : s.arrivals)
    simulation.schedule(TimePoint::at(a.at), Phase::arrival, [&, a] {
      Run::Life& life = run.lives[recorder.sent++];
      life.sent = simulation.now();
      life.tokens_expected =
          std::min({a.output, a.max_new, setup.sizes.max_request_tokens - a.prompt - 1});
      server.send(a.prompt, a.max_new, a.output);
    });
  simulation.run();
  run.counts = server.counts();
  run.waiting_at_end = server.waiting();
  run.running_at_end = server.running();
  return run;
}

}  // namespace tiny
