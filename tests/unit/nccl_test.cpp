#include "hardware/collective/nccl/nccl.hpp"

#include <catch2/catch.hpp>

#include "tests/support/hardware.hpp"

namespace {

constexpr double blackwell = 12.0, hopper = 9.0, ampere = 8.0;

NcclEnvironment version(const std::string& v) {
  NcclEnvironment env;
  env.version = v;
  return env;
}

NcclView view(const Topology& t, double cc = blackwell,
              const NcclEnvironment& env = version("2.27.3")) {
  return nccl_view(t, static_cast<int>(t.gpus().size()), cc, env);
}

/// The first size at which NCCL takes Simple, in KiB.
double threshold_kib(Collective op, int ranks, double bus) {
  const NcclView v{bus, 2};
  std::int64_t low = 0, high = 1 << 30;
  while (high - low > 1) {
    const auto middle = (low + high) / 2;
    (nccl_protocol(op, Bytes(middle), ranks, v, {}) == Protocol::simple ? high : low) = middle;
  }
  return static_cast<double>(high) / 1024;
}

}  // namespace

TEST_CASE("in a guest of Gen4 ports NCCL believes in 24 GB/s and lays one ring twice") {
  // 16 lanes x 120 / 80 = 24 GB/s, and 24 is on its list. Below 25 the ring is laid once.
  for (const int n : {2, 4, 8}) {
    const auto v = view(flat_box(n, 4, 53.4));
    CHECK(v.bus_gbps == 24);
    CHECK(v.channels == 2);
  }
}

TEST_CASE("on Gen5 ports NCCL believes in 40 GB/s and four channels, from 2.29.2 on in 45") {
  // 16 x 240 / 80 = 48 GB/s; the fastest ring on its list that fits has 40. 45 joined the list
  // later.
  for (const char* old : {"2.27.3", "2.27.7", "2.28.9", "2.29.1"}) {
    INFO(old);
    CHECK(view(flat_box(8, 5, 56.3), blackwell, version(old)).bus_gbps == 40);
    CHECK(view(flat_box(8, 5, 56.3), blackwell, version(old)).channels == 4);
  }
  for (const char* recent : {"2.29.2", "2.30.7", "3.0"}) {
    INFO(recent);
    CHECK(view(flat_box(8, 5, 56.3), blackwell, version(recent)).bus_gbps == 45);
    CHECK(view(flat_box(8, 5, 56.3), blackwell, version(recent)).channels == 4);
  }
}

TEST_CASE("between two AMD sockets NCCL finds no ring on Blackwell and falls back to 0.1 GB/s") {
  // 16 GB/s between the sockets, and a Blackwell list that ends at 18.
  const auto v = view(two_sockets(8, 5, 54, 192));
  CHECK(v.bus_gbps == 0.1);
  CHECK(v.channels == 2);
}

TEST_CASE("older GPUs have slower rings on their list and find one between two sockets") {
  CHECK(view(two_sockets(8, 5, 54, 192), hopper).bus_gbps == 15);
  CHECK(view(two_sockets(8, 5, 54, 192), ampere).bus_gbps == 15);
  CHECK(view(two_sockets(8, 5, 54, 192), hopper).channels == 2);
}

TEST_CASE("a port that reports no speed counts as Gen3, too slow for a ring on Blackwell") {
  // 16 x 60 / 80 = 12 GB/s.
  CHECK(view(flat_box(8, 0, 53.4)).bus_gbps == 0.1);
  CHECK(view(flat_box(8, 3, 53.4)).bus_gbps == 0.1);
  CHECK(view(flat_box(8, 3, 53.4), hopper).bus_gbps == 12);
}

TEST_CASE("half the lanes are half the speed") {
  Topology t = flat_box(4, 5, 53.4);
  t.link(0).lanes = 8;  // 8 x 240 / 80 = 24
  CHECK(view(t).bus_gbps == 24);
}

TEST_CASE("NCCL decides by what ports report, not by what they carry") {
  CHECK(view(flat_box(8, 4, 53.4)).bus_gbps == view(flat_box(8, 4, 1)).bus_gbps);
}

