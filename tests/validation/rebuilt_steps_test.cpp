// Steps rebuilt from a served run: Llama-3.1-8B, vLLM 0.19, RTX PRO 6000, 300 requests
// (casys-kaist/LLMServingSim @5daddb2).

#include <map>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "calibrate/import/request_log.hpp"
#include "calibrate/import/step_times.hpp"
#include "tests/support/paths.hpp"

TEST_CASE("the served run of Llama-3.1-8B joins into 2,388 steps at depth 2 without a conflict") {
  const auto file = shared_file("data/serving/requests_sm120_vllm019.csv");
  if (!file) return;
  RequestLogOptions options;
  options.run = "RTXPRO6000/Llama-3.1-8B";
  const auto log = read_request_log(*file, options);
  if (!log) FAIL(log.error().render());
  CHECK(log->requests.size() == 300);
  CHECK(log->form == "request times");
  LatticeOptions o;
  o.tolerance_s = 500e-6;
  const StepLattice l = solve_lattice(log->requests, o);
  // All but the first scheduled time, before which nothing happened.
  CHECK(l.boundaries == 540);
  CHECK(l.joined == 539);
  CHECK(l.span == 2388);
  CHECK(l.depth == 2);
  CHECK(l.conflicts == 0);
  CHECK(l.disordered == 0);
  CHECK(l.conflicts_at[1] >= 15);
  CHECK(l.conflicts_at[3] >= 15);

  // Mean ms of decode-only steps. The study that found the method has the same rows, with 171 steps
  // of 1-2 sequences (11.43 ms) and 809 of 128 (27.99 ms); it placed one part elsewhere.
  struct Row {
    std::int64_t most;
    std::size_t steps;
    double ms;
  };
  const std::vector<Row> rows = {
      {2, 187, 11.44},  {16, 166, 13.49}, {32, 90, 16.49}, {40, 105, 18.62}, {48, 80, 21.09},
      {56, 104, 21.12}, {64, 27, 22.60},  {72, 56, 21.90}, {80, 40, 22.69},  {128, 812, 27.89}};
  const StepTables t = step_tables(l);
  for (const Row& row : rows) {
    bool found = false;
    for (const auto& measured : t.decode)
      if (measured.most == row.most) {
        INFO(row.most << " sequences: " << measured.steps << " steps of " << measured.measured_ms);
        CHECK(measured.steps == row.steps);
        CHECK(measured.measured_ms == Approx(row.ms).margin(0.005));
        found = true;
      }
    INFO(row.most);
    CHECK(found);
  }
  CHECK(t.incomplete == 0);
}

TEST_CASE("the preempted run on the RTX 4090 says that its log contradicts itself") {
  const auto file = shared_file("data/serving/requests_sm120_vllm019.csv");
  if (!file) return;
  RequestLogOptions options;
  options.run = "RTX4090/Llama-3.1-8B";
  const auto log = read_request_log(*file, options);
  if (!log) FAIL(log.error().render());
  LatticeOptions o;
  o.tolerance_s = 500e-6;
  const StepLattice l = solve_lattice(log->requests, o);
  CHECK(l.depth == 2);
  CHECK(l.conflicts > 0);
}
