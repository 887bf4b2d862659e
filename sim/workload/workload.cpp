#include "sim/workload/workload.hpp"

std::int64_t WorkloadPlan::input_tokens() const {
  std::int64_t sum = 0;
  for (const auto& r : requests) sum += r.input;
  return sum;
}

std::int64_t WorkloadPlan::output_tokens() const {
  std::int64_t sum = 0;
  for (const auto& r : requests) sum += r.output;
  return sum;
}
