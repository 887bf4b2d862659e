// Steps rebuilt from request times against the steps that made the times.

#include <algorithm>
#include <cmath>
#include <map>

#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include "calibrate/import/step_lattice.hpp"
#include "calibrate/import/step_times.hpp"
#include "sim/base/random.hpp"

namespace {

struct TrueStep {
  double end_s = 0, time_s = 0;
  std::int64_t prefill_tokens = 0;
  std::vector<std::int64_t> kv;
};

struct Run {
  std::vector<LoggedRequest> log;
  std::vector<TrueStep> steps;  // step k ends at boundary k
  std::vector<std::int64_t> first_at, last_at;
  int depth = 1;
};

// vLLM's rules in small: decode goes first, prompts share what is left of the budget, first come
// first served; what is scheduled at boundary k is done at boundary k + depth.
Run simulate(std::uint64_t seed, int depth, int requests, double jitter_us, double preempted) {
  RandomStream random(seed, "step lattice");
  const auto uniform = [&](std::int64_t least, std::int64_t most) {
    return least +
           static_cast<std::int64_t>(random.next() % static_cast<std::uint64_t>(most - least + 1));
  };
  const auto share = [&] { return static_cast<double>(uniform(0, 999'999)) / 1e6; };
  constexpr std::int64_t budget = 2048;
  struct Sequence {
    std::int64_t input, output, arrives, left, scheduled = -1, first = -1;
    std::int64_t last() const { return first + output - 1; }
  };
  std::vector<Sequence> all;
  std::int64_t at = 0;
  for (int i = 0; i < requests; ++i) {
    const std::int64_t input = uniform(1, i % 7 == 6 ? 5000 : 900);
    all.push_back({input, uniform(30, 200), at, input});
    at += uniform(0, 8);
  }
  Run out;
  out.depth = depth;
  std::map<std::int64_t, std::int64_t> prompts;  // step -> tokens
  std::size_t next = 0;                          // first that is not prefilled
  for (std::int64_t k = 0; next < all.size(); ++k) {
    std::int64_t left = budget;
    for (const auto& s : all)
      if (s.first >= 0 && s.first < k + depth && k + depth <= s.last()) --left;
    while (next < all.size() && all[next].arrives <= k && left > 0) {
      Sequence& s = all[next];
      if (s.scheduled < 0) s.scheduled = k;
      const auto chunk = std::min(s.left, left);
      s.left -= chunk;
      left -= chunk;
      prompts[k + depth] += chunk;
      if (s.left > 0) break;
      s.first = k + depth;
      ++next;
    }
  }
  std::int64_t end = 0;
  for (const auto& s : all) end = std::max(end, s.last());
  out.steps.resize(static_cast<std::size_t>(end) + 1);
  double now = 100;
  for (std::int64_t k = 0; k <= end; ++k) {
    TrueStep& step = out.steps[static_cast<std::size_t>(k)];
    if (const auto it = prompts.find(k); it != prompts.end()) step.prefill_tokens = it->second;
    for (const auto& s : all)
      if (s.first < k && k <= s.last()) step.kv.push_back(s.input + k - s.first);
    step.time_s = 0.010 + 1e-4 * static_cast<double>(step.kv.size()) +
                  4e-5 * static_cast<double>(step.prefill_tokens) + 1e-4 * share();
    step.end_s = now += step.time_s;
  }
  const auto noted = [&](std::int64_t boundary) {
    return out.steps[static_cast<std::size_t>(boundary)].end_s + jitter_us * 1e-6 * share();
  };
  for (const auto& s : all) {
    LoggedRequest r;
    r.id = std::to_string(out.log.size());
    r.input_tokens = s.input;
    r.output_tokens = s.output;
    r.queued = static_cast<double>(out.log.size());
    r.scheduled = noted(s.scheduled);
    r.first_token = noted(s.first);
    r.last_token = noted(s.last());
    if (share() < preempted) {
      r.preempted = true;  // and its tokens say nothing of its steps
      r.output_tokens = std::max<std::int64_t>(r.output_tokens - 7, 1);
    }
    out.log.push_back(r);
    out.first_at.push_back(s.first);
    out.last_at.push_back(s.last());
  }
  return out;
}

// Index of the lattice's step 0 in the run; every known first token must agree on it.
std::int64_t offset(const Run& run, const StepLattice& lattice) {
  std::int64_t out = -1;
  for (std::size_t i = 0; i < run.log.size(); ++i)
    if (lattice.index_of_first[i] >= 0) {
      const auto here = run.first_at[i] - lattice.index_of_first[i];
      if (out >= 0) RC_ASSERT(here == out);
      out = here;
    }
  RC_ASSERT(out >= 0);
  return out;
}

}  // namespace

TEST_CASE("law: steps that are rebuilt are the steps that made the log") {
  CHECK(rc::check([] {
    const auto seed = static_cast<std::uint64_t>(*rc::gen::inRange(0, 1'000'000));
    const int depth = *rc::gen::inRange(1, 3);
    const double jitter_us = *rc::gen::elementOf(std::vector<double>{0, 50, 200});
    const double preempted = *rc::gen::elementOf(std::vector<double>{0, 0.1});
    const Run run = simulate(seed, depth, 60, jitter_us, preempted);
    LatticeOptions options;
    options.by_time = false;  // nothing but what follows
    const StepLattice undecided = solve_lattice(run.log, options);
    const auto& at = undecided.conflicts_at;
    RC_ASSERT(at[static_cast<std::size_t>(depth)] == 0u);
    if (std::count(at.begin() + 1, at.end(), std::size_t{0}) == 1)
      RC_ASSERT(undecided.depth == depth);
    options.depth = depth;
    const StepLattice lattice = solve_lattice(run.log, options);
    RC_ASSERT(lattice.conflicts == 0u);
    RC_ASSERT(lattice.disordered == 0u);
    const auto zero = offset(run, lattice);
    std::size_t complete = 0;
    for (const LatticeStep& s : lattice.steps) {
      if (!s.complete) continue;
      ++complete;
      const TrueStep& truth = run.steps.at(static_cast<std::size_t>(s.index + zero));
      auto kv = s.kv, true_kv = truth.kv;
      std::sort(kv.begin(), kv.end());
      std::sort(true_kv.begin(), true_kv.end());
      RC_ASSERT(kv == true_kv);
      if (s.stretch == 1) {
        RC_ASSERT(std::abs(s.end_s - truth.end_s) <= 2e-4);
        RC_ASSERT(std::abs(s.time_s - truth.time_s) <= 2e-4 + 1e-9);
      }
    }
    RC_CLASSIFY(complete > lattice.steps.size() / 2, "more than half of the steps");
  }));
}

TEST_CASE("law: chunk times give back every step, whatever the jitter below the tolerance") {
  CHECK(rc::check([] {
    const auto seed = static_cast<std::uint64_t>(*rc::gen::inRange(0, 1'000'000));
    const Run run = simulate(seed, 1, 30, 0, 0);
    RandomStream random(seed, "chunks");
    std::vector<LoggedRequest> log = run.log;
    for (std::size_t i = 0; i < log.size(); ++i)
      for (auto k = run.first_at[i]; k <= run.last_at[i]; ++k)
        log[i].chunks.push_back(run.steps[static_cast<std::size_t>(k)].end_s +
                                1e-6 * static_cast<double>(random.next() % 200));
    const StepLattice lattice = solve_lattice(log, {});
    // where nobody decodes and nobody starts there is no chunk and no boundary
    const auto alive = [&](std::int64_t k) {
      for (std::size_t i = 0; i < log.size(); ++i)
        if (run.first_at[i] <= k && k <= run.last_at[i]) return true;
      return false;
    };
    std::size_t boundary = 0;
    for (std::int64_t k = 0; k < static_cast<std::int64_t>(run.steps.size()); ++k) {
      if (!alive(k)) continue;
      if (boundary > 0) {
        const LatticeStep& s = lattice.steps.at(boundary - 1);
        const TrueStep& truth = run.steps[static_cast<std::size_t>(k)];
        auto kv = s.kv, true_kv = truth.kv;
        std::sort(kv.begin(), kv.end());
        std::sort(true_kv.begin(), true_kv.end());
        RC_ASSERT(s.complete);
        RC_ASSERT(kv == true_kv);
        if (alive(k - 1)) RC_ASSERT(std::abs(s.time_s - truth.time_s) <= 2e-4 + 1e-9);
      }
      ++boundary;
    }
    RC_ASSERT(lattice.boundaries == boundary);
    RC_ASSERT(lattice.conflicts == 0u);
  }));
}

TEST_CASE("a log by hand: two requests, one step apart") {
  // Steps of 10 ms. A: scheduled at 0, first token at 20 ms (depth 2), 4 tokens, last at 50 ms.
  // B: scheduled at 20 ms, first at 40 ms, 3 tokens, last at 60 ms.
  const std::vector<LoggedRequest> log = {{"A", 0.0, 0.0, 0.020, 0.050, 100, 4, false, {}},
                                          {"B", 0.012, 0.020, 0.040, 0.060, 200, 3, false, {}}};
  const StepLattice l = solve_lattice(log, {500e-6, 2, 2048, false});
  CHECK(l.boundaries == 5);  // 0, 20, 40, 50, 60 ms
  CHECK(l.joined == 5);
  CHECK(l.conflicts == 0);
  CHECK(l.span == 6);
  REQUIRE(l.steps.size() == 6);
  // step 5 ends at 50 ms: A's fourth token on 103 tokens of KV, B's second on 201
  CHECK(l.steps[4].kv == std::vector<std::int64_t>{103, 201});
  CHECK(l.steps[4].time_s == Approx(0.010));
  CHECK(l.steps[3].prefill_tokens == 200);
  CHECK(l.steps[1].prefill_tokens == 100);
  const StepTables t = step_tables(l);
  REQUIRE(t.decode.size() == 1);
  CHECK(t.decode[0].steps == 2);  // the steps to 50 and 60 ms; 30 and 40 share one time
  CHECK(t.decode[0].measured_ms == Approx(10));
  REQUIRE(t.prefill.size() == 1);
  CHECK(t.prefill[0].measured_ms == Approx(10));  // 20 ms less a decode step
  CHECK(t.after_idle == 2);
}
