// Laws of concurrent copies: what holds on any box, whatever its links carry.

#include "hardware/topology/copies.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include "sim/scenario/data.hpp"
#include "tests/support/hardware.hpp"

namespace {

const Bytes big = 256_MiB;

double gbps(const Topology& t, const std::vector<Copy>& copies, const CopyOptions& options = {}) {
  return run_copies(t, copies, options).aggregate.count() / 1e9;
}

Copy copy(int from, int to) { return {from, to, big}; }

/// A box of some shape with whole numbers of GB/s.
Topology random_box() {
  const int gpus = 2 * *rc::gen::inRange(1, 5);
  const int port = *rc::gen::inRange(10, 60), up = *rc::gen::inRange(5, 120);
  switch (*rc::gen::inRange(0, 3)) {
    case 0:
      return flat_box(gpus, 5, port, up);
    case 1:
      return two_switches(gpus, 5, port, up);
    default:
      return two_sockets(gpus, 5, port, up, 200);
  }
}

int gpus(const Topology& t) { return static_cast<int>(t.gpus().size()); }

std::vector<Copy> random_copies(const Topology& t) {
  std::vector<Copy> out;
  const int n = *rc::gen::inRange(1, 10);
  for (int i = 0; i < n; ++i) {
    const int from = *rc::gen::inRange(-1, gpus(t));
    int to = *rc::gen::inRange(-1, gpus(t));
    if (from == to) to = from == 0 ? 1 : 0;
    out.push_back({from, to, Bytes(*rc::gen::inRange(1, 1000) * 1'000'000)});
  }
  return out;
}

CopyOptions random_options() {
  CopyOptions o;
  o.p2p = *rc::gen::inRange(0, 3) > 0;
  if (*rc::gen::inRange(0, 3) == 0) o.mover = Mover::sm_stores;
  o.sm_within_switch = *rc::gen::arbitrary<bool>();
  if (*rc::gen::inRange(0, 3) == 0) o.staging_capacity = BytesPerSecond(20e9);
  return o;
}

std::vector<Machine> machines() {
  std::vector<Machine> out;
  for (const auto& name : data_names("hardware/machines")) out.push_back(load_machine(name));
  return out;
}

}  // namespace

TEST_CASE("a wider link never slows a copy that is alone") {
  CHECK(rc::check("any box", [] {
    const Topology t = random_box();
    const CopyOptions options = random_options();
    const int from = *rc::gen::inRange(0, gpus(t));
    const int to = (from + *rc::gen::inRange(1, gpus(t))) % gpus(t);
    const double before = gbps(t, {copy(from, to)}, options);
    Topology wider = t;
    auto& link = wider.link(*rc::gen::inRange(0, static_cast<int>(t.links().size())));
    link.bandwidth.value = link.bandwidth.value * (1.0 * *rc::gen::inRange(2, 6));
    RC_ASSERT(gbps(wider, {copy(from, to)}, options) >= before * (1 - 1e-9));
  }));
}

TEST_CASE("a further cable beside a link never slows a copy that is alone") {
  CHECK(rc::check("parallel links", [] {
    const Topology t = random_box();
    const CopyOptions options = random_options();
    const int from = *rc::gen::inRange(0, gpus(t));
    const int to = (from + *rc::gen::inRange(1, gpus(t))) % gpus(t);
    Topology more = t;
    more.add(t.link(*rc::gen::inRange(0, static_cast<int>(t.links().size()))));
    RC_ASSERT(gbps(more, {copy(from, to)}, options) >=
              gbps(t, {copy(from, to)}, options) * (1 - 1e-9));
  }));
}

