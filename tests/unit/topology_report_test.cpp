#include "sim/report/topology_report.hpp"

#include <nlohmann/json.hpp>

#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include "hardware/collective/eager.hpp"
#include "sim/report/topology_tree.hpp"
#include "sim/scenario/collective_files.hpp"
#include "sim/scenario/data.hpp"
#include "sim/scenario/kernel_files.hpp"
#include "sim/scenario/machine_file.hpp"

namespace {

TopologyView view_of(const std::string& name) {
  const auto file = load_machine_file(name, {});
  REQUIRE(file);
  Reading reading;
  const Machine machine = read_machine(file->id, file->settings, reading);
  REQUIRE(reading.errors.empty());
  const auto gpu = load_gpu_file(machine.gpu_id);
  REQUIRE(gpu);
  std::unique_ptr<CollectivePricer> pricer;
  if (machine.gpu_count() > 1)
    pricer = std::move(*make_collective_pricer(machine, machine, *gpu, machine.gpu_count(), {}));
  return view_topology(name, machine, gpu->name, "", pricer.get());
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t out = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++out;
  return out;
}

CollectivePrice price(double us, const std::string& kernel, Transport transport) {
  CollectivePrice out;
  out.time = Duration::from_us(us);
  out.kernel = kernel;
  out.transport = transport;
  return out;
}

}  // namespace

TEST_CASE("names of devices fold into runs of numbers and nothing else") {
  CHECK(name_ranges({"gpu0", "gpu1", "gpu2"}) == "gpu0..2");
  CHECK(name_ranges({"gpu0", "gpu2", "gpu3"}) == "gpu0, gpu2..3");
  CHECK(name_ranges({"gpu1", "gpu0"}) == "gpu1, gpu0");
  CHECK(name_ranges({"a", "b"}) == "a, b");
  CHECK(name_ranges({"a01", "a02"}) == "a01, a02");
  CHECK(name_ranges({}) == "");
}

TEST_CASE("the tree of every machine has each device once and lines of at most 100 columns") {
  for (const auto& name : data_names("hardware/machines")) {
    INFO(name);
    const TopologyView view = view_of(name);
    // A line of n folded devices stands for all of them: the GPUs, counted from their ranges.
    const std::string tree = render_tree(view.machine.topology);
    int gpus = 0;
    for (int i = 0; i < view.machine.gpu_count(); ++i)
      for (int j = i; j < view.machine.gpu_count(); ++j) {
        const std::string range = i == j
                                      ? "gpu" + std::to_string(i) + " "
                                      : "gpu" + std::to_string(i) + ".." + std::to_string(j) + " ";
        // "|- gpu0..3   GPU": the names of a tree's line, not those of a link across it
        if (const auto at = tree.find("- " + range); at != std::string::npos)
          if (tree.find("GPU", at) < tree.find('\n', at)) gpus += j - i + 1;
      }
    CHECK(gpus == view.machine.gpu_count());
    for (const bool full : {false, true}) {
      std::istringstream lines(render_topology(view, full));
      for (std::string line; std::getline(lines, line);) {
        INFO(line);
        CHECK(line.size() <= 100);
      }
    }
  }
}

TEST_CASE("sockets are what the links between sockets join") {
  CHECK(socket_count(view_of("T04").machine.topology) == 1);  // two quadrants of one processor
  CHECK(socket_count(view_of("T02").machine.topology) == 2);
  CHECK(socket_count(view_of("hgx-h200").machine.topology) == 2);
  CHECK(socket_count(view_of("1x-h100").machine.topology) == 1);
}

TEST_CASE("the matrices of a view are those of the copies, and symmetric where the box is") {
  for (const char* name : {"T04", "T02", "8x-rtx-pro-6000-kvm", "hgx-h200"}) {
    INFO(name);
    const TopologyView v = view_of(name);
    const std::size_t n = v.one_way.size();
    REQUIRE(n == 8);
    for (const Matrix* m : {&v.one_way, &v.one_way_staged, &v.both_ways, &v.both_ways_staged,
                            &v.latency_us, &v.latency_us_staged})
      for (std::size_t i = 0; i < n; ++i) {
        CHECK((*m)[i][i] == 0);
        for (std::size_t j = 0; j < n; ++j) CHECK((*m)[i][j] == (*m)[j][i]);
      }
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j)
        if (i != j) CHECK(v.both_ways[i][j] >= v.one_way[i][j]);
  }
}

