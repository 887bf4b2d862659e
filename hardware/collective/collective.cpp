#include "hardware/collective/collective.hpp"

#include <algorithm>

#include "sim/base/assert.hpp"

std::string_view name(Collective op) {
  switch (op) {
    case Collective::all_reduce:
      return "all_reduce";
    case Collective::all_gather:
      return "all_gather";
    case Collective::reduce_scatter:
      return "reduce_scatter";
    case Collective::all_to_all:
      return "all_to_all";
    case Collective::broadcast:
      return "broadcast";
    case Collective::send_recv:
      return "send_recv";
  }
  SIM_UNREACHABLE("a collective without a name");
}

std::string_view name(Protocol p) {
  return p == Protocol::ll ? "LL" : p == Protocol::ll128 ? "LL128" : "Simple";
}

std::string_view name(Transport t) {
  switch (t) {
    case Transport::local:
      return "local";
    case Transport::nvlink:
      return "NVLink";
    case Transport::p2p:
      return "P2P";
    case Transport::shm:
      return "SHM";
  }
  SIM_UNREACHABLE("a transport without a name");
}

const std::vector<Collective>& all_collectives() {
  static const std::vector<Collective> all = {Collective::all_reduce,     Collective::all_gather,
                                              Collective::reduce_scatter, Collective::all_to_all,
                                              Collective::broadcast,      Collective::send_recv};
  return all;
}

std::vector<std::string> collective_names() {
  std::vector<std::string> out;
  for (const Collective op : all_collectives()) out.emplace_back(name(op));
  return out;
}

bool parse_collective(std::string_view word, Collective& out) {
  for (const Collective op : all_collectives())
    if (name(op) == word) return out = op, true;
  return false;
}

double bus_factor(Collective op, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (op) {
    case Collective::all_reduce:
      return 2 * others;
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
      return others;
    case Collective::broadcast:
    case Collective::send_recv:
      return 1;
  }
  SIM_UNREACHABLE("a collective without a bus factor");
}

const CollectiveAlgorithm& collective_algorithm(const std::string& name) {
  const auto* factory = Registry<CollectiveAlgorithmFactory>::find(name);
  SIM_ASSERT(factory);
  return (*factory)();
}
