#include <algorithm>
#include <cmath>

#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include "hardware/topology/topology.hpp"
#include "tests/support/hardware.hpp"

namespace {

double whole_link(const Link&) { return 1; }

std::vector<double> rates(const Topology& t, const std::vector<Route>& flows,
                          double (*efficiency)(const Link&) = whole_link) {
  std::vector<double> out;
  for (const auto r : max_min_rates(t, flows, efficiency)) out.push_back(r.count() / 1e9);
  return out;
}

double least(const std::vector<double>& v) { return *std::min_element(v.begin(), v.end()); }

/// Links side by side: fairness does not ask how they hang together.
Topology links(const std::vector<int>& gbps) {
  Topology t;
  const auto a = t.add({"a", DeviceKind::root_complex});
  const auto b = t.add({"b", DeviceKind::root_complex});
  for (const int g : gbps) t.add(make_link(a, b, "pcie", g));
  return t;
}

struct Case {
  std::vector<int> gbps;
  std::vector<Route> flows;
};

std::size_t direction(const Hop& hop) {
  return static_cast<std::size_t>(hop.link) * 2 + (hop.forward ? 0 : 1);
}

/// A few links, a few flows, each over some directions at most once.
Case random_case() {
  Case c;
  c.gbps = *rc::gen::nonEmpty(
      rc::gen::resize(5, rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 60))));
  const int flows = *rc::gen::inRange(1, 7);
  for (int f = 0; f < flows; ++f) {
    Route route;
    for (int l = 0; l < static_cast<int>(c.gbps.size()); ++l) {
      const int use = *rc::gen::inRange(0, 4);
      if (use == 1) route.push_back({l, true});
      if (use == 2) route.push_back({l, false});
    }
    if (route.empty()) route.push_back({0, true});
    c.flows.push_back(route);
  }
  return c;
}

/// What each direction carries.
std::vector<double> loads(const Case& c, const std::vector<double>& rate) {
  std::vector<double> out(c.gbps.size() * 2);
  for (std::size_t f = 0; f < c.flows.size(); ++f)
    for (const Hop& hop : c.flows[f]) out[direction(hop)] += rate[f];
  return out;
}

}  // namespace

TEST_CASE("flows alone on their links get all of the tightest") {
  const Topology t = links({50, 20, 30});
  CHECK(rates(t, {{{0, true}, {1, true}}, {{2, true}}}) == std::vector<double>{20, 30});
}

TEST_CASE("max-min fairness of three flows over two links, by hand") {
  // Link 0 has 10 GB/s, link 1 has 30. A uses both, B link 0, C link 1.
  // All grow to 5: link 0 is full, A and B stay. C takes what A leaves of link 1: 30 - 5 = 25.
  const Topology t = links({10, 30});
  CHECK(rates(t, {{{0, true}, {1, true}}, {{0, true}}, {{1, true}}}) ==
        std::vector<double>{5, 5, 25});
}

TEST_CASE("max-min fairness of two bottlenecks in a row, by hand") {
  // Link 0: 12 GB/s for A, B, C: 4 each. Link 1: 20 for C, D: C stays at 4, D takes 16 of it, but
  // link 2 lets only 9 of D through.
  const Topology t = links({12, 20, 9});
  CHECK(rates(t, {{{0, true}}, {{0, true}}, {{0, true}, {1, true}}, {{1, true}, {2, true}}}) ==
        std::vector<double>{4, 4, 4, 9});
}

TEST_CASE("the two directions of a link do not share") {
  const Topology t = links({50});
  CHECK(rates(t, {{{0, true}}, {{0, false}}}) == std::vector<double>{50, 50});
  CHECK(rates(t, {{{0, true}}, {{0, true}}}) == std::vector<double>{25, 25});
}

TEST_CASE("a flow over no link is not limited") {
  const Topology t = links({50});
  CHECK(std::isinf(rates(t, {{}, {{0, true}}})[0]));
  CHECK(rates(t, {{}, {{0, true}}})[1] == 50);
  CHECK(max_min_rates(t, {}, whole_link).empty());
}

TEST_CASE("an efficiency scales the links it is asked about") {
  Topology t = links({50, 40});
  t.link(1).kind = "memory";
  const auto efficiency = [](const Link& link) { return link.kind == "memory" ? 1.0 : 0.5; };
  CHECK(rates(t, {{{0, true}}, {{1, true}}}, efficiency) == std::vector<double>{25, 40});
}

