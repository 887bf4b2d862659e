// The ring law: twelve constants that price NCCL's rings on PCIe for all-reduce, all-gather and
// reduce-scatter at 2, 4, 8 and 16 GPUs, direct and staged. Fitted on 283 points of ten hosts
// (aiconfigurator @095f58a5, local-inference-lab/rtx6kpro @e2c2b957, gardenlinux issue 4556, read
// 2026-08): median error 3.3 %, rms 8.9 %; a host left out of the fit: median 11.5 %.
//
//   LL:      b  + k max(h + f d, W / B_sat)       f = S / (4096 n nc), W = 2 S / n (flags double
//   it) Simple:  bS + k hS + (k + theta) S / (n B)
//
// Leaves out: trees, NVLink, all-to-all, the one-shot kernels of the engines.

#include "hardware/collective/pricing.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "sim/base/assert.hpp"

namespace {

constexpr double start_ll_us = 4.94;       // b: kernel start and end
constexpr double start_simple_us = 12.1;   // bS
constexpr double iteration_us = 0.70;      // d: one LL iteration, 4 KiB of data per channel
constexpr double pipeline_fill = 0.536;    // theta: extra chunk steps
constexpr double shm_ll_channel = 5.26e9;  // B/s of wire: 8 KiB per 1.5 us round trip
constexpr double channel_rate = 12.5e9;    // B/s, Simple, per channel
constexpr double staged_rate = 27.8e9;     // B/s: a copy staged through the host, T13
// NCCL's rings move 0.855 of what a copy engine moves over the same PCIe links. A memory link
// states what staged rings get out of it, so nothing is taken off there.
double ring_efficiency(const Link& link) { return link.kind == "memory" ? 1.0 : 0.855; }

}  // namespace

AllReducePolicy read_all_reduce_policy(const Settings* list, const std::string& what,
                                       Reading& reading) {
  AllReducePolicy out;
  if (!list) return out;
  if (!list->is_sequence()) {
    reading.errors.error(list->where(), what + " must be a list",
                         "write '- {kernel: one_shot, up_to: 64 KiB}' and then '- {kernel: nccl}'");
    return out;
  }
  auto kernels = Registry<AllReduceKernelFactory>::names();
  kernels.emplace_back("nccl");
  for (const Settings& item : list->items()) {
    Section s(item, what, reading);
    AllReduceChoice choice;
    choice.kernel = s.word("kernel", kernels);
    choice.up_to = s.maybe<Bytes>("up_to", positive<Bytes>());
    choice.channels = s.maybe<int>("channels", between(1, 64));
    if (choice.channels && choice.kernel != "nccl")
      s.error("channels", "only NCCL has channels", "leave it out");
    if (!out.empty() && (!out.back().up_to || (choice.up_to && *choice.up_to <= *out.back().up_to)))
      s.error("up_to", "the sizes of all_reduce must ascend, the one without 'up_to' last");
    out.push_back(std::move(choice));
  }
  return out;
}

CollectivePricer::CollectivePricer(const Topology& topology, const Interconnect& interconnect,
                                   int ranks, double compute_capability, AllReducePolicy policy)
    : interconnect_(interconnect), ranks_(ranks) {
  SIM_ASSERT(ranks >= 1 && static_cast<std::size_t>(ranks) <= topology.gpus().size());
  if (ranks == 1) return;
  view_ = nccl_view(topology, ranks, compute_capability, interconnect.nccl);
  const bool p2p = interconnect.p2p_capable && !interconnect.nccl.p2p_disable &&
                   (interconnect.nccl.p2p_level_sys || ranks <= 2);
  transport_ = p2p ? Transport::p2p : Transport::shm;

  const auto& factory = *Registry<CollectiveAlgorithmFactory>::find("ring");
  std::vector<Route> routes;
  for (const Transfer& t :
       factory().schedule(Collective::all_gather, Bytes(ranks), ranks).transfers) {
    const DeviceId from = topology.gpus()[static_cast<std::size_t>(t.from)];
    const DeviceId to = topology.gpus()[static_cast<std::size_t>(t.to)];
    routes.push_back(p2p ? topology.route(from, to) : topology.staged_route(from, to));
  }
  const auto rates = max_min_rates(topology, routes, ring_efficiency);
  path_rate_ = *std::min_element(rates.begin(), rates.end());
  // Name the slowest hop's tightest link: the one whose share equals the rate.
  const auto slowest =
      static_cast<std::size_t>(std::min_element(rates.begin(), rates.end()) - rates.begin());
  double tightest = std::numeric_limits<double>::infinity();
  for (const Hop& hop : routes[slowest]) {
    int users = 0;
    for (const auto& route : routes)
      for (const Hop& other : route)
        users += other.link == hop.link && other.forward == hop.forward;
    const Link& link = topology.link(hop.link);
    if (const double share = link.bandwidth.value.count() * ring_efficiency(link) / users;
        share < tightest)
      tightest = share, path_limit_ = link;
  }
  if (!p2p || policy.empty()) return;
  policy_ = std::move(policy);
  kernels_ = {ranks, BytesPerSecond(std::numeric_limits<double>::infinity()),
              BytesPerSecond(std::numeric_limits<double>::infinity()), path_rate_};
  // All to all: as many flows in each direction of each link as pairs are routed over it.
  std::vector<int> flows(topology.links().size() * 2);
  for (int from = 0; from < ranks; ++from)
    for (int to = 0; to < ranks; ++to) {
      if (from == to) continue;
      const Route route = topology.route(topology.gpus()[static_cast<std::size_t>(from)],
                                         topology.gpus()[static_cast<std::size_t>(to)]);
      kernels_.port = std::min(kernels_.port, topology.link(route.front().link).bandwidth.value);
      for (const Hop& hop : route)
        ++flows[static_cast<std::size_t>(hop.link) * 2 + (hop.forward ? 0 : 1)];
    }
  for (std::size_t d = 0; d < flows.size(); ++d)
    if (flows[d] > 0)
      kernels_.exchange =
          std::min(kernels_.exchange, topology.links()[d / 2].bandwidth.value *
                                          (static_cast<double>(ranks - 1) / flows[d]));
}

