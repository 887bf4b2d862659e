// The ring law by hand: each number can be followed with a pocket calculator.

#include <tuple>

#include <catch2/catch.hpp>

#include "tests/support/hardware.hpp"

namespace {

constexpr double blackwell = 12.0;

double us(const CollectivePricer& pricer, Bytes size, Collective op = Collective::all_reduce) {
  return pricer.price(op, size).time.us();
}

/// A healthy staged host on which NCCL believes in a bus of 20 GB/s with two channels.
Interconnect bus20() {
  Interconnect i = interconnect();
  i.nccl.graph_file = NcclEnvironment::GraphFile{20, 2};
  return i;
}

/// As printed: to half a unit of the last digit shown. Numbers of four digits that end in zero show
/// three, larger ones three as well.
double rounding(double printed) {
  if (printed >= 100'000) return 500;
  if (printed >= 10'000) return 50;
  return printed >= 1'000 && static_cast<int>(printed) % 10 == 0 ? 5 : 0.5;
}

struct Row {
  const char* name;
  double printed[6];  // us at 12, 96, 384, 768 KiB, 6 MiB, 96 MiB
};

void check(const CollectivePricer& pricer, const Row& row) {
  const Bytes sizes[6] = {12_KiB, 96_KiB, 384_KiB, 768_KiB, 6_MiB, 96_MiB};
  for (int i = 0; i < 6; ++i) {
    INFO(row.name << ", " << text(sizes[i]));
    CHECK(us(pricer, sizes[i]) == Approx(row.printed[i]).margin(rounding(row.printed[i])));
  }
}

}  // namespace

TEST_CASE("a worked example: 128 KiB over eight staged ranks") {
  // k = 14, n/k = 0.5714. NCCL's belief, S in kB and GB/s:
  //   LL     6.6 + 14 + 131.072 / (10 x 0.5714) = 43.54 us
  //   Simple 8.4 + 14 x 5.7 + 131.072 / (20 x 0.5714) = 99.67 us     -> LL
  // f = 131072 / (4096 x 8 x 2) = 2 iterations; W = 2 x 131072 / 8 = 32,768 B of wire.
  //   h + f d   = 1.456 + 2 x 0.70 = 2.856 us
  //   W / B_sat = 32.768 / (2 x 5.26) = 3.115 us                    -> the channels
  //   t = 4.94 + 14 x 3.115 = 48.55 us                              (measured 47.75)
  const Topology box = flat_box(8, 5, 53.4);
  const CollectivePricer pricer(box, bus20(), 8, blackwell);
  const auto& price = pricer.price(Collective::all_reduce, Bytes(131'072));
  CHECK(price.protocol == Protocol::ll);
  CHECK(price.transport == Transport::shm);
  CHECK(price.channels == 2);
  CHECK(price.limit == "channels");
  CHECK(price.time.us() == Approx(48.55).margin(0.005));
}

TEST_CASE("a worked example: 1 MiB goes by Simple, and is faster than 512 KiB by LL") {
  const Topology box = flat_box(8, 5, 53.4);
  const CollectivePricer pricer(box, bus20(), 8, blackwell);
  // 1 MiB: LL 6.6 + 14 + 1048.576 / 5.714 = 204.10, Simple 8.4 + 79.8 + 1048.576 / 11.43 = 179.95.
  // B = min(27.8, 2 x 12.5) = 25 GB/s; t = 12.1 + 14 x 3.18 + 14.536 x 131.072 / 25 = 132.83 us
  // (measured 131.52).
  CHECK(pricer.price(Collective::all_reduce, 1_MiB).protocol == Protocol::simple);
  CHECK(us(pricer, 1_MiB) == Approx(132.83).margin(0.005));
  // 512 KiB: LL 112.35 < Simple 134.08; t = 4.94 + 14 x 131.072 / 10.52 = 179.37 us (measured 156).
  CHECK(pricer.price(Collective::all_reduce, 512_KiB).protocol == Protocol::ll);
  CHECK(us(pricer, 512_KiB) == Approx(179.37).margin(0.005));
}

TEST_CASE("a worked example: 4 KiB costs fourteen hops") {
  // f = 4096 / 65536 = 0.0625; t = 4.94 + 14 x (1.456 + 0.0625 x 0.70) = 25.94 us (measured 25.56).
  const Topology box = flat_box(8, 5, 53.4);
  const CollectivePricer pricer(box, bus20(), 8, blackwell);
  CHECK(us(pricer, 4_KiB) == Approx(25.94).margin(0.005));
  CHECK(pricer.price(Collective::all_reduce, 4_KiB).limit == "hop latency");
}

TEST_CASE("a worked example: the same 128 KiB through a shared staging capacity of 22 GB/s") {
  // All eight ranks write W at once: t = 4.94 + 14 x 8 x 32.768 / 22 = 171.76 us.
  const Topology box = flat_box(8, 5, 53.4, 22);
  const CollectivePricer pricer(box, bus20(), 8, blackwell);
  CHECK(us(pricer, Bytes(131'072)) == Approx(171.76).margin(0.005));
  CHECK(pricer.price(Collective::all_reduce, Bytes(131'072)).limit == "links");
  REQUIRE(pricer.path_limit());
  CHECK(pricer.path_limit()->kind == "memory");
  CHECK(pricer.path_rate().count() == Approx(22e9 / 8).epsilon(1e-12));
}

TEST_CASE("a worked example: the logits of 16 sequences, gathered over the home guest") {
  // 16 x 154,880 x 2 B = 4,956,160 B; k = 7; bus 24: LL 6.6 + 7 + 4956.16 / (12 x 8/7) = 375 us,
  // Simple 8.4 + 39.9 + 4956.16 / (24 x 8/7) = 229 us -> Simple. With h 1.9, so hS 3.18 + 0.444,
  // and C 22, so B = 2.75: t = 12.1 + 7 x 3.624 + 7.536 x 619.52 / 2.75 = 12.1 + 25.37 + 1697.71
  // us.
  const Topology box = flat_box(8, 4, 53.4, 22);
  const CollectivePricer pricer(box, interconnect(1.9), 8, blackwell);
  CHECK(us(pricer, Bytes(4'956'160), Collective::all_gather) == Approx(1735.18).margin(0.02));
}

TEST_CASE("the table of an eight-GPU guest: healthy staging") {
  // Gen4 ports: bus 24, two channels, LL below 905 KiB.
  const Topology box = flat_box(8, 4, 53.4);
  const CollectivePricer pricer(box, interconnect(), 8, blackwell);
  check(pricer, {"healthy", {27, 40, 136, 267, 514, 7370}});
  CHECK(pricer.price(Collective::all_reduce, Bytes(904 * 1024)).protocol == Protocol::ll);
  CHECK(pricer.price(Collective::all_reduce, Bytes(906 * 1024)).protocol == Protocol::simple);
}

TEST_CASE("the table of an eight-GPU guest: four GPUs behind each x16 uplink") {
  // Two uplinks of 56.725 GB/s, 0.855 of it for rings: C = 97 GB/s over the eight ranks.
  const Topology box = two_switches(8, 4, 53.4, 97 / 2.0 / 0.855);
  const CollectivePricer pricer(box, interconnect(), 8, blackwell);
  CHECK(pricer.path_rate().count() == Approx(97e9 / 8).epsilon(1e-9));
  check(pricer, {"uplinks", {27, 40, 136, 267, 999, 15100}});
}

TEST_CASE("the table of an eight-GPU guest: slow staging") {
  for (const auto& [hop, capacity, row] :
       {std::tuple(1.9, 28.0, Row{"h 1.9, C 28", {33, 103, 398, 791, 3330, 52300}}),
        std::tuple(1.9, 22.0, Row{"h 1.9, C 22", {33, 130, 505, 1006, 4220, 66600}}),
        std::tuple(2.9, 16.0, Row{"h 2.9, C 16", {47, 177, 693, 1381, 5790, 91500}})}) {
    const Topology box = flat_box(8, 4, 53.4, capacity);
    check(CollectivePricer(box, interconnect(hop), 8, blackwell), row);
  }
}

TEST_CASE("the table of an eight-GPU guest: NCCL_PROTO=Simple on slow staging") {
  // Half the wire of LL, but every step waits for fence and barrier.
  Interconnect i = interconnect(1.9);
  i.nccl.proto = Protocol::simple;
  const Topology box = flat_box(8, 4, 53.4, 22);
  check(CollectivePricer(box, i, 8, blackwell), {"Simple", {71, 128, 323, 582, 4220, 66600}});
}

TEST_CASE("the table of an eight-GPU guest: peer access on Gen5 ports, four and eight channels") {
  const Topology box = flat_box(8, 5, 48.1 / 0.855);  // rings move 48.1 GB/s
  Interconnect i = direct_interconnect();
  i.nccl.version = "2.27.3";
  const CollectivePricer four(box, i, 8, blackwell);
  CHECK(four.view().bus_gbps == 40);
  CHECK(four.transport() == Transport::p2p);
  check(four, {"P2P, 4 channels", {20, 27, 49, 78, 280, 3850}});
  i.nccl.min_nchannels = 8;
  const CollectivePricer eight(box, i, 8, blackwell);
  const double printed[4] = {20, 23, 34, 62};
  const Bytes sizes[4] = {12_KiB, 96_KiB, 384_KiB, 768_KiB};
  for (int s = 0; s < 4; ++s) {
    INFO(text(sizes[s]));
    CHECK(us(eight, sizes[s]) == Approx(printed[s]).margin(0.5));
  }
}
