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
