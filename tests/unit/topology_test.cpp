#include "hardware/topology/topology.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include "tests/support/hardware.hpp"

namespace {

/// The devices that a route walks, its two ends included; empty when its hops do not join.
std::vector<DeviceId> walk(const Topology& t, DeviceId from, const Route& route) {
  std::vector<DeviceId> out = {from};
  for (const Hop& hop : route) {
    const Link& link = t.link(hop.link);
    if ((hop.forward ? link.a : link.b) != out.back()) return {};
    out.push_back(hop.forward ? link.b : link.a);
  }
  return out;
}

bool forwards(const Device& d) {
  return d.kind != DeviceKind::gpu && d.kind != DeviceKind::host_memory;
}

std::int64_t latency(const Topology& t, const Route& route) {
  std::int64_t ps = 0;
  for (const Hop& hop : route) ps += t.link(hop.link).latency.ps();
  return ps;
}

/// Least latency between two devices by exhaustive relaxation; -1 when there is no way.
std::int64_t least_latency(const Topology& t, DeviceId from, DeviceId to) {
  constexpr auto far = std::numeric_limits<std::int64_t>::max() / 4;
  std::vector<std::int64_t> best(t.devices().size(), far);
  best[static_cast<std::size_t>(from)] = 0;
  for (std::size_t round = 0; round < t.devices().size(); ++round)
    for (const Link& link : t.links())
      for (const auto& [a, b] : {std::pair(link.a, link.b), std::pair(link.b, link.a)}) {
        if (a != from && !forwards(t.devices()[static_cast<std::size_t>(a)])) continue;
        auto& there = best[static_cast<std::size_t>(b)];
        there = std::min(there, best[static_cast<std::size_t>(a)] + link.latency.ps());
      }
  const auto found = best[static_cast<std::size_t>(to)];
  return found >= far ? -1 : found;
}

Topology random_topology() {
  Topology t;
  const int devices = *rc::gen::inRange(2, 8);
  for (int i = 0; i < devices; ++i)
    t.add({"d" + std::to_string(i),
           *rc::gen::element(DeviceKind::gpu, DeviceKind::pcie_switch, DeviceKind::root_complex,
                             DeviceKind::host_memory)});
  const int links = *rc::gen::inRange(1, 14);
  for (int i = 0; i < links; ++i) {
    const int a = *rc::gen::inRange(0, devices);
    const int b = (a + *rc::gen::inRange(1, devices)) % devices;
    t.add(make_link(a, b, "pcie", 50, *rc::gen::inRange(1, 6)));
  }
  return t;
}

}  // namespace

TEST_CASE("a route is a way of least latency that no GPU and no memory forwards") {
  CHECK(rc::check("any graph, parallel links included", [] {
    const Topology t = random_topology();
    const auto n = static_cast<int>(t.devices().size());
    for (int from = 0; from < n; ++from)
      for (int to = 0; to < n; ++to) {
        if (from == to) continue;
        const Route route = t.route(from, to);
        const auto best = least_latency(t, from, to);
        RC_ASSERT(route.empty() == (best < 0));
        if (route.empty()) continue;
        const auto devices = walk(t, from, route);
        RC_ASSERT(!devices.empty());
        RC_ASSERT(devices.back() == to);
        for (std::size_t i = 1; i + 1 < devices.size(); ++i)
          RC_ASSERT(forwards(t.devices()[static_cast<std::size_t>(devices[i])]));
        RC_ASSERT(latency(t, route) == best);
        RC_ASSERT(std::set<DeviceId>(devices.begin(), devices.end()).size() == devices.size());
      }
  }));
}

TEST_CASE("of two parallel links a route takes the one of less latency") {
  Topology t;
  const auto gpu = t.add({"gpu0"}), root = t.add({"root", DeviceKind::root_complex});
  t.add(make_link(gpu, root, "pcie", 50, 400));
  const LinkId fast = t.add(make_link(gpu, root, "pcie", 50, 200));
  CHECK(t.route(gpu, root).at(0).link == fast);
  CHECK(t.route(root, gpu).at(0).link == fast);
}