TEST_CASE("all together move no more than the links allow, and every byte arrives") {
  CHECK(rc::check("any copies", [] {
    const Topology t = random_box();
    const auto copies = random_copies(t);
    const CopyOptions options = random_options();
    const CopiesOutcome out = run_copies(t, copies, options);
    RC_ASSERT(out.copies.size() == copies.size());
    double bytes = 0;
    // Over the whole run, bytes over each direction of each link.
    std::vector<double> carried(t.links().size() * 2);
    for (std::size_t c = 0; c < copies.size(); ++c) {
      bytes += copies[c].bytes.real();
      // A time and its rate give back the bytes.
      RC_ASSERT(std::abs(out.copies[c].rate.count() * out.copies[c].time.seconds() /
                             copies[c].bytes.real() -
                         1) < 1e-6);
      RC_ASSERT(out.copies[c].time <= out.time);
      const auto& gpu = t.gpus();
      const auto at = [&](int rank) { return gpu[static_cast<std::size_t>(rank)]; };
      Route route;
      if (copies[c].from == Copy::host)
        route = t.route(t.nearest_memory(at(copies[c].to)), at(copies[c].to));
      else if (copies[c].to == Copy::host)
        route = t.route(at(copies[c].from), t.nearest_memory(at(copies[c].from)));
      else if (out.copies[c].staged)
        route = t.staged_route(at(copies[c].from), at(copies[c].to));
      else
        route = t.peer_route(at(copies[c].from), at(copies[c].to));
      for (const Hop& hop : route)
        carried[static_cast<std::size_t>(hop.link) * 2 + (hop.forward ? 0 : 1)] +=
            copies[c].bytes.real();
    }
    RC_ASSERT(std::abs(out.aggregate.count() * out.time.seconds() / bytes - 1) < 1e-6);
    for (std::size_t l = 0; l < t.links().size(); ++l) {
      const double capacity = t.links()[l].bandwidth.value.count() * out.time.seconds();
      RC_ASSERT(carried[2 * l] <= capacity * (1 + 1e-6));
      RC_ASSERT(carried[2 * l + 1] <= capacity * (1 + 1e-6));
      if (t.links()[l].kind == "pcie")
        RC_ASSERT(carried[2 * l] + carried[2 * l + 1] <= 2 * 0.965 * capacity * (1 + 1e-6));
    }
  }));
}

TEST_CASE("on a symmetric box it does not matter which GPUs copy") {
  CHECK(rc::check("renaming GPUs", [] {
    // One copy per GPU: where several wait, the order of service is drawn by the GPU's number.
    const int n = 2 * *rc::gen::inRange(1, 5);
    const Topology t = flat_box(n, 5, *rc::gen::inRange(10, 60), *rc::gen::inRange(5, 120));
    std::vector<int> to(static_cast<std::size_t>(n)), name(static_cast<std::size_t>(n));
    std::iota(name.begin(), name.end(), 0);
    for (std::size_t i = name.size(); i > 1; --i)
      std::swap(name[i - 1], name[*rc::gen::inRange<std::size_t>(0, i)]);
    std::vector<Copy> copies, renamed;
    for (int i = 0; i < n; ++i) {
      const int target = (i + *rc::gen::inRange(1, n)) % n;
      copies.push_back(copy(i, target));
      renamed.push_back(
          copy(name[static_cast<std::size_t>(i)], name[static_cast<std::size_t>(target)]));
    }
    const CopyOptions options = random_options();
    const auto a = run_copies(t, copies, options), b = run_copies(t, renamed, options);
    RC_ASSERT(std::abs(a.aggregate.count() / b.aggregate.count() - 1) < 1e-9);
    for (std::size_t c = 0; c < copies.size(); ++c)
      RC_ASSERT(std::abs(a.copies[c].rate.count() / b.copies[c].rate.count() - 1) < 1e-9);
  }));
}

