#include <iterator>
#include <map>

#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include "tests/support/hardware.hpp"

namespace {

constexpr double blackwell = 12.0;
constexpr Collective ops[] = {Collective::all_reduce, Collective::all_gather,
                              Collective::reduce_scatter};

/// From 2 B to 1 GiB, evenly on a logarithmic scale.
std::vector<Bytes> sizes() {
  std::vector<Bytes> out;
  for (double s = 2; s < 1.1e9; s *= 1.37) out.emplace_back(static_cast<std::int64_t>(s));
  return out;
}

}  // namespace

TEST_CASE("within a protocol a larger collective is never faster") {
  const Topology healthy = flat_box(8, 5, 53.4), slow = flat_box(8, 4, 53.4, 22),
                 fallback = two_sockets(8, 5, 54, 192);
  for (const Topology* box : {&healthy, &slow, &fallback})
    for (const Interconnect& i : {interconnect(), interconnect(2.9), direct_interconnect()})
      for (int n = 2; n <= 8; ++n) {
        const CollectivePricer pricer(*box, i, n, blackwell);
        for (const auto op : ops) {
          std::map<Protocol, Duration> before;
          for (const Bytes size : sizes()) {
            const auto& price = pricer.price(op, size);
            CHECK(price.time >= before[price.protocol]);
            before[price.protocol] = price.time;
          }
        }
      }
}

TEST_CASE("NCCL goes from LL to Simple once and never back") {
  for (const int gen : {4, 5}) {
    const Topology box = flat_box(8, gen, 53.4);
    for (int n = 2; n <= 8; ++n) {
      const CollectivePricer pricer(box, interconnect(), n, blackwell);
      for (const auto op : ops) {
        bool simple = false;
        for (const Bytes size : sizes()) {
          const bool here = pricer.price(op, size).protocol == Protocol::simple;
          CHECK(here >= simple);
          simple = here;
        }
        CHECK(simple);
      }
    }
  }
}

TEST_CASE("more bandwidth on any link never makes a collective slower") {
  CHECK(rc::check("one link widened", [] {
    const bool direct = *rc::gen::arbitrary<bool>();
    Topology box = *rc::gen::arbitrary<bool>()
                       ? two_switches(8, 5, *rc::gen::inRange(5, 60), *rc::gen::inRange(5, 60))
                       : two_sockets(8, 5, *rc::gen::inRange(5, 60), *rc::gen::inRange(5, 60),
                                     *rc::gen::inRange(5, 60));
    const Interconnect i = direct ? direct_interconnect() : interconnect();
    const int ranks = *rc::gen::inRange(2, 9);
    const Bytes size(*rc::gen::inRange(1, 1 << 26));
    const auto op = *rc::gen::elementOf(std::vector<Collective>(std::begin(ops), std::end(ops)));
    const auto before = CollectivePricer(box, i, ranks, blackwell).price(op, size).time;
    const auto widened = *rc::gen::inRange(0, static_cast<int>(box.links().size()));
    auto& bandwidth = box.link(widened).bandwidth.value;
    bandwidth = BytesPerSecond(bandwidth.count() * *rc::gen::inRange(2, 5));
    RC_ASSERT(CollectivePricer(box, i, ranks, blackwell).price(op, size).time <= before);
  }));
}

TEST_CASE("a longer hop never makes a collective faster") {
  const Topology box = flat_box(8, 4, 53.4, 22);
  const CollectivePricer near(box, interconnect(1.456), 8, blackwell);
  const CollectivePricer far(box, interconnect(2.9), 8, blackwell);
  for (const auto op : ops)
    for (const Bytes size : sizes()) CHECK(far.price(op, size).time >= near.price(op, size).time);
}

TEST_CASE("peer access on the home machine is never slower than staging, at any size") {
  const Machine staged = load_machine("8x-rtx-pro-6000-kvm");
  Machine direct = load_machine("8x-rtx-pro-6000-kvm");
  Reading reading;
  apply_machine_edits(direct, yaml("p2p: on"), reading);
  REQUIRE(reading.errors.empty());
  for (int n = 2; n <= 8; ++n) {
    const CollectivePricer a(staged.topology, staged.interconnect, n, blackwell);
    const CollectivePricer b(direct.topology, direct.interconnect, n, blackwell);
    CHECK(a.transport() == Transport::shm);
    CHECK(b.transport() == Transport::p2p);
    for (const auto op : ops)
      for (const Bytes size : sizes()) {
        INFO(n << " ranks, " << text(size));
        CHECK(b.price(op, size).time <= a.price(op, size).time);
      }
  }
}

TEST_CASE("more channels never make a collective slower") {
  for (const bool direct : {false, true}) {
    const Topology box = flat_box(8, 5, 56.3);
    Interconnect few = direct ? direct_interconnect() : interconnect(), many = few;
    many.nccl.min_nchannels = 8;
    const CollectivePricer a(box, few, 8, blackwell), b(box, many, 8, blackwell);
    for (const auto op : ops)
      for (const Bytes size : sizes()) CHECK(b.price(op, size).time <= a.price(op, size).time);
  }
}