const CollectivePrice& CollectivePricer::price(Collective op, Bytes size) const {
  const auto [it, fresh] = known_.try_emplace({op, size.count()});
  if (fresh) it->second = compute(op, size);
  return it->second;
}

CollectivePrice CollectivePricer::compute(Collective op, Bytes size) const {
  CollectivePrice out;
  if (ranks_ == 1 || size.count() == 0) {
    out.transport = Transport::local;
    return out;
  }
  if (op == Collective::all_reduce)
    for (const AllReduceChoice& choice : policy_) {
      if (choice.up_to && size > *choice.up_to) continue;
      if (choice.kernel == "nccl") return ring(op, size, choice.channels.value_or(view_.channels));
      return (*Registry<AllReduceKernelFactory>::find(choice.kernel))().price(size, kernels_);
    }
  return ring(op, size, view_.channels);
}

CollectivePrice CollectivePricer::ring(Collective op, Bytes size, int nccl_channels) const {
  CollectivePrice out;
  const auto& algorithm = (*Registry<CollectiveAlgorithmFactory>::find("ring"))();
  const Schedule schedule = algorithm.schedule(op, size, ranks_);
  const double k = schedule.rounds;
  const double chunk = schedule.transfers.front().bytes;
  const bool p2p = transport_ == Transport::p2p;
  const TransportSpec& transport = p2p ? interconnect_.p2p : interconnect_.shm;
  const double channels = nccl_channels;

  out.protocol = nccl_protocol(op, size, ranks_, view_, interconnect_.nccl);
  out.transport = transport_;
  out.channels = nccl_channels;
  double us = 0;
  if (out.protocol == Protocol::ll) {
    const double wire = 2 * chunk;
    const double channel_limit = p2p ? path_rate_.count() : channels * shm_ll_channel;
    const double saturated_us = wire / std::min(path_rate_.count(), channel_limit) * 1e6;
    const double latency_us =
        transport.hop_ll.value.us() + size.real() / (4096.0 * ranks_ * channels) * iteration_us;
    us = start_ll_us + k * std::max(latency_us, saturated_us);
    out.limit = latency_us >= saturated_us            ? "hop latency"
                : path_rate_.count() <= channel_limit ? "links"
                                                      : "channels";
  } else {
    const double path = p2p ? path_rate_.count() : std::min(path_rate_.count(), staged_rate);
    const double rate = std::min(path, channels * channel_rate);
    const double latency_us = start_simple_us + k * transport.hop_simple.us();
    const double transfer_us = (k + pipeline_fill) * chunk / rate * 1e6;
    us = latency_us + transfer_us;
    out.limit = latency_us >= transfer_us         ? "hop latency"
                : path <= channels * channel_rate ? "links"
                                                  : "channels";
  }
  // The law is fitted; what it waits for may rest on less.
  out.provenance = std::max(Provenance::fitted, out.limit == "links" ? path_limit_->bandwidth.basis
                                                                     : transport.hop_ll.basis);
  out.time = Duration::from_us(us);
  return out;
}
