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
  listener_.on_clock(simulation_.now());
  for (std::size_t i = 0; i < plan_.requests.size(); ++i)
    simulation_.schedule_in(plan_.requests[i].send_at, Phase::arrival,
                            [this, i] { request_arrives(i); });
}

void Client::request_arrives(std::size_t index) {
  if (plan_.max_concurrency && under_way_ >= *plan_.max_concurrency)
    behind_semaphore_.push_back(index);
  else
    send(index);
}

void Client::send(std::size_t index) {
  ++under_way_;
  const PlannedRequest& r = plan_.requests[index];
  const RequestId id = server_.send(r.input, r.output, r.output);
  listener_.on_send(index, id, simulation_.now());
}

void Client::on_finish(const Request& request, TimePoint at_client) { done(request, at_client); }
void Client::on_reject(const Request& request, TimePoint at_client) { done(request, at_client); }

void Client::done(const Request&, TimePoint at_client) {
  simulation_.schedule(at_client, Phase::arrival, [this] {
    if (measuring_) {
      --under_way_;
      if (behind_semaphore_.empty()) return;
      const std::size_t next = behind_semaphore_.front();
      behind_semaphore_.pop_front();
      send(next);
    } else if (warmed_up_ < plan_.warm_up.size()) {
      warm_up();
    } else {
      simulation_.schedule_in(plan_.pause_after_warm_up, Phase::arrival, [this] { begin(); });
    }
  });
}
