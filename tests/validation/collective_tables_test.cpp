// NCCL over NVLink by its law, and every law scaled to a measured curve, against nccl-tests tables.

#include <cmath>
#include <map>

#include <catch2/catch.hpp>

#include "tests/support/csv.hpp"
#include "tests/support/hardware.hpp"

namespace {

struct Key {
  Collective op;
  int ranks;
  bool operator<(const Key& o) const { return std::tie(op, ranks) < std::tie(o.op, o.ranks); }
};
using Table = std::map<Key, std::map<std::int64_t, double>>;  // -> size -> us

Table read_table(const std::string& file) {
  Table out;
  read_csv(file, {"op_name", "num_gpus", "message_bytes", "latency_ms", "nccl_dtype"},
           [&](const std::vector<std::string>& f) {
             Collective op = Collective::all_to_all;
             if (f[0] != "alltoall" && !parse_collective(f[0], op)) return;
             if (f[4] == "half")
               out[{op, std::stoi(f[1])}][std::stoll(f[2])] = 1e3 * std::stod(f[3]);
           });
  return out;
}

struct NvlinkBox {
  const char* machine;
  const char* file;
  double compute_capability;
};
const NvlinkBox nvlink_boxes[] = {
    {"dgx-h100", "data/kernels/h100_sxm/nccl__nccl_2.29.2.csv", 9.0},
    {"hgx-h200", "data/kernels/h200_sxm/nccl__nccl_2.29.2.csv", 9.0},
    {"hgx-b200", "data/kernels/b200_sxm/nccl__nccl_2.29.2.csv", 10.0}};

/// Leaves out each size between two others of its own segment (LL that waits for hops, LL that
/// fills its channels, Simple that waits, Simple that fills) and predicts it from the rest.
void leave_one_out(const Topology& box, const Interconnect& interconnect, double compute_capability,
                   const Table& table, Errors& errors) {
  for (const auto& [key, points] : table) {
    if (points.size() < 3) continue;
    const CollectivePricer law(box, interconnect, key.ranks, compute_capability);
    for (auto it = std::next(points.begin()); std::next(it) != points.end(); ++it) {
      const auto segment = [&](auto at) {
        const CollectivePrice price = law.price_by("nccl", key.op, Bytes(at->first));
        return std::pair(price.protocol, price.limit == "hop latency");
      };
      if (segment(std::prev(it)) != segment(it) || segment(std::next(it)) != segment(it)) continue;
      MeasuredCurve curve;
      curve.op = key.op;
      curve.ranks = key.ranks;
      for (const auto& [size, us] : points)
        if (size != it->first) curve.points.emplace(size, Duration::from_us(us));
      CollectivePricer pricer(box, interconnect, key.ranks, compute_capability);
      pricer.anchor({curve}, law, false);
      const CollectivePrice price = pricer.price_by("nccl", key.op, Bytes(it->first));
      CHECK(price.provenance == Provenance::interpolated);
      errors.add(price.time.us(), it->second);
    }
  }
}

double rms(const Errors& errors) {
  double sum = 0;
  for (const double e : errors.absolute) sum += e * e;
  return std::sqrt(sum / static_cast<double>(errors.absolute.size()));
}

}  // namespace

TEST_CASE("the NVLink laws are within 5 % of nccl-tests in the median on H100, H200 and B200") {
  for (const NvlinkBox& box : nvlink_boxes) {
    const auto file = shared_file(box.file);
    if (!file) return;
    const Machine machine = load_machine(box.machine);
    Errors rings, all_to_all;
    for (const auto& [key, points] : read_table(*file)) {
      const CollectivePricer pricer(machine.topology, machine.interconnect, key.ranks,
                                    box.compute_capability);
      CHECK(pricer.transport() == Transport::nvlink);
      for (const auto& [size, us] : points)
        (key.op == Collective::all_to_all ? all_to_all : rings)
            .add(pricer.price(key.op, Bytes(size)).time.us(), us);
    }
    INFO(box.machine << ": " << rings.absolute.size() << " points, median " << rings.median()
                     << ", p90 " << rings.quantile(0.9) << "; all-to-all median "
                     << all_to_all.median());
    CHECK(rings.absolute.size() >= 100);
    CHECK(rings.median() <= 0.05);
    CHECK(all_to_all.median() <= 0.10);
  }
}

TEST_CASE("scaled to a table, sizes that were left out of it are within 4 % rms on PCIe") {
  const auto file = shared_file("data/kernels/rtx_pro_6000_server/nccl__nccl_2.29.2.csv");
  if (!file) return;
  const Table table = read_table(*file);
  Errors all;
  for (const int ranks : {2, 4, 8}) {
    // Bus and channels as the sizes at which this host changes protocol show them.
    Interconnect i = ranks == 2 ? direct_interconnect() : interconnect();
    i.nccl.graph_file = NcclEnvironment::GraphFile{ranks == 8 ? 20.0 : 40.0, ranks == 8 ? 2 : 4};
    Table of_ranks;
    for (const auto& [key, points] : table)
      if (key.ranks == ranks && key.op != Collective::all_to_all) of_ranks[key] = points;
    Errors errors;
    leave_one_out(flat_box(8, 5, 56.3), i, 12.0, of_ranks, errors);
    INFO(ranks << " ranks: " << errors.absolute.size() << " sizes, rms " << rms(errors));
    CHECK(errors.absolute.size() >= 20);
    CHECK(rms(errors) <= 0.06);
    for (const double e : errors.absolute) all.absolute.push_back(e);
  }
  // Its single runs scatter: one of them lies 20 % off both of its neighbours (8 ranks, 256 MiB).
  INFO("this node: " << all.absolute.size() << " sizes, rms " << rms(all));
  CHECK(rms(all) <= 0.042);

  const Machine pairs = load_machine("4x-rtx-pro-6000-2-pairs");
  Table t21;
  const Settings rows = load_settings("scenarios/topology/t21.yaml");
  for (const Settings& point : rows.at("rows.0.points")->items())
    t21[{Collective::all_reduce, 4}][parse<Bytes>(point.items()[0].text())->count()] =
        parse<Duration>(point.items()[1].text())->us();
  Errors errors;
  leave_one_out(pairs.topology, pairs.interconnect, 12.0, t21, errors);
  INFO("T21: " << errors.absolute.size() << " sizes, rms " << rms(errors));
  CHECK(errors.absolute.size() >= 8);
  CHECK(rms(errors) <= 0.04);
  for (const double e : errors.absolute) all.absolute.push_back(e);
  INFO("both: " << all.absolute.size() << " sizes, rms " << rms(all));
  CHECK(rms(all) <= 0.04);
}

TEST_CASE("scaled to a table, sizes that were left out of it are near it on NVLink") {
  for (const NvlinkBox& box : nvlink_boxes) {
    const auto file = shared_file(box.file);
    if (!file) return;
    const Machine machine = load_machine(box.machine);
    Errors errors;
    leave_one_out(machine.topology, machine.interconnect, box.compute_capability, read_table(*file),
                  errors);
    INFO(box.machine << ": " << errors.absolute.size() << " sizes, rms " << rms(errors)
                     << ", median " << errors.median());
    CHECK(errors.absolute.size() >= 60);
    CHECK(errors.median() <= 0.04);
    CHECK(rms(errors) <= 0.13);  // single runs of twice their neighbours
  }
}
