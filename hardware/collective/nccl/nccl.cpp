// Source of every number here: NVIDIA/nccl v2.27.3 to v2.29.2, src/graph/{tuning,search,topo}.cc as
// read on 2026-08; the constants are the same in all of them.
// Leaves out: trees unless asked for (they never win on one PCIe node), the search over ring
// orders, CollNet.

#include "hardware/collective/nccl/nccl.hpp"

#include <algorithm>
#include <array>
#include <sstream>
#include <vector>

namespace {

// GB/s that NCCL ascribes to a link from what the operating system reports: lanes x (Gen3 60, Gen4
// 120, Gen5 240 Mbit/s per lane and 1/80); an unknown speed counts as Gen3 x16.
double believed_gbps(const Link& link, CpuKind cpu) {
  constexpr std::array<double, 7> per_lane = {60, 15, 30, 60, 120, 240, 480};
  if (link.kind == "interconnect") switch (cpu) {
      case CpuKind::amd:
        return 16;  // every model
      case CpuKind::intel_skylake:
        return 10;
      case CpuKind::intel_sapphire_rapids:
        return 22;
      case CpuKind::intel_emerald_rapids:
        return 40;
    }
  if (link.kind != "pcie") return 1e9;  // not a limit in its search
  const int lanes = link.lanes ? link.lanes : 16;
  return lanes * per_lane[static_cast<std::size_t>(link.gen)] / 80;
}

// Whether a version "2.29.2" is at least the one given.
bool at_least(const std::string& version, std::array<int, 3> least) {
  std::array<int, 3> parts = {};
  std::istringstream in(version);
  for (int& part : parts) {
    in >> part;
    in.ignore(1, '.');
  }
  return parts >= least;
}

const std::vector<double>& candidate_speeds(double compute_capability, const std::string& version) {
  static const std::vector<double> blackwell = {90, 80, 70, 60, 50, 40, 30, 24, 20, 19, 18};
  static const std::vector<double> blackwell_2_29_2 = {90, 80, 70, 60, 50, 45,
                                                       40, 30, 24, 20, 19, 18};
  static const std::vector<double> hopper = {60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3};
  static const std::vector<double> older = {40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3};
  if (compute_capability >= 10) return at_least(version, {2, 29, 2}) ? blackwell_2_29_2 : blackwell;
  return compute_capability >= 9 ? hopper : older;
}

}  // namespace

NcclView nccl_view(const Topology& topology, int ranks, double compute_capability,
                   const NcclEnvironment& environment) {
  NcclView view{0.1, 2};  // "simple order": one ring of 0.1 GB/s, two channels
  if (environment.graph_file) {
    view = {environment.graph_file->bus_gbps, environment.graph_file->channels};
  } else {
    // How often one ring crosses each direction of each link. On Intel a way from GPU to GPU
    // through the processor counts for 6/5.
    std::vector<double> crossings(topology.links().size() * 2);
    for (int r = 0; r < ranks; ++r) {
      const DeviceId from = topology.gpus()[static_cast<std::size_t>(r)];
      const DeviceId to = topology.gpus()[static_cast<std::size_t>((r + 1) % ranks)];
      const double weight =
          environment.cpu != CpuKind::amd && topology.path_kind(from, to) >= PathKind::phb ? 1.2
                                                                                           : 1;
      for (const Hop& hop : topology.route(from, to))
        crossings[static_cast<std::size_t>(hop.link) * 2 + (hop.forward ? 0 : 1)] += weight;
    }
    for (const double speed : candidate_speeds(compute_capability, environment.version)) {
      bool fits = true;
      for (std::size_t d = 0; d < crossings.size(); ++d)
        fits =
            fits && crossings[d] * speed <= believed_gbps(topology.links()[d / 2], environment.cpu);
      if (!fits) continue;
      const int rings = speed >= 25 ? 2 : 1;  // a fast ring is laid twice at half speed
      view = {speed, rings * 2};
      break;
    }
  }
  if (environment.channels) view.channels = *environment.channels;
  if (environment.min_nchannels)
    view.channels = std::max(view.channels, *environment.min_nchannels);
  if (environment.max_nchannels)
    view.channels = std::min(view.channels, *environment.max_nchannels);
  return view;
}

Protocol nccl_protocol(Collective op, Bytes size, int ranks, const NcclView& view,
                       const NcclEnvironment& environment) {
  if (environment.proto) return *environment.proto;
  const double k = (op == Collective::all_reduce ? 2 : 1) * (ranks - 1);
  const double kilobytes = size.real() / 1e3;  // GB/s are kB/us
  const double ring = view.bus_gbps * ranks / k;
  const double ll = 6.6 + k * 1.0 + kilobytes / (ring / 2);
  const double simple = 8.4 + k * 5.7 + kilobytes / ring;
  return ll <= simple ? Protocol::ll : Protocol::simple;
}

CollectivePrice nccl_price(Collective op, Bytes size, const CollectiveBox& box,
                           const NcclView& view, int channels) {
  if (op == Collective::all_to_all || op == Collective::send_recv)
    return nccl_exchange(op, size, box);
  if (box.ring_transport() == Transport::nvlink) return nccl_nvlink(op, size, box);
  if (box.interconnect().nccl.tree && op == Collective::all_reduce)
    return nccl_tree(op, size, box, view, channels);
  return nccl_ring(op, size, box, view, channels);
}
