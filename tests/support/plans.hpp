#pragma once

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/workload/workload.hpp"
#include "tests/support/hardware.hpp"

/// A plan with its requests, for workloads without sessions.
struct DrawnPlan : WorkloadPlan {
  std::vector<PlannedRequest> list;
};

inline WorkloadPlan read_plan(const std::string& kind_name, const std::string& options,
                              Reading& reading) {
  const WorkloadKind* kind = Registry<WorkloadKind>::find(kind_name);
  REQUIRE(kind);
  const Settings settings = yaml(options);
  Section section(settings, "workload", reading);
  return kind->plan(section);
}

inline WorkloadPlan read_plan(const std::string& kind_name, const std::string& options) {
  Reading reading;
  auto out = read_plan(kind_name, options, reading);
  INFO(reading.errors.render());
  REQUIRE(reading.errors.empty());
  return out;
}

inline DrawnPlan draw_plan(const std::string& kind_name, const std::string& options) {
  DrawnPlan out{read_plan(kind_name, options), {}};
  out.list = all_requests(out);
  return out;
}

inline Diagnostics plan_errors(const std::string& kind_name, const std::string& options) {
  Reading reading;
  read_plan(kind_name, options, reading);
  return reading.errors;
}

inline bool same_requests(const std::vector<PlannedRequest>& a,
                          const std::vector<PlannedRequest>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const PlannedRequest& x, const PlannedRequest& y) {
                      return x.input == y.input && x.output == y.output && x.send_at == y.send_at &&
                             std::ranges::equal(x.prompt.segments(), y.prompt.segments());
                    });
}
