#include "hardware/collective/box.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "sim/base/assert.hpp"

namespace {

// NCCL's rings move 0.855 of what a copy engine moves over the same PCIe links. A memory link
// states what staged rings get out of it, so nothing is taken off there.
constexpr double ring_efficiency = 0.855;

// The switch nearest to a GPU, else its socket: those who share it are close together.
DeviceId island_of(const Topology& topology, DeviceId gpu) {
  const DeviceId memory = topology.nearest_memory(gpu);
  if (memory < 0) return -1;
  DeviceId at = gpu, socket = -1;
  for (const Hop& hop : topology.route(gpu, memory)) {
    const Link& link = topology.link(hop.link);
    at = hop.forward ? link.b : link.a;
    const DeviceKind kind = topology.devices()[static_cast<std::size_t>(at)].kind;
    if (kind == DeviceKind::pcie_switch) return at;
    if (kind == DeviceKind::root_complex || kind == DeviceKind::numa_node) socket = at;
  }
  return socket;
}

}  // namespace

CollectiveBox::CollectiveBox(const Topology& topology, const Interconnect& interconnect, int ranks,
                             double compute_capability)
    : topology_(topology),
      interconnect_(interconnect),
      ranks_(ranks),
      compute_capability_(compute_capability) {
  SIM_ASSERT(ranks >= 1 && static_cast<std::size_t>(ranks) <= topology_.gpus().size());
  if (ranks == 1) return;
  for (int r = 0; r < ranks; ++r) ranks_.island.push_back(island_of(topology_, gpu(r)));

  peers_ = direct_stores_ = interconnect_.p2p_capable;
  nvlink_ = true;
  port_ = BytesPerSecond(std::numeric_limits<double>::infinity());
  for (int a = 0; a < ranks; ++a)
    for (int b = 0; b < ranks; ++b) {
      if (a == b) continue;
      const Route route = topology_.route(gpu(a), gpu(b));
      const PathKind path = topology_.path_kind(gpu(a), route);
      nvlink_ = nvlink_ && path == PathKind::nvlink;
      for (const auto& [x, y] : interconnect_.p2p_off)
        if ((x == a && y == b) || (x == b && y == a)) peers_ = false;
      if (interconnect_.sm_within_switch && path > PathKind::pxb) direct_stores_ = false;
      const Link& first = topology_.link(route.front().link);
      port_ = std::min(port_, first.bandwidth.value);
    }
  direct_stores_ = direct_stores_ && peers_;

  const Round ring =
      collective_algorithm("ring").schedule(Collective::all_gather, Bytes(ranks), ranks_).rounds[0];
  for (const Transfer& t : ring)
    ring_transport_ = std::max(ring_transport_, transport(t.from, t.to));
  const Share share = slowest(
      ring, [&](const Transfer& t) { return transport(t.from, t.to) == Transport::shm; },
      ring_efficiency);
  path_rate_ = share.rate;
  path_limit_ = share.limit;
}

Transport CollectiveBox::transport(int from, int to) const {
  const PathKind path = topology_.path_kind(gpu(from), gpu(to));
  const NcclEnvironment& env = interconnect_.nccl;
  bool granted = interconnect_.p2p_capable && !env.p2p_disable;
  for (const auto& [x, y] : interconnect_.p2p_off)
    if ((x == from && y == to) || (x == to && y == from)) granted = false;
  if (!granted) return Transport::shm;
  if (path == PathKind::nvlink) return Transport::nvlink;
  const bool any = env.cpu == CpuKind::amd && ranks_.count <= 2;
  const PathKind level = env.p2p_level.value_or(any ? PathKind::sys : PathKind::pxb);
  return path <= level ? Transport::p2p : Transport::shm;
}

