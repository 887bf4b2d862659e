#pragma once

#include <deque>
#include <map>

#include "sim/engine/server.hpp"
#include "sim/workload/workload.hpp"

/// Plays a plan against a server: warm-up requests one by one, a pause, then the benchmark. Tells
/// when its clock started and which of the server's requests belong to the benchmark.
class Client final : public Observer {
 public:
  /// Heard by metrics: `index` counts the plan's requests.
  struct Listener {
    virtual ~Listener() = default;
    virtual void on_clock(TimePoint) {}
    virtual void on_send(std::size_t /*index*/, RequestId, TimePoint) {}
  };

  Client(Simulation& simulation, Server& server, const WorkloadPlan& plan, Listener& listener);
  void start();

  void on_finish(const Request& request, TimePoint at_client) override;
  void on_reject(const Request& request, TimePoint at_client) override;

 private:
  void warm_up();
  void begin();
  void pull();
  void request_arrives(PlannedRequest request);
  void send(const PlannedRequest& request);
  void done(const Request& request, TimePoint at_client);

  Simulation& simulation_;
  Server& server_;
  const WorkloadPlan& plan_;
  Listener& listener_;
  std::size_t warmed_up_ = 0;
  std::int64_t under_way_ = 0;
  std::unique_ptr<RequestSource> source_;
  std::size_t sent_ = 0;
  TimePoint clock_;
  std::deque<PlannedRequest> behind_semaphore_;
  bool measuring_ = false;
};