TEST_CASE("two GPUs joined only through a third or through memory have no route") {
  Topology t;
  const auto a = t.add({"a"}), b = t.add({"b"}), c = t.add({"c"});
  const auto memory = t.add({"memory", DeviceKind::host_memory});
  t.add(make_link(a, b, "nvlink", 400));
  t.add(make_link(b, c, "nvlink", 400));
  t.add(make_link(a, memory, "memory", 50));
  t.add(make_link(c, memory, "memory", 50));
  CHECK(t.route(a, c).empty());
  CHECK(t.route(a, b).size() == 1);
  CHECK(t.route(a, memory).size() == 1);
}

TEST_CASE("a route between GPUs of one switch stays below its uplink") {
  const Topology t = two_switches(8, 5, 56, 56);
  const auto same = t.route(t.gpus()[0], t.gpus()[1]);
  const auto other = t.route(t.gpus()[0], t.gpus()[4]);
  CHECK(same.size() == 2);   // up to the switch and down again
  CHECK(other.size() == 4);  // switch, root complex, switch
  for (const Hop& hop : same) CHECK(t.link(hop.link).latency == Duration::picoseconds(400'000));
}

TEST_CASE("a route back walks the same links the other way") {
  const Topology t = two_switches(8, 5, 56, 56);
  for (const DeviceId a : t.gpus())
    for (const DeviceId b : t.gpus()) {
      auto back = t.route(b, a);
      std::reverse(back.begin(), back.end());
      const auto there = t.route(a, b);
      REQUIRE(there.size() == back.size());
      for (std::size_t i = 0; i < there.size(); ++i) {
        CHECK(there[i].link == back[i].link);
        CHECK(there[i].forward != back[i].forward);
      }
    }
}

TEST_CASE("a staged route goes down to the receiver's memory and then up to it") {
  const Topology t = two_sockets(8, 5, 54, 192);
  for (const DeviceId from : t.gpus())
    for (const DeviceId to : t.gpus()) {
      if (from == to) continue;
      const Route route = t.staged_route(from, to);
      const auto devices = walk(t, from, route);
      REQUIRE_FALSE(devices.empty());
      CHECK(devices.back() == to);
      const DeviceId memory = t.nearest_memory(to);
      CHECK(std::count(devices.begin(), devices.end(), memory) == 1);
      const auto kind = [&](DeviceId d) { return t.devices()[static_cast<std::size_t>(d)].kind; };
      CHECK(std::count_if(devices.begin(), devices.end(),
                          [&](DeviceId d) { return kind(d) == DeviceKind::host_memory; }) == 1);
      for (std::size_t i = 1; i + 1 < devices.size(); ++i)
        CHECK(kind(devices[i]) != DeviceKind::gpu);
    }
}

TEST_CASE("a transfer is staged through the memory of the receiver's socket") {
  const Topology t = two_sockets(8, 5, 54, 192);
  for (std::size_t i = 0; i < 8; ++i)
    CHECK(t.nearest_memory(t.gpus()[i]) == t.find(i < 4 ? "memory0" : "memory1"));
  // Across sockets: the buffer lies at the receiver.
  const auto devices = walk(t, t.gpus()[0], t.staged_route(t.gpus()[0], t.gpus()[4]));
  CHECK(devices == std::vector<DeviceId>{t.find("gpu0"), t.find("socket0"), t.find("socket1"),
                                         t.find("memory1"), t.find("socket1"), t.find("gpu4")});
}

TEST_CASE("without a memory nothing can be staged") {
  Topology t;
  const auto a = t.add({"a"}), b = t.add({"b"});
  t.add(make_link(a, b, "nvlink", 400));
  CHECK(t.nearest_memory(a) == -1);
  CHECK(t.staged_route(a, b).empty());
}

TEST_CASE("GPUs are ranked in the order in which they were named") {
  Topology t;
  t.add({"root", DeviceKind::root_complex});
  const auto b = t.add({"b"}), a = t.add({"a"});
  CHECK(t.gpus() == std::vector<DeviceId>{b, a});
  CHECK(t.find("a") == a);
  CHECK(t.find("nobody") == -1);
}

TEST_CASE("a copy of a topology goes its own way") {
  Topology t = flat_box(2, 4, 50);
  Topology copy = t;
  copy.link(0).bandwidth.value = BytesPerSecond(1);
  copy.add({"gpu9"});
  CHECK(t.link(0).bandwidth.value.count() == 50e9);
  CHECK(t.gpus().size() == 2);
  CHECK(copy.gpus().size() == 3);
  CHECK(copy.route(copy.gpus()[0], copy.gpus()[1]).size() == 2);
}

TEST_CASE("reading a topology finds every mistake and places it") {
  const Settings file = yaml(
      "devices:\n"
      "  gpu0: gpu\n"
      "  gpu1: gpp\n"
      "  root: root_complex\n"
      "links:\n"
      "  - {between: [gpu0, rot], bandwidth: 5 GB/s}\n"
      "  - {between: [gpu0], bandwidth: 5 GB/s}\n"
      "  - {between: [root, root], bandwidth: 5 GB/s}\n"
      "  - {between: [gpu0, root], bandwidth: 0 GB/s}\n"
      "  - {between: [gpu0, root], bandwith: 5 GB/s}\n"
      "  - {between: [gpu0, root], bandwidth: 5 GB/s, gen: 7}\n");
  Reading reading;
  {
    Section section(file, "topology", reading);
    read_topology(section);
  }
  const auto text = reading.errors.render();
  INFO(text);
  CHECK(text.find("test.yaml:3:9: error: 'gpp' is not a kind of device") != std::string::npos);
  CHECK(text.find("did you mean 'gpu'?") != std::string::npos);
  CHECK(text.find("there is no device 'rot'") != std::string::npos);
  CHECK(text.find("did you mean 'root'?") != std::string::npos);
  CHECK(text.find("a link needs 'between: [one device, another]'") != std::string::npos);
  CHECK(text.find("a link joins two different devices") != std::string::npos);
  CHECK(text.find("'0 GB/s' must lie between") != std::string::npos);
  CHECK(text.find("unknown key 'bandwith' in topology.links.4") != std::string::npos);
  CHECK(text.find("'7' must lie between 1 and 6") != std::string::npos);
}

TEST_CASE("a GPU that nobody can reach is an error, as is a machine without one") {
  const auto errors = [](const std::string& text) {
    const Settings file = yaml(text);
    Reading reading;
    {
      Section section(file, "topology", reading);
      read_topology(section);
    }
    return reading.errors.render();
  };
  CHECK(errors("devices: {gpu0: gpu, gpu1: gpu, r: root_complex}\n"
               "links: [{between: [gpu0, r], bandwidth: 5 GB/s}]\n")
            .find("no way leads from gpu0 to gpu1") != std::string::npos);
  CHECK(errors("devices: {r: root_complex}\nlinks: []\n").find("the machine has no GPU") !=
        std::string::npos);
  CHECK(errors("devices: [gpu]\nlinks: {}\n").find("must map a name to a kind") !=
        std::string::npos);
}

namespace {

struct Read {
  Topology topology;
  std::string errors;
};

Read read(const std::string& text) {
  const Settings file = yaml(text);
  Reading reading;
  Read out;
  {
    Section section(file, "topology", reading);
    out.topology = read_topology(section);
  }
  out.errors = reading.errors.render();
  return out;
}

bool says(const Read& read, const std::string& words) {
  INFO(read.errors);
  return read.errors.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("a range stands for its members, in devices and in links") {
  const auto compact = read(
      "devices: {gpu0..3: gpu, sw0..1: pcie_switch, r: root_complex}\n"
      "links:\n"
      "  - {between: [gpu0..1, sw0], bandwidth: 50 GB/s, latency: 1 us}\n"
      "  - {between: [gpu2..3, sw1], bandwidth: 50 GB/s, latency: 1 us}\n"
      "  - {between: [sw0..1, r], bandwidth: 40 GB/s, latency: 2 us, gen: 5, lanes: 16}\n");
  REQUIRE(compact.errors == "");
  const Topology& t = compact.topology;
  REQUIRE(t.devices().size() == 7);
  CHECK(t.devices()[3].name == "gpu3");
  CHECK(t.gpus() == std::vector<DeviceId>{0, 1, 2, 3});
  const std::vector<std::pair<std::string, std::string>> ends = {{"gpu0", "sw0"}, {"gpu1", "sw0"},
                                                                 {"gpu2", "sw1"}, {"gpu3", "sw1"},
                                                                 {"sw0", "r"},    {"sw1", "r"}};
  REQUIRE(t.links().size() == ends.size());
  for (std::size_t i = 0; i < ends.size(); ++i) {
    CHECK(t.links()[i].a == t.find(ends[i].first));
    CHECK(t.links()[i].b == t.find(ends[i].second));
  }
  CHECK(t.links()[5].lanes == 16);
  CHECK(t.links()[5].bandwidth.value.count() == 40e9);
}

TEST_CASE("two ranges of one length pair up, and a range may sit on either end") {
  const auto r = read(
      "devices: {gpu4..6: gpu, v0..2: root_port, r: root_complex}\n"
      "links:\n"
      "  - {between: [gpu4..6, v0..2], bandwidth: 50 GB/s}\n"
      "  - {between: [r, v0..2], bandwidth: 50 GB/s}\n");
  REQUIRE(r.errors == "");
  REQUIRE(r.topology.links().size() == 6);
  CHECK(r.topology.links()[2].a == r.topology.find("gpu6"));
  CHECK(r.topology.links()[2].b == r.topology.find("v2"));
  CHECK(r.topology.links()[5].a == r.topology.find("r"));
  CHECK(r.topology.links()[5].b == r.topology.find("v2"));
}

TEST_CASE("a range that cannot be meant is an error with its place") {
  const auto r = read(
      "devices:\n"
      "  gpu3..1: gpu\n"
      "  gpu..4: gpu\n"
      "  gpu0..: gpu\n"
      "  a0..2147483647: gpu\n"
      "  r0..1: root_complex\n"
      "  gpu5..7: gpu\n"
      "  gpu6: gpu\n"
      "links:\n"
      "  - {between: [gpu5..7, r0..1], bandwidth: 5 GB/s}\n"
      "  - {between: [gpu5..9, r0], bandwidth: 5 GB/s}\n"
      "  - {between: [[gpu5], r0], bandwidth: 5 GB/s}\n");
  CHECK(says(r, "test.yaml:2:3: error: the range 'gpu3..1' runs backwards"));
  CHECK(says(r, "test.yaml:3:3: error: 'gpu..4' is not a range"));
  CHECK(says(r, "'gpu0..' is not a range"));
  CHECK(says(r, "has more than 256 members"));
  CHECK(says(r, "test.yaml:8:3: error: there are two devices 'gpu6'"));
  CHECK(says(r, "the other is declared at test.yaml:7:3"));
  CHECK(says(r, "ranges of 3 and of 2 devices do not pair up"));
  CHECK(says(r, "there is no device 'gpu9'"));
  CHECK(says(r, "an end of a link is one device's name"));
}

TEST_CASE("a graph that no box has is refused before it is searched") {
  CHECK(says(read("devices: {a0..255: gpu, b0..255: gpu, c: root_complex}\nlinks: []\n"),
             "test.yaml:1:39: error: more than 512 devices"));
}

TEST_CASE("a switch may state its habits, others have none") {
  const auto r = read(
      "devices:\n"
      "  gpu0..1: gpu\n"
      "  sw: {kind: pcie_switch, acs_redirect: on, write_collapse: {sources: 3, copies: 2.7 GB/s, "
      "stores: 1.2 GB/s}}\n"
      "links: [{between: [gpu0..1, sw], bandwidth: 50 GB/s, back: 40 GB/s, duplex: 80 GB/s}]\n");
  REQUIRE(r.errors == "");
  const Device& sw = r.topology.devices()[2];
  CHECK(sw.name == "sw");
  CHECK(sw.acs_redirect);
  REQUIRE(sw.write_collapse);
  CHECK(sw.write_collapse->sources == 3);
  CHECK(sw.write_collapse->copies.count() == 2.7e9);
  CHECK(sw.write_collapse->stores->count() == 1.2e9);
  CHECK_FALSE(r.topology.devices()[0].acs_redirect);
  CHECK(r.topology.link(0).back->count() == 40e9);
  CHECK(r.topology.link(1).duplex->count() == 80e9);

  const auto wrong = read(
      "devices:\n"
      "  gpu0: {kind: gpu, acs_redirect: on}\n"
      "  sw0: {kind: pcie_swich}\n"
      "  sw1: {acs_redirect: on}\n"
      "  sw2: {kind: pcie_switch, write_collapse: {sources: 2}}\n"
      "links: []\n");
  CHECK(says(wrong, "acs_redirect is a property of a pcie_switch"));
  CHECK(says(wrong, "did you mean 'pcie_switch'?"));
  CHECK(says(wrong, "topology.devices.sw1 needs 'kind'"));
  CHECK(says(wrong, "topology.devices.sw2.write_collapse needs 'copies'"));
}

TEST_CASE(
    "widths that no link has, times before their start and a duplex below one way are errors") {
  const auto r = read(
      "devices: {gpu0: gpu, r: root_complex}\n"
      "links:\n"
      "  - {between: [gpu0, r], bandwidth: 5 GB/s, lanes: 3}\n"
      "  - {between: [gpu0, r], bandwidth: 5 GB/s, latency: -1 us}\n"
      "  - {between: [gpu0, r], bandwidth: 5 GB/s, back: 8 GB/s, duplex: 7 GB/s}\n"
      "  - {between: [gpu0, r], bandwidth: 5 GB/s, back: 0 GB/s}\n");
  CHECK(says(r, "test.yaml:3:52: error: lanes: '3' is no width of a link: 1, 2, 4, 8, 16 or 32"));
  CHECK(says(r, "test.yaml:4:54: error: latency: '-1 us' must"));
  CHECK(says(r, "duplex is what both directions carry together"));
  CHECK(says(r, "back: '0 GB/s' must lie between"));
}

TEST_CASE("a GPU that is cut off is named where it is declared, whichever it is") {
  const auto r = read(
      "devices:\n"
      "  gpu0: gpu\n"
      "  gpu1..3: gpu\n"
      "  r: root_complex\n"
      "links: [{between: [gpu1..3, r], bandwidth: 5 GB/s}]\n");
  CHECK(says(r, "test.yaml:2:3: error: no way leads from gpu1 to gpu0"));
  CHECK(r.errors.find("to gpu2") == std::string::npos);
}

TEST_CASE("two ways of equal latency over different devices are an error that names both") {
  const std::string cycle =
      "devices: {gpu0..1: gpu, sw0..1: pcie_switch, a: root_port, b: root_port}\n"
      "links:\n"
      "  - {between: [gpu0, sw0], bandwidth: 50 GB/s, latency: 360 ns}\n"
      "  - {between: [gpu1, sw1], bandwidth: 50 GB/s, latency: 360 ns}\n"
      "  - {between: [sw0..1, a], bandwidth: 50 GB/s, latency: 300 ns}\n"
      "  - {between: [sw0..1, b], bandwidth: 50 GB/s, latency: B}\n";
  const auto with = [&](const std::string& latency) {
    std::string text = cycle;
    text.replace(text.find(" B}") + 1, 1, latency);
    return read(text);
  };
  const auto r = with("300 ns");
  CHECK(says(r,
             "gpu0 reaches gpu1 in two ways of equal latency: gpu0 - sw0 - a - sw1 and "
             "gpu0 - sw0 - b - sw1"));
  CHECK(says(r, "test.yaml:6:"));  // the second way's last link
  CHECK(says(r, "test.yaml:5:"));  // the hint: the first way's
  CHECK(with("301 ns").errors == "");
}

TEST_CASE("parallel cables and the switches of an NVLink fabric are no ambiguity") {
  CHECK(read("devices: {gpu0..1: gpu, sw: pcie_switch}\n"
             "links:\n"
             "  - {between: [gpu0..1, sw], bandwidth: 50 GB/s, latency: 1 us}\n"
             "  - {between: [gpu0..1, sw], bandwidth: 50 GB/s, latency: 1 us}\n")
            .errors == "");
  CHECK(read("devices: {gpu0..3: gpu, nv0: nvlink_switch, nv1: nvlink_switch}\n"
             "links:\n"
             "  - {between: [gpu0..3, nv0], kind: nvlink, bandwidth: 100 GB/s, latency: 1 us}\n"
             "  - {between: [gpu0..3, nv1], kind: nvlink, bandwidth: 100 GB/s, latency: 1 us}\n")
            .errors == "");
  // Links without a latency have an order all the same: the fewest of them.
  CHECK(read("devices: {gpu0..1: gpu, a: root_complex, b: root_complex}\n"
             "links:\n"
             "  - {between: [gpu0, a], bandwidth: 5 GB/s}\n"
             "  - {between: [a, b], bandwidth: 5 GB/s}\n"
             "  - {between: [gpu1, b], bandwidth: 5 GB/s}\n")
            .errors == "");
}