TEST_CASE("without P2P every way between two GPUs passes host memory, in a guest as on metal") {
  for (const Machine& m : machines()) {
    CopyOptions options = copy_options(m);
    options.p2p = false;
    if (m.gpu_count() > 1 && !m.interconnect.p2p_capable) CHECK_FALSE(copy_options(m).p2p);
    for (int a = 0; a < m.gpu_count(); ++a)
      for (int b = 0; b < m.gpu_count(); ++b) {
        if (a == b) continue;
        INFO(m.id << " " << a << " to " << b);
        REQUIRE(is_staged(m.topology, a, b, options));
        const auto way = m.topology.staged_route(m.topology.gpus()[static_cast<std::size_t>(a)],
                                                 m.topology.gpus()[static_cast<std::size_t>(b)]);
        std::size_t memories = 0;
        for (const Hop& hop : way) {
          const Link& link = m.topology.link(hop.link);
          const DeviceId at = hop.forward ? link.b : link.a;
          memories +=
              m.topology.devices()[static_cast<std::size_t>(at)].kind == DeviceKind::host_memory;
        }
        REQUIRE(memories == 1);
      }
    if (m.gpu_count() > 1) CHECK(run_copies(m.topology, {copy(0, 1)}, options).copies[0].staged);
  }
}

TEST_CASE("where the links inside carry anything, only the ports limit") {
  CHECK(rc::check("shifts", [] {
    const int port = *rc::gen::inRange(10, 60), n = 2 * *rc::gen::inRange(1, 5);
    const Topology t = two_switches(n, 5, port, no_limit_gbps);
    const int shift = *rc::gen::inRange(1, n);
    std::vector<Copy> copies;
    for (int i = 0; i < n; ++i) copies.push_back(copy(i, (i + shift) % n));
    // Each port sends one copy and receives one: 0.965 of it each way.
    RC_ASSERT(gbps(t, copies) == Approx(0.965 * port * n));
    RC_ASSERT(gbps(t, {copy(0, n - 1)}) == Approx(port));
  }));
}

TEST_CASE("of a link's three limits each is reached alone") {
  Topology t = flat_box(2, 5, 50);
  t.link(0).back = BytesPerSecond(40e9);
  CHECK(gbps(t, {copy(0, 1)}) == Approx(50));  // gpu0's port forward, gpu1's port back
  CHECK(gbps(t, {copy(1, 0)}) == Approx(40));
  CHECK(run_copies(t, {copy(1, 0)}, {}).limit == "root > gpu0");
  t.link(0).back.reset();
  CHECK(gbps(t, {copy(0, 1), copy(1, 0)}) == Approx(2 * 0.965 * 50));
  t.link(1).duplex = BytesPerSecond(60e9);
  CHECK(gbps(t, {copy(0, 1), copy(1, 0)}) == Approx(60));
  CHECK(run_copies(t, {copy(0, 1), copy(1, 0)}, {}).limit == "gpu1 <> root");
}

TEST_CASE("a GPU sends one copy at a time, a kernel's stores go all at once") {
  const Topology t = flat_box(4, 5, 50);
  const auto queued = run_copies(t, {copy(0, 1), copy(0, 2)}, {});
  // The port is never idle, whichever of the two is served.
  CHECK(queued.aggregate.count() == Approx(50e9));
  for (const auto& c : queued.copies) CHECK(c.rate.count() < 50e9);
  CopyOptions stores;
  stores.mover = Mover::sm_stores;
  // Two flows share gpu0's port, of which a dense pattern leaves 0.95.
  for (const auto& c : run_copies(t, {copy(0, 1), copy(0, 2)}, stores).copies)
    CHECK(c.rate.count() == Approx(0.95 * 25e9));
  // Sending to the host and fetching from it are two engines.
  CHECK(gbps(t, {copy(0, Copy::host), copy(Copy::host, 0)}) == Approx(2 * 0.965 * 50));
}

TEST_CASE("a staged copy goes down and up in turn, and loads both halves") {
  const Topology t = flat_box(4, 5, 54, 100);
  CopyOptions off;
  off.p2p = false;
  CHECK(gbps(t, {copy(0, 1)}, off) == Approx(27));  // 1 / (1/54 + 1/54)
  // Four of them want 108 of the memory's 100 each way.
  std::vector<Copy> shift;
  for (int i = 0; i < 4; ++i) shift.push_back(copy(i, (i + 1) % 4));
  CHECK(gbps(t, shift, off) == Approx(100));
  off.staging_capacity = BytesPerSecond(22e9);
  CHECK(gbps(t, shift, off) == Approx(22));
  CHECK(run_copies(t, shift, off).limit == "staging capacity");
  CHECK(copy_latency(t, 0, 1, off).us() == Approx(14));
  CHECK(copy_latency(t, 0, 1, {}).us() == Approx(0.8));  // two ports of 400 ns
}