TEST_CASE("eight staged hops of a ring share one memory: an eighth each way") {
  // The home machine's shape: every rank writes once and reads once, so each direction of the
  // memory link carries eight flows.
  const Topology t = flat_box(8, 4, 53.4, 24);
  std::vector<Route> hops;
  for (std::size_t r = 0; r < 8; ++r)
    hops.push_back(t.staged_route(t.gpus()[r], t.gpus()[(r + 1) % 8]));
  for (const double rate : rates(t, hops)) CHECK(rate == Approx(3).epsilon(1e-12));
}

TEST_CASE("a ring through two switches crosses each uplink once per direction") {
  const Topology t = two_switches(8, 5, 56, 40);
  std::vector<Route> hops;
  for (std::size_t r = 0; r < 8; ++r) hops.push_back(t.route(t.gpus()[r], t.gpus()[(r + 1) % 8]));
  const auto rate = rates(t, hops);
  for (std::size_t r = 0; r < 8; ++r) CHECK(rate[r] == Approx(r == 3 || r == 7 ? 40 : 56));
}

TEST_CASE(
    "no link carries more than its capacity, and every flow waits for a full link on which nobody "
    "is faster") {
  CHECK(rc::check("feasible and max-min", [] {
    const Case c = random_case();
    const auto rate = rates(links(c.gbps), c.flows);
    const auto load = loads(c, rate);
    for (std::size_t d = 0; d < load.size(); ++d) RC_ASSERT(load[d] <= c.gbps[d / 2] * (1 + 1e-9));
    for (std::size_t f = 0; f < c.flows.size(); ++f) {
      RC_ASSERT(rate[f] > 0);
      bool held = false;
      for (const Hop& hop : c.flows[f]) {
        const auto d = direction(hop);
        bool fastest = load[d] >= c.gbps[d / 2] * (1 - 1e-9);
        for (std::size_t g = 0; g < c.flows.size(); ++g)
          for (const Hop& other : c.flows[g])
            if (direction(other) == d) fastest = fastest && rate[g] <= rate[f] * (1 + 1e-9);
        held = held || fastest;
      }
      RC_ASSERT(held);
    }
  }));
}

TEST_CASE("more bandwidth on any link never lowers the slowest flow") {
  CHECK(rc::check("the minimum grows", [] {
    const Case c = random_case();
    auto more = c.gbps;
    more[*rc::gen::inRange<std::size_t>(0, more.size())] += *rc::gen::inRange(1, 40);
    RC_ASSERT(least(rates(links(more), c.flows)) >=
              least(rates(links(c.gbps), c.flows)) * (1 - 1e-9));
  }));
}

TEST_CASE("another flow never speeds the slowest one up, and one flow less never slows it down") {
  CHECK(rc::check("the minimum falls", [] {
    const Case c = random_case();
    RC_PRE(c.flows.size() > 1);
    auto fewer = c.flows;
    fewer.pop_back();
    RC_ASSERT(least(rates(links(c.gbps), c.flows)) <=
              least(rates(links(c.gbps), fewer)) * (1 + 1e-9));
  }));
}

TEST_CASE("rates follow their flows through any order, and equal flows are equally fast") {
  CHECK(rc::check("symmetry", [] {
    const Case c = random_case();
    auto flows = c.flows;
    std::reverse(flows.begin(), flows.end());
    auto back = rates(links(c.gbps), flows);
    std::reverse(back.begin(), back.end());
    const auto rate = rates(links(c.gbps), c.flows);
    for (std::size_t f = 0; f < rate.size(); ++f)
      RC_ASSERT(std::abs(rate[f] - back[f]) <= 1e-9 * rate[f]);
    flows = c.flows;
    flows.push_back(flows.front());
    const auto twins = rates(links(c.gbps), flows);
    RC_ASSERT(std::abs(twins.front() - twins.back()) <= 1e-9 * twins.front());
  }));
}

TEST_CASE("links of k times the bandwidth make every flow k times as fast") {
  CHECK(rc::check("scale", [] {
    const Case c = random_case();
    auto tripled = c.gbps;
    for (int& g : tripled) g *= 3;
    const auto one = rates(links(c.gbps), c.flows), three = rates(links(tripled), c.flows);
    for (std::size_t f = 0; f < one.size(); ++f)
      RC_ASSERT(std::abs(three[f] - 3 * one[f]) <= 1e-9 * three[f]);
  }));
}