TEST_CASE("a minimum of channels raises their number and never lowers it") {
  NcclEnvironment env = version("2.27.3");
  env.min_nchannels = 8;
  CHECK(view(flat_box(8, 4, 53.4), blackwell, env).channels == 8);
  CHECK(view(flat_box(8, 4, 53.4), blackwell, env).bus_gbps == 24);
  env.min_nchannels = 1;
  CHECK(view(flat_box(8, 4, 53.4), blackwell, env).channels == 2);
}

TEST_CASE("a graph file replaces the search") {
  NcclEnvironment env = version("2.27.3");
  env.graph_file = NcclEnvironment::GraphFile{48, 4};
  const auto v = view(two_sockets(8, 5, 54, 192), blackwell, env);
  CHECK(v.bus_gbps == 48);
  CHECK(v.channels == 4);
}

TEST_CASE("the size from which NCCL takes Simple is (1.8 + 4.7 k) x 1000 x bus x n / k bytes") {
  for (const int n : {2, 3, 4, 8, 16})
    for (const double bus : {0.1, 12.0, 20.0, 24.0, 40.0, 48.0})
      for (const auto op :
           {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter}) {
        const double k = (op == Collective::all_reduce ? 2 : 1) * (n - 1);
        const double bytes = (1.8 + 4.7 * k) * 1000 * bus * n / k;
        CHECK(threshold_kib(op, n, bus) == Approx(bytes / 1024).margin(2.0 / 1024));
      }
}

TEST_CASE("those sizes in KiB are the ones that tables of NCCL show") {
  struct Row {
    double bus;
    double kib[3];  // 2, 4, 8 ranks
    double rounding;
  };
  for (const Row& row : {Row{0.1, {1.1, 2.0, 3.8}, 0.05}, Row{12, {131, 234, 453}, 0.5},
                         Row{20, {219, 391, 754.5}, 0.5}, Row{24, {263, 469, 905}, 0.5},
                         Row{40, {438, 781, 1509}, 0.5}, Row{48, {525, 938, 1811}, 0.5}})
    for (int i = 0; i < 3; ++i) {
      INFO("bus " << row.bus << ", " << (2 << i) << " ranks");
      CHECK(threshold_kib(Collective::all_reduce, 2 << i, row.bus) ==
            Approx(row.kib[i]).margin(row.rounding));
    }
  CHECK(threshold_kib(Collective::all_gather, 8, 20) == Approx(775).margin(0.5));
}

TEST_CASE("NCCL_PROTO overrides the choice at every size") {
  NcclEnvironment env;
  env.proto = Protocol::simple;
  CHECK(nccl_protocol(Collective::all_reduce, 4_KiB, 8, {24, 2}, env) == Protocol::simple);
  env.proto = Protocol::ll;
  CHECK(nccl_protocol(Collective::all_reduce, 64_MiB, 8, {24, 2}, env) == Protocol::ll);
}

TEST_CASE("the environment of a machine file is read and checked") {
  const auto read = [](const std::string& text, Reading& reading) {
    const Settings file = yaml(text);
    Section section(file, "nccl", reading);
    return read_nccl_environment(section);
  };
  Reading good;
  const auto env = read(
      "version: 2.29.2\np2p_disable: on\np2p_level: SYS\nmin_nchannels: 8\nproto: LL\n"
      "graph_file: {bus: 48 GB/s, channels: 4}\n",
      good);
  INFO(good.errors.render());
  CHECK(good.errors.empty());
  CHECK(env.version == "2.29.2");
  CHECK(env.p2p_disable);
  CHECK(env.p2p_level == PathKind::sys);
  CHECK(env.min_nchannels == 8);
  CHECK(env.proto == Protocol::ll);
  REQUIRE(env.graph_file);
  CHECK(env.graph_file->bus_gbps == 48);
  CHECK(env.graph_file->channels == 4);
  Reading bad;
  read("proto: LL128\nmin_nchannels: 65\ngraph_file: {bus: 0 GB/s}\n", bad);
  CHECK(bad.errors.size() == 4);
}
