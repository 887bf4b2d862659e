#include "sim/workload/client.hpp"

Client::Client(Simulation& simulation, Server& server, const WorkloadPlan& plan, Listener& listener)
    : simulation_(simulation), server_(server), plan_(plan), listener_(listener) {
  server.subscribe(*this);
}

void Client::start() {
  if (plan_.warm_up.empty())
    begin();
  else
    warm_up();
}

void Client::warm_up() {
  const PlannedRequest& r = plan_.warm_up[warmed_up_++];
  server_.send(r.input, r.output, r.output);
}

void Client::begin() {
  measuring_ = true;
  clock_ = simulation_.now();
  listener_.on_clock(clock_);
  source_ = plan_.source();
  pull();
}

void Client::pull() {
  PlannedRequest r;
  if (!source_->next(r)) return;
  const TimePoint at = clock_ + r.send_at;
  simulation_.schedule(at, Phase::arrival, [this, r] {
    request_arrives(r);
    pull();
  });
}

void Client::request_arrives(PlannedRequest request) {
  if (plan_.max_concurrency && under_way_ >= *plan_.max_concurrency)
    behind_semaphore_.push_back(std::move(request));
  else
    send(request);
}

void Client::send(const PlannedRequest& r) {
  ++under_way_;
  const RequestId id = server_.send(r.input, r.limit(), r.output);
  listener_.on_send(sent_++, id, simulation_.now());
}

void Client::on_finish(const Request& request, TimePoint at_client) { done(request, at_client); }
void Client::on_reject(const Request& request, TimePoint at_client) { done(request, at_client); }

void Client::done(const Request&, TimePoint at_client) {
  simulation_.schedule(at_client, Phase::arrival, [this] {
    if (measuring_) {
      --under_way_;
      if (behind_semaphore_.empty()) return;
      const PlannedRequest next = behind_semaphore_.front();
      behind_semaphore_.pop_front();
      send(next);
    } else if (warmed_up_ < plan_.warm_up.size()) {
      warm_up();
    } else {
      simulation_.schedule_in(plan_.pause_after_warm_up, Phase::arrival, [this] { begin(); });
    }
  });
}
