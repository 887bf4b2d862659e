#include "hardware/collective/collective.hpp"

#include "sim/base/assert.hpp"

std::string_view name(Collective op) {
  switch (op) {
    case Collective::all_reduce:
      return "all_reduce";
    case Collective::all_gather:
      return "all_gather";
    case Collective::reduce_scatter:
      return "reduce_scatter";
  }
  SIM_UNREACHABLE("a collective without a name");
}

std::string_view name(Protocol p) { return p == Protocol::ll ? "LL" : "Simple"; }

std::string_view name(Transport t) {
  return t == Transport::p2p ? "P2P" : t == Transport::shm ? "SHM" : "local";
}
