// Laws of collectives by hand, and how measured curves scale them.

#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include "hardware/collective/kernels/kernel.hpp"
#include "hardware/collective/staging.hpp"
#include "tests/support/hardware.hpp"

namespace {

constexpr double blackwell = 12.0;

Topology nvlink_box(int gpus, double gbps) {
  Topology t = flat_box(gpus, 5, 53.4);
  const DeviceId fabric = t.add({"fabric", DeviceKind::nvlink_switch});
  for (const DeviceId gpu : std::vector<DeviceId>(t.gpus()))
    t.add(make_link(gpu, fabric, "nvlink", gbps, 100));
  return t;
}

CollectivePricer h200(int ranks) {
  Interconnect i = direct_interconnect();
  i.gpu = "h200";
  return CollectivePricer(nvlink_box(8, 450), i, ranks, 9.0);
}

}  // namespace

TEST_CASE("NVLink by hand: 1 KiB by LL, 1 MiB by LL128, 256 MiB by Simple on eight H200") {
  // k = 14, n = 8, chunk = S / 8.
  //   1 KiB   LL      4.66 + 14 x .82 + 14 x .25 / 16 + 2 x 14 x 0.128 / 244 = 16.3734 us
  //   1 MiB   LL128   7.5 + 14 x .67 + 14 x 131.072 / 172 = 27.5487
  //   256 MiB Simple  17.9 + 14 x .99 + 14.51 x 33554.432 / 370 = 1347.62
  const CollectivePricer pricer = h200(8);
  const auto check = [&](Bytes size, Protocol protocol, double us) {
    const auto& price = pricer.price(Collective::all_reduce, size);
    CHECK(price.protocol == protocol);
    CHECK(price.transport == Transport::nvlink);
    CHECK(price.time.us() == Approx(us).epsilon(1e-4));
  };
  check(1_KiB, Protocol::ll, 16.3734);
  check(1_MiB, Protocol::ll128, 27.5487);
  check(256_MiB, Protocol::simple, 1347.62);
}

TEST_CASE("all-to-all by hand: 16 KiB a peer by LL, more by Simple") {
  // Eight staged ranks, nothing in the links' way. 128 KiB: 5.56 + .65 x 7 + 2 x 114.688 / 8.4 =
  // 37.417 us; 1 MiB: 7.2 + 1.6 x 7 + 917.504 / 16.1 = 75.388 us.
  const CollectivePricer pricer(flat_box(8, 5, 1000), interconnect(), 8, blackwell);
  const auto& small = pricer.price(Collective::all_to_all, 128_KiB);
  CHECK(small.protocol == Protocol::ll);
  CHECK(small.time.us() == Approx(37.417).epsilon(1e-4));
  const auto& large = pricer.price(Collective::all_to_all, 1_MiB);
  CHECK(large.protocol == Protocol::simple);
  CHECK(large.time.us() == Approx(75.388).epsilon(1e-4));
}

TEST_CASE("the custom all-reduce of the engines runs over NVLink and between two GPUs only") {
  const auto* kernel = Registry<CollectiveKernelFactory>::find("custom");
  REQUIRE(kernel);
  const auto runs = [&](const Topology& box, int ranks) {
    return (*kernel)().supports(Collective::all_reduce,
                                CollectiveBox(box, direct_interconnect(), ranks, 9.0));
  };
  CHECK(runs(flat_box(8, 5, 53.4), 2));
  CHECK_FALSE(runs(flat_box(8, 5, 53.4), 4));
  CHECK(runs(nvlink_box(8, 450), 8));
  CHECK_FALSE(runs(nvlink_box(8, 450), 5));
  const CollectiveBox box(nvlink_box(8, 450), direct_interconnect(), 8, 9.0);
  const auto algorithm = [&](Bytes size) {
    return (*kernel)().price(Collective::all_reduce, size, box).algorithm;
  };
  CHECK(algorithm(128_KiB) == "one_shot");
  CHECK(algorithm(256_KiB) == "two_shot");
}

TEST_CASE("two-shot by hand: 1 MiB on eight H200 takes 6.8 + 1.75 x 1 MiB / 291 GB/s") {
  const CollectiveBox box(nvlink_box(8, 450), direct_interconnect(), 8, 9.0);
  const auto price = (*Registry<CollectiveKernelFactory>::find("two_shot"))().price(
      Collective::all_reduce, 1_MiB, box);
  CHECK(price.time.us() == Approx(6.8 + 1.75 * 1048.576 / 291).epsilon(1e-6));
}

TEST_CASE("stores that may not leave their switch make a one-shot kernel fifteen times slower") {
  Interconnect i = direct_interconnect();
  const Topology box = flat_box(4, 5, 53.4);
  const auto& one_shot = (*Registry<CollectiveKernelFactory>::find("one_shot"))();
  const auto free = one_shot.price(Collective::all_reduce, 64_KiB, CollectiveBox(box, i, 4, 12));
  i.sm_within_switch = true;
  const auto staged = one_shot.price(Collective::all_reduce, 64_KiB, CollectiveBox(box, i, 4, 12));
  CHECK(staged.time / free.time == Approx(15).epsilon(1e-6));
}