TEST_CASE("one rank costs nothing, and nothing costs nothing") {
  const Topology box = flat_box(8, 5, 53.4);
  const CollectivePricer alone(box, interconnect(), 1, blackwell);
  for (const auto op : ops)
    for (const Bytes size : sizes()) {
      CHECK(alone.price(op, size).time == Duration());
      CHECK(alone.price(op, size).transport == Transport::local);
    }
  const CollectivePricer eight(box, interconnect(), 8, blackwell);
  for (const auto op : ops) CHECK(eight.price(op, Bytes(0)).time == Duration());
}

TEST_CASE("a large all-reduce approaches twice a large all-gather") {
  // Both move S/n a step; 14 steps against 7, and the fill of 0.536 steps counts once in each.
  const Topology box = flat_box(8, 5, 53.4);
  const CollectivePricer pricer(box, interconnect(), 8, blackwell);
  const Bytes large(Bytes(1) * (1LL << 30));
  const double ratio = pricer.price(Collective::all_reduce, large).time /
                       pricer.price(Collective::all_gather, large).time;
  CHECK(ratio == Approx(14.536 / 7.536).epsilon(1e-3));
  CHECK(pricer.price(Collective::reduce_scatter, large).time ==
        pricer.price(Collective::all_gather, large).time);
}

TEST_CASE("no collective beats the path of its own ring") {
  // Every byte that a rank sends crosses its path once at least: k S/n over the path's rate.
  CHECK(rc::check("time >= bytes / rate", [] {
    const Topology box = flat_box(8, 5, 53.4, *rc::gen::inRange(5, 400));
    const int ranks = *rc::gen::inRange(2, 9);
    const bool direct = *rc::gen::arbitrary<bool>();
    const CollectivePricer pricer(box, direct ? direct_interconnect() : interconnect(), ranks,
                                  blackwell);
    const Bytes size(*rc::gen::inRange(1, 1 << 28));
    for (const auto op : ops) {
      const int k = (op == Collective::all_reduce ? 2 : 1) * (ranks - 1);
      const double seconds = k * size.real() / ranks / pricer.path_rate().count();
      RC_ASSERT(pricer.price(op, size).time.seconds() >= seconds);
    }
  }));
}

TEST_CASE("NCCL takes peer access only where it may") {
  const Topology box = flat_box(8, 5, 53.4);
  Interconnect i = interconnect();
  const auto transport = [&](int ranks) {
    return CollectivePricer(box, i, ranks, blackwell).transport();
  };
  CHECK(transport(8) == Transport::shm);
  CHECK(transport(2) == Transport::shm);
  i.p2p_capable = true;
  CHECK(transport(2) == Transport::p2p);  // two GPUs: any path will do
  CHECK(transport(4) == Transport::shm);  // more: not beyond one switch
  i.nccl.p2p_level = PathKind::sys;
  CHECK(transport(8) == Transport::p2p);
  i.nccl.p2p_disable = true;
  CHECK(transport(8) == Transport::shm);
  CHECK(transport(2) == Transport::shm);
}

TEST_CASE("a staged price is known within a factor of three until the host was timed") {
  const Topology box = flat_box(8, 4, 53.4);
  const auto spread = [&](const Interconnect& i) {
    return CollectivePricer(box, i, 8, blackwell).price(Collective::all_reduce, 64_KiB).spread;
  };
  Interconnect i = interconnect();
  i.shm = untimed_transport(true);
  CHECK(spread(i) == 3);
  i.shm = timed_transport(true, i.shm.hop_ll);
  CHECK(spread(i) == 1.4);
  i.shm = untimed_transport(true);
  i.staging_capacity = Constant<BytesPerSecond>();
  i.staging_capacity->value = BytesPerSecond(20e9);
  CHECK(spread(i) == 1.4);
  CHECK(spread(direct_interconnect()) == 1.2);
  // The home machine states both of its numbers.
  const Machine home = load_machine("8x-rtx-pro-6000-kvm");
  CHECK(CollectivePricer(home.topology, home.interconnect, 8, blackwell)
            .price(Collective::all_reduce, 64_KiB)
            .spread == 1.4);
}

TEST_CASE("a price rests on what it waits for, and never on more than the fitted law") {
  Topology box = flat_box(8, 4, 53.4, 22);
  Interconnect i = interconnect();
  const auto basis = [&](Bytes size) {
    return CollectivePricer(box, i, 8, blackwell).price(Collective::all_reduce, size).provenance;
  };
  box.link(8).bandwidth.basis = Provenance::assumed;  // the memory
  CHECK(basis(4_KiB) == Provenance::fitted);          // waits for its hops
  CHECK(basis(96_KiB) == Provenance::assumed);        // waits for the memory
  i.shm.hop_ll.basis = Provenance::assumed;
  box.link(8).bandwidth.basis = Provenance::measured;
  CHECK(basis(4_KiB) == Provenance::assumed);
  CHECK(basis(96_KiB) == Provenance::fitted);
}
