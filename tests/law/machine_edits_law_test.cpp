// What the edits of a machine promise.

#include <catch2/catch.hpp>

#include "hardware/collective/staging.hpp"
#include "tests/support/hardware.hpp"

namespace {

constexpr double blackwell = 12.0;

Machine edited(const std::string& machine, const std::string& edits) {
  Machine out = load_machine(machine);
  Reading reading;
  apply_machine_edits(out, yaml(edits), reading);
  INFO(edits);
  REQUIRE(reading.errors.empty());
  return out;
}

std::string refused(const std::string& machine, const std::string& edits) {
  Machine out = load_machine(machine);
  Reading reading;
  apply_machine_edits(out, yaml(edits), reading);
  REQUIRE_FALSE(reading.errors.empty());
  return reading.errors.list()[0].message + "; " + reading.errors.list()[0].hint;
}

CollectivePricer pricer(const Machine& m, int ranks) {
  return CollectivePricer(m.topology, m.interconnect, ranks, blackwell);
}

PathKind path(const Machine& m, int a, int b) {
  const auto& gpus = m.topology.gpus();
  return m.topology.path_kind(gpus[static_cast<std::size_t>(a)], gpus[static_cast<std::size_t>(b)]);
}

const char* const home = "8x-rtx-pro-6000-kvm";

}  // namespace

TEST_CASE("fewer or more GPUs: as many as asked for, each joined to every other") {
  for (const char* machine : {home, "8x-rtx-pro-6000-p2p", "8x-rtx-pro-6000-switches"})
    for (const int n : {2, 4, 8, 16}) {
      INFO(machine << ", " << n);
      const Machine m = edited(machine, "gpus: " + std::to_string(n));
      REQUIRE(m.gpu_count() == n);
      for (int a = 0; a < n; ++a)
        for (int b = 0; b < n; ++b)
          if (a != b)
            CHECK_FALSE(m.topology
                            .route(m.topology.gpus()[static_cast<std::size_t>(a)],
                                   m.topology.gpus()[static_cast<std::size_t>(b)])
                            .empty());
    }
}

TEST_CASE("GPUs that are added change nothing for those who were there") {
  for (const char* machine : {home, "8x-rtx-pro-6000-p2p"}) {
    const Machine before = load_machine(machine), after = edited(machine, "gpus: 16");
    for (const Bytes size : {4_KiB, 256_KiB, 16_MiB})
      CHECK(pricer(after, 4).price(Collective::all_reduce, size).time ==
            pricer(before, 4).price(Collective::all_reduce, size).time);
  }
}

TEST_CASE("a box of switches grows by whole switches, and says so") {
  const std::string text = refused("8x-rtx-pro-6000-switches", "gpus: 10");
  CHECK(text.find("8 or 12") != std::string::npos);
}

TEST_CASE("inserted switches: near within, the host or one more switch between") {
  const Machine flat = edited(home, "insert_switch: {gpus: 4}");
  CHECK(flat.gpu_count() == 8);
  CHECK(path(flat, 0, 3) == PathKind::pix);
  CHECK(path(flat, 0, 4) == PathKind::phb);
  const Machine tree = edited(home, "insert_switch: {gpus: 4, root: on}");
  CHECK(path(tree, 0, 3) == PathKind::pix);
  CHECK(path(tree, 0, 4) == PathKind::pxb);
  // Behind one tree of switches NCCL needs no permission to go directly, once the driver grants it.
  Machine granted = tree;
  granted.interconnect.p2p_capable = true;
  CHECK(pricer(granted, 8).transport() == Transport::p2p);
  CHECK(refused(home, "insert_switch: {gpus: 3}").find("divide") != std::string::npos);
}