TEST_CASE("a measured curve scales the law, between sizes on their logarithms") {
  const Topology box = flat_box(8, 4, 53.4);
  const CollectivePricer law(box, interconnect(), 8, blackwell);
  const auto of_law = [&](Bytes size) { return law.price(Collective::all_reduce, size).time; };
  MeasuredCurve curve;
  curve.ranks = 8;
  curve.source = "a box";
  curve.points[4096] = of_law(4_KiB).scaled(1.1);
  curve.points[16384] = of_law(16_KiB).scaled(1.3);
  CollectivePricer pricer(box, interconnect(), 8, blackwell);
  pricer.anchor({curve}, law, false);
  const auto factor = [&](Bytes size) {
    return pricer.price(Collective::all_reduce, size).time / of_law(size);
  };
  CHECK(factor(4_KiB) == Approx(1.1).epsilon(1e-6));
  CHECK(factor(16_KiB) == Approx(1.3).epsilon(1e-6));
  CHECK(factor(8_KiB) == Approx(std::sqrt(1.1 * 1.3)).epsilon(1e-6));
  CHECK(factor(64_KiB) == Approx(1.3).epsilon(1e-6));  // beyond: the nearest
  const auto& exact = pricer.price(Collective::all_reduce, 4_KiB);
  CHECK(exact.provenance == Provenance::measured);
  CHECK(exact.anchor == "a box");
  CHECK(pricer.price(Collective::all_reduce, 8_KiB).provenance == Provenance::interpolated);
  CHECK(pricer.price(Collective::all_reduce, 64_KiB).provenance == Provenance::fitted);
  // Other operations and other numbers of ranks were not measured.
  CHECK(pricer.price(Collective::all_gather, 4_KiB).anchor.empty());
}

TEST_CASE("a what-if keeps the measured ratio for the transport it was measured on, and no other") {
  const Topology box = flat_box(8, 4, 53.4);
  const CollectivePricer law(box, interconnect(), 8, blackwell);
  MeasuredCurve curve;
  curve.ranks = 8;
  curve.points[4096] = law.price(Collective::all_reduce, 4_KiB).time.scaled(2);
  const auto edited = [&](const Interconnect& i) {
    CollectivePricer pricer(box, i, 8, blackwell);
    const double before = pricer.price(Collective::all_reduce, 4_KiB).time.us();
    pricer.anchor({curve}, law, true);
    const auto& price = pricer.price(Collective::all_reduce, 4_KiB);
    CHECK(price.provenance != Provenance::measured);
    return price.time.us() / before;
  };
  Interconnect channels = interconnect();
  channels.nccl.min_nchannels = 8;
  CHECK(edited(channels) == Approx(2).epsilon(1e-6));
  CHECK(edited(direct_interconnect()) == Approx(1));
}

TEST_CASE("two timed all-reduces give back the hop and the capacity that made them") {
  CHECK(rc::check([] {
    const Topology box = flat_box(8, 4, 53.4);
    Interconnect made = interconnect(*rc::gen::inRange(110, 400) / 100.0);
    Constant<BytesPerSecond> capacity;
    capacity.value = BytesPerSecond(*rc::gen::inRange(4, 24) * 1e9);
    made.staging_capacity = capacity;
    const CollectivePricer truth(box, made, 8, blackwell);
    Interconnect timed = interconnect();
    timed.timed = TimedAllReduces{8,
                                  512_B,
                                  128_KiB,
                                  truth.price(Collective::all_reduce, 512_B).time,
                                  truth.price(Collective::all_reduce, 128_KiB).time,
                                  "here"};
    const Interconnect found = with_timed_staging(box, timed, blackwell);
    RC_ASSERT(found.staging_capacity.has_value());
    RC_ASSERT(std::abs(found.shm.hop_ll.value / made.shm.hop_ll.value - 1) < 1e-3);
    RC_ASSERT(std::abs(found.staging_capacity->value / capacity.value - 1) < 1e-3);
  }));
}

TEST_CASE("a healthy host has no staging capacity to be found") {
  const Topology box = flat_box(8, 4, 53.4);
  const CollectivePricer truth(box, interconnect(), 8, blackwell);
  Interconnect timed = interconnect();
  timed.timed = TimedAllReduces{8,
                                4_KiB,
                                64_KiB,
                                truth.price(Collective::all_reduce, 4_KiB).time,
                                truth.price(Collective::all_reduce, 64_KiB).time,
                                "here"};
  CHECK_FALSE(with_timed_staging(box, timed, blackwell).staging_capacity);
}

TEST_CASE("which ranks a ring stages: a pair behind one switch does not need to") {
  // Two switches of two: by itself NCCL goes directly within a switch and stages between them.
  const Topology box = two_switches(4, 5, 53.4, 53.4);
  Interconnect i = interconnect();
  i.p2p_capable = true;
  const CollectiveBox four(box, i, 4, blackwell);
  CHECK(four.transport(0, 1) == Transport::p2p);
  CHECK(four.transport(1, 2) == Transport::shm);
  CHECK(four.ring_transport() == Transport::shm);
  i.p2p_off = {{0, 1}};
  CHECK(CollectiveBox(box, i, 4, blackwell).transport(0, 1) == Transport::shm);
  CHECK_FALSE(CollectiveBox(box, i, 4, blackwell).peers());
  i.p2p_off.clear();
  i.nccl.p2p_level = PathKind::sys;
  CHECK(CollectiveBox(box, i, 4, blackwell).ring_transport() == Transport::p2p);
  i.nccl.p2p_level = PathKind::self;
  CHECK(CollectiveBox(box, i, 4, blackwell).transport(0, 1) == Transport::shm);
}