TEST_CASE("P2P may be missing between some GPUs, and stores may stop at the switch") {
  const Topology t = two_switches(4, 5, 50, 50);
  CopyOptions some;
  some.p2p_off = {{2, 0}};
  CHECK(is_staged(t, 0, 2, some));
  CHECK(is_staged(t, 2, 0, some));
  CHECK_FALSE(is_staged(t, 0, 1, some));
  CopyOptions within;
  within.sm_within_switch = true;
  CHECK_FALSE(is_staged(t, 0, 2, within));
  within.mover = Mover::sm_stores;
  CHECK(is_staged(t, 0, 2, within));
  CHECK_FALSE(is_staged(t, 0, 1, within));
}

TEST_CASE("with ACS redirect a pair of one switch crosses the uplink twice") {
  Topology t = two_switches(4, 5, 53.8, 53.8);
  CHECK(gbps(t, {copy(0, 1), copy(1, 0)}) == Approx(0.965 * 2 * 53.8));
  t.redirect_all();
  // Up and down for either copy: the uplink carries both copies in both directions.
  CHECK(gbps(t, {copy(0, 1), copy(1, 0)}) == Approx(0.965 * 53.8));
  CHECK(gbps(t, {copy(0, 1)}) == Approx(0.965 * 53.8));
  CHECK(gbps(t, {copy(0, 2)}) == Approx(53.8));  // goes up anyway
}

TEST_CASE("two writers of a switch to two root ports collapse, to one they do not") {
  const Machine m = load_machine("8x-rtx-pro-6000-2-broadcom");
  CHECK(gbps(m.topology, {copy(0, 4), copy(1, 6)}) == Approx(2.7));
  CHECK(gbps(m.topology, {copy(0, 4), copy(1, 5)}) == Approx(38.2));
  CHECK(gbps(m.topology, {copy(0, 4), copy(0, 6)}) > 30);   // one writer
  CHECK(gbps(m.topology, {copy(0, 1), copy(1, 0)}) > 100);  // below the switch
  CopyOptions stores;
  stores.mover = Mover::sm_stores;
  CHECK(gbps(m.topology, {copy(0, 4), copy(1, 6)}, stores) == Approx(1.2));
}

TEST_CASE("every shipped machine joins all its GPUs, with matrices as symmetric as its links") {
  for (const Machine& m : machines()) {
    const bool symmetric = std::none_of(m.topology.links().begin(), m.topology.links().end(),
                                        [](const Link& l) { return l.back.has_value(); });
    const auto one_way = copy_matrix(m.topology, copy_options(m), false);
    const auto both = copy_matrix(m.topology, copy_options(m), true);
    for (std::size_t i = 0; i < one_way.size(); ++i)
      for (std::size_t j = 0; j < one_way.size(); ++j) {
        if (i == j) continue;
        INFO(m.id << " " << i << " to " << j);
        REQUIRE(one_way[i][j].count() > 1e9);
        if (symmetric) REQUIRE(one_way[i][j].count() == Approx(one_way[j][i].count()));
        REQUIRE(both[i][j] == both[j][i]);
        REQUIRE(both[i][j].count() <= (one_way[i][j] + one_way[j][i]).count() * (1 + 1e-9));
        REQUIRE(both[i][j].count() >= std::min(one_way[i][j], one_way[j][i]).count() * (1 - 1e-9));
      }
  }
}

TEST_CASE("copies are the same every time, also where an order of service is drawn") {
  const Topology t = two_switches(8, 5, 56, 56);
  std::vector<int> all(8);
  std::iota(all.begin(), all.end(), 0);
  const auto copies = each_to_each(all, all, big);
  CHECK(copies.size() == 56);
  CHECK(run_copies(t, copies, {}).aggregate == run_copies(t, copies, {}).aggregate);
}