TEST_CASE("two NUMA nodes in a guest of Blackwell cards: NCCL falls back to Simple") {
  const Machine one = load_machine(home), two = edited(home, "numa_nodes: 2");
  CHECK(pricer(one, 8).view().bus_gbps == 24);
  CHECK(pricer(two, 8).view().bus_gbps == 0.1);
  CHECK(pricer(one, 8).price(Collective::all_reduce, 64_KiB).protocol == Protocol::ll);
  CHECK(pricer(two, 8).price(Collective::all_reduce, 64_KiB).protocol == Protocol::simple);
  // 12 KiB by Simple: 12.1 + 14 x (3.18 + 1.9 - 1.456) + 14.536 x 1.536 / (27.5 / 8) = 69.3 us.
  CHECK(pricer(two, 8).price(Collective::all_reduce, 12_KiB).time.us() ==
        Approx(69.33).margin(0.05));
  // What the host stages is the same host's.
  CHECK(pricer(two, 8).path_rate().count() == pricer(one, 8).path_rate().count());
  const Machine back = [&] {
    Machine m = two;
    Reading reading;
    apply_machine_edits(m, yaml("numa_nodes: 1"), reading);
    return m;
  }();
  CHECK(pricer(back, 8).view().bus_gbps == 24);
}

TEST_CASE("one socket instead of two: no link between sockets is left") {
  const Machine two = load_machine("8x-rtx-pro-6000-p2p");
  const Machine one = edited("8x-rtx-pro-6000-p2p", "numa_nodes: 1");
  CHECK(path(two, 0, 7) == PathKind::sys);
  CHECK(path(one, 0, 7) < PathKind::sys);
  int memories = 0;
  for (const Device& d : one.topology.devices()) memories += d.kind == DeviceKind::host_memory;
  CHECK(memories == 1);
}

TEST_CASE("another PCIe generation halves or doubles every link, and what NCCL believes") {
  const Machine gen5 = load_machine("8x-rtx-pro-6000-p2p");
  const Machine gen4 = edited("8x-rtx-pro-6000-p2p", "pcie_generation: 4");
  Machine again = gen4;
  Reading reading;
  apply_machine_edits(again, yaml("pcie_generation: 5"), reading);
  for (std::size_t i = 0; i < gen5.topology.links().size(); ++i) {
    const Link &a = gen5.topology.links()[i], &b = gen4.topology.links()[i];
    const double ratio = b.bandwidth.value / a.bandwidth.value;
    CHECK(ratio == Approx(a.kind == "pcie" ? 0.5 : 1).epsilon(1e-3));
    CHECK(again.topology.links()[i].bandwidth.value / a.bandwidth.value == Approx(1).epsilon(1e-6));
    if (a.kind == "pcie") CHECK(b.gen == 4);
  }
  CHECK(pricer(gen4, 8).price(Collective::all_reduce, 64_MiB).time >
        pricer(gen5, 8).price(Collective::all_reduce, 64_MiB).time);
}

TEST_CASE("NVLink is faster than any way over PCIe at every size") {
  const Machine pcie = load_machine("8x-rtx-pro-6000-p2p");
  const Machine nvlink = edited("8x-rtx-pro-6000-p2p", "nvlink: 900 GB/s");
  CHECK(pricer(nvlink, 8).transport() == Transport::nvlink);
  for (std::int64_t size = 512; size < 1 << 28; size *= 2) {
    const auto price = pricer(nvlink, 8).price(Collective::all_reduce, Bytes(size));
    CHECK(price.provenance == Provenance::assumed);
    if (size >= 4 << 20)  // below, its law was fitted on another host's kernel starts
      CHECK(price.time < pricer(pcie, 8).price(Collective::all_reduce, Bytes(size)).time);
  }
}