template <class Staged>
CollectiveBox::Share CollectiveBox::slowest(const Round& round, Staged staged,
                                            double pcie_efficiency) const {
  Topology scaled = topology_;
  for (std::size_t i = 0; i < scaled.links().size(); ++i) {
    Link& link = scaled.link(static_cast<LinkId>(i));
    if (link.kind == "memory" || link.kind == "nvlink") continue;
    link.bandwidth.value = link.bandwidth.value * pcie_efficiency;
    if (link.back) link.back = *link.back * pcie_efficiency;
  }
  std::vector<Route> routes;
  int staged_count = 0;
  for (const Transfer& t : round) {
    const bool through_memory = staged(t);
    staged_count += through_memory;
    routes.push_back(through_memory ? scaled.staged_route(gpu(t.from), gpu(t.to))
                                    : scaled.peer_route(gpu(t.from), gpu(t.to)));
  }
  const auto rates = max_min_rates(scaled, routes, [](const Link&) { return 1.0; });
  Share out{*std::min_element(rates.begin(), rates.end()), std::nullopt};
  const auto which =
      static_cast<std::size_t>(std::min_element(rates.begin(), rates.end()) - rates.begin());
  // The slowest one's tightest link: the one whose share equals the rate.
  double tightest = std::numeric_limits<double>::infinity();
  for (const Hop& hop : routes[which]) {
    int users = 0;
    for (const auto& route : routes)
      for (const Hop& other : route)
        users += other.link == hop.link && other.forward == hop.forward;
    const Link& link = scaled.link(hop.link);
    if (const double share = link.bandwidth.value.count() / users; share < tightest) {
      tightest = share;
      const auto device = [&](DeviceId id) {
        return scaled.devices()[static_cast<std::size_t>(id)].name;
      };
      out.limit = LinkLimit{fmt::format("{} - {}", device(link.a), device(link.b)), link.kind,
                            topology_.link(hop.link).bandwidth};
    }
  }
  if (interconnect_.staging_capacity && staged_count > 0) {
    const BytesPerSecond each = interconnect_.staging_capacity->value * (1.0 / staged_count);
    if (each < out.rate)
      out = {each, LinkLimit{"staging capacity", "staging", *interconnect_.staging_capacity}};
  }
  return out;
}

BytesPerSecond CollectiveBox::exchange(bool stores) const {
  // As many flows in each direction of each link as pairs are routed over it; each gets as much as
  // the fullest one allows.
  std::vector<double> flows(topology_.links().size() * 2);
  // For the write collapse: which ranks send over a link direction, and into how many islands.
  std::vector<std::set<int>> sources(flows.size()), islands(flows.size());
  int staged = 0;
  for (int from = 0; from < ranks(); ++from)
    for (int to = 0; to < ranks(); ++to) {
      if (from == to) continue;
      const bool through_memory = stores ? !direct_stores_ : transport(from, to) == Transport::shm;
      staged += through_memory;
      for (const Hop& hop : through_memory ? topology_.staged_route(gpu(from), gpu(to))
                                           : topology_.peer_route(gpu(from), gpu(to))) {
        const std::size_t d = static_cast<std::size_t>(hop.link) * 2 + (hop.forward ? 0 : 1);
        ++flows[d];
        sources[d].insert(from);
        islands[d].insert(ranks_.island[static_cast<std::size_t>(to)]);
      }
    }
  double each = std::numeric_limits<double>::infinity();
  for (std::size_t d = 0; d < flows.size(); ++d) {
    if (flows[d] == 0) continue;
    const Link& link = topology_.links()[d / 2];
    const BytesPerSecond rate =
        d % 2 ? link.back.value_or(link.bandwidth.value) : link.bandwidth.value;
    each = std::min(each, rate.count() / flows[d]);
    const Device& below = topology_.devices()[static_cast<std::size_t>(d % 2 ? link.b : link.a)];
    if (stores && below.write_collapse && islands[d].size() >= 2 &&
        static_cast<int>(sources[d].size()) >= below.write_collapse->sources) {
      const BytesPerSecond left =
          below.write_collapse->stores.value_or(below.write_collapse->copies);
      each = std::min(each, left.count() / flows[d]);
    }
  }
  if (interconnect_.staging_capacity && staged > 0)
    each = std::min(each, interconnect_.staging_capacity->value.count() / staged);
  return BytesPerSecond(each * (ranks() - 1));
}

BytesPerSecond CollectiveBox::slowest_rate(const Round& round) const {
  return slowest(
             round, [&](const Transfer&) { return !direct_stores_; }, 1.0)
      .rate;
}
