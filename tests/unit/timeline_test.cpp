#include "sim/step/timeline.hpp"

#include <vector>

#include <rapidcheck.h>
#include <catch2/catch.hpp>

namespace {

/// One kernel: what the host pays to issue it, and how long it runs.
struct Kernel {
  Duration launch, time;
};

/// When host and stream are free.
struct State {
  Duration host, stream;
};

// The definition, kernel by kernel: a kernel starts when it has been issued and the stream is free.
State play(const std::vector<Kernel>& kernels, State s) {
  for (const Kernel& k : kernels) {
    s.host += k.launch;
    s.stream = std::max(s.stream, s.host) + k.time;
  }
  return s;
}

// The same from the closed form.
State play(const Timeline& t, State s) {
  return {s.host + t.host, std::max(s.stream + t.device, s.host + t.span)};
}

Timeline closed_form(const std::vector<Kernel>& kernels) {
  Timeline t;
  for (const Kernel& k : kernels) t = t.then(Timeline::kernels(1, k.launch, k.time));
  return t;
}

Duration us(int n) { return Duration::from_us(n); }

std::vector<Kernel> draw_kernels(int least) {
  std::vector<Kernel> out;
  const int n = *rc::gen::inRange(least, 7);
  for (int i = 0; i < n; ++i)
    out.push_back({us(*rc::gen::inRange(0, 12)), us(*rc::gen::inRange(0, 12))});
  return out;
}

State draw_state() { return {us(*rc::gen::inRange(0, 40)), us(*rc::gen::inRange(0, 40))}; }

bool same(const Timeline& a, const Timeline& b) {
  return a.host == b.host && a.device == b.device && a.span == b.span;
}

}  // namespace

TEST_CASE("a timeline of kernels ends host and stream when a kernel by kernel simulation does") {
  CHECK(rc::check([] {
    const auto kernels = draw_kernels(1);
    const State start = draw_state();
    const State truth = play(kernels, start), answer = play(closed_form(kernels), start);
    RC_ASSERT(truth.host == answer.host);
    RC_ASSERT(truth.stream == answer.stream);
  }));
}

TEST_CASE("n equal kernels in closed form are n kernels one after the other") {
  CHECK(rc::check([] {
    const int n = *rc::gen::inRange(1, 20);
    const Duration launch = us(*rc::gen::inRange(0, 12)), each = us(*rc::gen::inRange(0, 12));
    const std::vector<Kernel> kernels(static_cast<std::size_t>(n), {launch, each});
    const State start = draw_state();
    const State truth = play(kernels, start);
    const State answer = play(Timeline::kernels(n, launch, n * each), start);
    RC_ASSERT(truth.host == answer.host);
    RC_ASSERT(truth.stream == answer.stream);
  }));
}

TEST_CASE("timelines compose in any grouping") {
  CHECK(rc::check([] {
    const auto a = closed_form(draw_kernels(1)), b = closed_form(draw_kernels(1)),
               c = closed_form(draw_kernels(1));
    RC_ASSERT(same(a.then(b).then(c), a.then(b.then(c))));
  }));
}

TEST_CASE("an empty timeline changes nothing on either side") {
  CHECK(rc::check([] {
    const auto a = closed_form(draw_kernels(1));
    RC_ASSERT(same(a.then(Timeline()), a));
    RC_ASSERT(same(Timeline().then(a), a));
  }));
}

TEST_CASE("a timeline repeated n times is n timelines in a row") {
  CHECK(rc::check([] {
    const auto layer = closed_form(draw_kernels(1));
    const int n = *rc::gen::inRange(0, 12);
    Timeline row;
    for (int i = 0; i < n; ++i) row = row.then(layer);
    RC_ASSERT(same(layer.repeated(n), row));
  }));
}

TEST_CASE("dearer launches and slower kernels never end earlier") {
  CHECK(rc::check([] {
    auto kernels = draw_kernels(1);
    const State start = draw_state();
    const State before = play(closed_form(kernels), start);
    auto& k = kernels[*rc::gen::inRange<std::size_t>(0, kernels.size())];
    k.launch += us(*rc::gen::inRange(0, 5));
    k.time += us(*rc::gen::inRange(0, 5));
    const State after = play(closed_form(kernels), start);
    RC_ASSERT(after.host >= before.host);
    RC_ASSERT(after.stream >= before.stream);
  }));
}

TEST_CASE("launches race the GPU and the slower one sets the pace") {
  // 10 kernels of 3 us, launched every 5 us: the last is issued at 50 us and ends at 53 us.
  const auto host_bound = Timeline::kernels(10, us(5), us(30));
  CHECK(host_bound.span == us(53));
  CHECK(host_bound.host == us(50));
  // Launched every 2 us: the first starts at 2 us, then 30 us of kernels back to back.
  const auto gpu_bound = Timeline::kernels(10, us(2), us(30));
  CHECK(gpu_bound.span == us(32));
  CHECK(gpu_bound.host == us(20));
  // Ten layers of the first: 500 us on the host, and only the last kernel sticks out.
  CHECK(host_bound.repeated(10).span == us(503));
  // Ten of the second: 300 us of kernels after the first launch.
  CHECK(gpu_bound.repeated(10).span == us(302));
}