TEST_CASE("an edited link: what is stated changes, nothing else") {
  const Machine m = edited(home, "link: {from: gpu3, bandwidth: 5 GB/s, lanes: 4}");
  const Machine before = load_machine(home);
  int changed = 0;
  for (std::size_t i = 0; i < m.topology.links().size(); ++i) {
    const Link &a = before.topology.links()[i], &b = m.topology.links()[i];
    if (a.bandwidth.value == b.bandwidth.value) continue;
    ++changed;
    CHECK(b.bandwidth.value.count() == 5e9);
    CHECK(b.lanes == 4);
    CHECK(b.latency == a.latency);
    CHECK(b.gen == a.gen);
  }
  CHECK(changed == 1);
  CHECK(refused(home, "link: {from: gpu9, bandwidth: 5 GB/s}").find("gpu") != std::string::npos);
  CHECK(refused(home, "link: {from: gpu0, to: gpu1, bandwidth: 5 GB/s}").find("no link") !=
        std::string::npos);
  CHECK(refused(home, "link: {from: gpu0}").find("nothing") != std::string::npos);
  CHECK(refused(home, "link: {from: gpu0, lanes: 3}").find("lanes") != std::string::npos);
}

TEST_CASE("NCCL's variables give NCCL's decisions") {
  CHECK(
      pricer(edited(home, "nccl_proto: Simple"), 8).price(Collective::all_reduce, 4_KiB).protocol ==
      Protocol::simple);
  CHECK(pricer(edited("8x-rtx-pro-6000-p2p", "nccl_p2p_disable: on"), 8).transport() ==
        Transport::shm);
  // Two sockets: PHB does not reach across, SYS does.
  CHECK(pricer(edited("8x-rtx-pro-6000-p2p", "nccl_p2p_level: PHB"), 8).transport() ==
        Transport::shm);
  CHECK(pricer(edited("8x-rtx-pro-6000-p2p", "nccl_p2p_level: SYS"), 8).transport() ==
        Transport::p2p);
  CHECK(pricer(edited(home, "nccl_min_nchannels: 16"), 8).view().channels == 16);
}

TEST_CASE("ranks of a symmetric box may be renamed: every price stays") {
  // The same flat box with its cards declared in another order.
  const Topology box = flat_box(8, 5, 53.4, 100);
  Topology shuffled;
  std::vector<DeviceId> id(box.devices().size());
  for (const std::size_t i : {3u, 0u, 7u, 5u, 1u, 2u, 6u, 4u, 8u, 9u})
    id[i] = shuffled.add(box.devices()[i]);
  for (Link l : box.links()) {
    l.a = id[static_cast<std::size_t>(l.a)], l.b = id[static_cast<std::size_t>(l.b)];
    shuffled.add(std::move(l));
  }
  for (const Interconnect& i : {interconnect(), direct_interconnect()})
    for (int n = 2; n <= 8; ++n) {
      const CollectivePricer a(box, i, n, blackwell), b(shuffled, i, n, blackwell);
      for (const Collective op : all_collectives())
        for (const Bytes size : {512_B, 64_KiB, 8_MiB})
          CHECK(a.price(op, size).time == b.price(op, size).time);
    }
}

TEST_CASE("times of eight cards say nothing of a box with four: its numbers come before the edit") {
  Machine m = load_machine("8x-l40s-slow");
  REQUIRE(m.interconnect.timed);
  const Interconnect eight = with_timed_staging(m.topology, m.interconnect, 8.9);
  REQUIRE(eight.staging_capacity);
  // 14 steps of 8 x 16.384 kB of wire in 164.5 - 4.94 us: 11.5 GB/s.
  CHECK(eight.staging_capacity->value.count() ==
        Approx(14 * 8 * 16.384e3 / (164.5e-6 - 4.94e-6)).epsilon(1e-6));
  Reading reading;
  apply_machine_edits(m, yaml("gpus: 4"), reading);
  CHECK_FALSE(with_timed_staging(m.topology, m.interconnect, 8.9).staging_capacity);
  // As a run does it: first the numbers, then the edit.
  m.interconnect = eight;
  CHECK(CollectivePricer(m.topology, m.interconnect, 4, 8.9).path_limit()->kind == "staging");
}