TEST_CASE("what NCCL will do on T04: P2P everywhere, an all-to-all held by the uplinks") {
  const TopologyView v = view_of("T04");
  REQUIRE(v.nccl);
  CHECK(v.nccl->ring_transport == Transport::p2p);
  // 16 flows cross each uplink, 7 leave each GPU: 53.8 / 16 x 7
  CHECK(v.nccl->exchange_rate.count() == Approx(53.8e9 / 16 * 7));
  CHECK(v.nccl->exchange_limit == "switch0 > root0");
  REQUIRE(v.nccl->protocols.size() == 2);
  CHECK(v.nccl->protocols[0].first == Protocol::ll);
  CHECK(v.nccl->protocols[1].first == Protocol::simple);
  // The change is where it is said to be.
  const NcclEnvironment& environment = v.machine.interconnect.nccl;
  const auto at = [&](std::int64_t size) {
    return nccl_protocol(Collective::all_reduce, Bytes(size), 8, v.nccl->view, environment);
  };
  CHECK(at(v.nccl->protocols[1].second) == Protocol::simple);
  CHECK(at(v.nccl->protocols[1].second - 1) == Protocol::ll);
}

TEST_CASE("a staged all-to-all is held by the staging capacity that the host states") {
  const TopologyView v = view_of("8x-rtx-pro-6000-kvm");
  REQUIRE(v.nccl);
  CHECK(v.nccl->ring_transport == Transport::shm);
  CHECK(v.nccl->exchange_limit == "staging capacity");
}

TEST_CASE("Graphviz gets whole words whatever the devices are called") {
  Machine m;
  m.name = "a \"b\" \\ c\nd";
  m.topology.add({"x\"; } evil", DeviceKind::gpu});
  m.topology.add({"back\\slash", DeviceKind::root_complex});
  Link link;
  link.a = 0, link.b = 1, link.kind = "pcie";
  link.bandwidth.value = BytesPerSecond(50e9);
  m.topology.add(link);
  const std::string dot = topology_to_dot(m);
  CHECK(count(dot, "\"x\\\"; } evil\"") == 2);
  CHECK(count(dot, "\"back\\\\slash\"") == 2);
  CHECK(count(dot, " -- ") == 1);
  // Outside of quotes there are only our own braces.
  int depth = 0, braces = 0;
  bool inside = false;
  for (std::size_t i = 0; i < dot.size(); ++i) {
    if (dot[i] == '\\' && inside) {
      ++i;
      continue;
    }
    if (dot[i] == '"') inside = !inside;
    if (inside) CHECK(dot[i] != '\n');
    if (!inside && dot[i] == '{') ++depth, ++braces;
    if (!inside && dot[i] == '}') --depth;
  }
  CHECK_FALSE(inside);
  CHECK(depth == 0);
  CHECK(braces == 1);
}

TEST_CASE("an eager collective is never faster than the graphed one, nor than its host") {
  CHECK(rc::check([] {
    const double us = *rc::gen::inRange(1, 100000) / 10.0;
    const Bytes size(*rc::gen::inRange<std::int64_t>(1, std::int64_t{1} << 30));
    for (const char* kernel : {"nccl", "one_shot"})
      for (const Transport transport : {Transport::p2p, Transport::shm, Transport::nvlink}) {
        const Duration eager = eager_time(price(us, kernel, transport), size);
        RC_ASSERT(eager > Duration::from_us(us));
        RC_ASSERT(eager >= Duration::from_us(kernel == std::string("nccl") ? 30 : 20));
        RC_ASSERT(eager <= eager_time(price(us, kernel, transport), size * 2));
      }
  }));
}

TEST_CASE("eager times are the host's or the GPU's with the clone of the payload") {
  // hosts: 30 us for NCCL, 20 us for a kernel of the engine
  CHECK(eager_time(price(5, "nccl", Transport::p2p), Bytes(1024)).us() == Approx(30));
  CHECK(eager_time(price(5, "custom", Transport::nvlink), Bytes(1024)).us() == Approx(20));
  // 100 + 3 + 150 MB / 1.5 TB/s = 203 us; over NVLink 100 + 10 + 100 = 210 us
  CHECK(eager_time(price(100, "nccl", Transport::p2p), Bytes(150'000'000)).us() == Approx(203));
  CHECK(eager_time(price(100, "nccl", Transport::nvlink), Bytes(150'000'000)).us() == Approx(210));
  CHECK(eager_time(price(0, "nccl", Transport::local), Bytes(1)) == Duration());
}
