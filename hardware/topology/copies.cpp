// Concurrent copies. Sources of the numbers: local-inference-lab/rtx6kpro @e2c2b957, hardware/*.md
// (read 2026-08); fitted there on 91 rows of nine boxes.
// Leaves out: latency, the size of a copy, reads that go faster than the link (rows of three boxes
// that no link can carry), the limit of eight peer mappings.

#include "hardware/topology/copies.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "sim/base/assert.hpp"
#include "sim/base/random.hpp"

namespace {

// Both directions of a PCIe link together, of twice one way (0.94 to 0.985 seen): 101 to 111 GB/s.
constexpr double pcie_duplex = 0.965;
// In a dense pattern a link that several copies share carries less (T04's 16 crossing copies:
// 0.96).
constexpr double dense_share = 0.95;
// Mean over so many orders of service; more move no pattern of eight GPUs by 1 %.
constexpr int drawn_orders = 16;
// p2pBandwidthLatencyTest without P2P, pcie-bandwidth.md: about 14 us, whatever the box.
constexpr double staged_latency_us = 14;

DeviceId gpu_of(const Topology& topology, int rank) {
  SIM_ASSERT(rank >= 0 && static_cast<std::size_t>(rank) < topology.gpus().size());
  return topology.gpus()[static_cast<std::size_t>(rank)];
}

BytesPerSecond one_way(const Link& link, bool forward) {
  return forward ? link.bandwidth.value : link.back.value_or(link.bandwidth.value);
}

BytesPerSecond tightest(const Topology& topology, const Route& route) {
  auto out = BytesPerSecond(std::numeric_limits<double>::infinity());
  for (const Hop& hop : route) out = std::min(out, one_way(topology.link(hop.link), hop.forward));
  return out;
}

DeviceId end_of(const Topology& topology, const Hop& hop) {
  return hop.forward ? topology.link(hop.link).b : topology.link(hop.link).a;
}

// What the copies share: for link l its two directions at 2 l and 2 l + 1, both together at 2 L +
// l, then what all staged copies share, then what each of them has to itself.
class Limits {
 public:
  explicit Limits(const Topology& topology) : links_(topology.links().size()) {
    const auto name = [&](DeviceId d) {
      return topology.devices()[static_cast<std::size_t>(d)].name;
    };
    for (const Link& link : topology.links()) {
      add(one_way(link, true).count(), name(link.a) + " > " + name(link.b));
      add(one_way(link, false).count(), name(link.b) + " > " + name(link.a));
    }
    for (const Link& link : topology.links()) {
      const double both = one_way(link, true).count() + one_way(link, false).count();
      add(link.duplex           ? link.duplex->count()
          : link.kind == "pcie" ? pcie_duplex * both
                                : both,
          name(link.a) + " <> " + name(link.b));
    }
  }
  std::size_t add(double capacity, std::string name) {
    capacity_.push_back(capacity);
    names_.push_back(std::move(name));
    return capacity_.size() - 1;
  }
  static std::size_t direction(const Hop& hop) {
    return static_cast<std::size_t>(hop.link) * 2 + (hop.forward ? 0 : 1);
  }
  std::size_t both(const Hop& hop) const { return links_ * 2 + static_cast<std::size_t>(hop.link); }
  bool is_of_a_link(std::size_t limit) const { return limit < links_ * 3; }
  const std::vector<double>& capacity() const { return capacity_; }
  const std::string& name(std::size_t limit) const { return names_[limit]; }

 private:
  std::size_t links_;
  std::vector<double> capacity_;
  std::vector<std::string> names_;
};

/// Writes of a GPU that leave a switch whose writes may collapse.
struct Leaving {
  DeviceId from_switch;
  std::size_t uplink;  // the limit
};

struct Flow {
  std::vector<std::size_t> uses;
  std::vector<Leaving> leaving;
  DeviceId source = -1, target_root = -1;
  int engine = 0;  // copies of one engine take turns
  bool staged = false;
};

Flow make_flow(const Topology& topology, const Copy& copy, const CopyOptions& options,
               Limits& limits, std::optional<std::size_t>& staging) {
  SIM_ASSERT(copy.from != copy.to);
  Flow flow;
  Route route;
  if (copy.from == Copy::host) {
    const DeviceId to = gpu_of(topology, copy.to);
    route = topology.route(topology.nearest_memory(to), to);
    flow.engine = 2 * copy.to + 1;
  } else if (copy.to == Copy::host) {
    flow.source = gpu_of(topology, copy.from);
    route = topology.route(flow.source, topology.nearest_memory(flow.source));
    flow.engine = 2 * copy.from;
  } else {
    flow.source = gpu_of(topology, copy.from);
    const DeviceId to = gpu_of(topology, copy.to);
    flow.engine = 2 * copy.from;
    flow.staged = is_staged(topology, copy.from, copy.to, options);
    if (flow.staged) {
      const DeviceId memory = topology.nearest_memory(to);
      const Route down = topology.route(flow.source, memory), up = topology.route(memory, to);
      route = topology.staged_route(flow.source, to);
      // The halves do not overlap: down, then up (28.7 GB/s measured on ports of 54).
      const double alone =
          1 / (1 / tightest(topology, down).count() + 1 / tightest(topology, up).count());
      flow.uses.push_back(limits.add(alone, "down and up in turn"));
      if (options.staging_capacity) {
        if (!staging) staging = limits.add(options.staging_capacity->count(), "staging capacity");
        flow.uses.push_back(*staging);
      }
    } else {
      route = topology.peer_route(flow.source, to);
    }
  }
  SIM_ASSERT(!route.empty());
  DeviceId at = flow.source;
  for (const Hop& hop : route) {
    flow.uses.push_back(Limits::direction(hop));
    flow.uses.push_back(limits.both(hop));
    const DeviceId next = end_of(topology, hop);
    const Device& next_device = topology.devices()[static_cast<std::size_t>(next)];
    if (at >= 0 && topology.devices()[static_cast<std::size_t>(at)].write_collapse &&
        next_device.kind != DeviceKind::gpu && flow.source >= 0 && flow.target_root < 0)
      flow.leaving.push_back({at, Limits::direction(hop)});
    // The last root on the way is the target's; memory is a target of its own.
    if (next_device.kind == DeviceKind::root_port || next_device.kind == DeviceKind::root_complex ||
        (next_device.kind == DeviceKind::host_memory && copy.to == Copy::host))
      flow.target_root = next;
    at = next;
  }
  return flow;
}

/// The capacities while some flows are under way: collapsed uplinks, and crowded links of a dense
/// pattern.
std::vector<double> capacities(const Topology& topology, const Limits& limits,
                               const std::vector<const Flow*>& active, bool dense, Mover mover) {
  std::vector<double> out = limits.capacity();
  if (dense) {
    std::vector<int> users(out.size());
    for (const Flow* flow : active)
      for (const std::size_t limit : flow->uses) ++users[limit];
    for (std::size_t i = 0; i < out.size(); ++i)
      if (users[i] >= 2 && limits.is_of_a_link(i)) out[i] *= dense_share;
  }
  struct Writers {
    std::set<DeviceId> sources, targets;
  };
  std::map<std::pair<DeviceId, std::size_t>, Writers> writers;
  for (const Flow* flow : active)
    for (const Leaving& l : flow->leaving) {
      if (flow->target_root < 0) continue;  // stays below the switches
      auto& w = writers[{l.from_switch, l.uplink}];
      w.sources.insert(flow->source);
      w.targets.insert(flow->target_root);
    }
  for (const auto& [where, w] : writers) {
    const auto& collapse =
        *topology.devices()[static_cast<std::size_t>(where.first)].write_collapse;
    if (static_cast<int>(w.sources.size()) < collapse.sources || w.targets.size() < 2) continue;
    const auto rate =
        mover == Mover::sm_stores ? collapse.stores.value_or(collapse.copies) : collapse.copies;
    out[where.second] = std::min(out[where.second], rate.count());
  }
  return out;
}

/// One order of service: seconds per copy, and bytes moved under each limit.
struct Run {
  std::vector<double> seconds;
  double last = 0;
  std::vector<std::map<std::size_t, double>> held;
};

Run serve(const Topology& topology, const Limits& limits, const std::vector<Copy>& copies,
          const std::vector<Flow>& flows, std::map<int, std::vector<std::size_t>> queues,
          bool dense, Mover mover) {
  Run run{std::vector<double>(copies.size()), 0, {}};
  run.held.resize(copies.size());
  std::vector<double> left, start(copies.size());
  for (const Copy& copy : copies) left.push_back(copy.bytes.real());
  double now = 0;
  while (!queues.empty()) {
    std::vector<std::size_t> heads;
    std::vector<const Flow*> active;
    std::vector<std::vector<std::size_t>> uses;
    for (const auto& [engine, queue] : queues) {
      heads.push_back(queue.back());
      active.push_back(&flows[queue.back()]);
      uses.push_back(active.back()->uses);
    }
    const FairShares shares = fair_shares(capacities(topology, limits, active, dense, mover), uses);
    double step = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < heads.size(); ++i)
      step = std::min(step, left[heads[i]] / shares.rate[i]);
    now += step;
    for (std::size_t i = 0; i < heads.size(); ++i) {
      const std::size_t c = heads[i];
      const double moved = std::min(left[c], shares.rate[i] * step);
      run.held[c][*shares.limit[i]] += moved;
      left[c] -= moved;
      // What rounding leaves of a copy is not worth an event.
      if (left[c] > 1e-9 * copies[c].bytes.real()) continue;
      run.seconds[c] = now - start[c];
      auto it = queues.find(mover == Mover::sm_stores ? static_cast<int>(c) : flows[c].engine);
      it->second.pop_back();
      if (it->second.empty())
        queues.erase(it);
      else
        start[it->second.back()] = now;
    }
  }
  run.last = now;
  return run;
}

std::string most(const Limits& limits, const std::map<std::size_t, double>& held) {
  const auto it = std::max_element(
      held.begin(), held.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return it == held.end() ? std::string() : limits.name(it->first);
}

}  // namespace

bool is_staged(const Topology& topology, int from, int to, const CopyOptions& options) {
  if (!options.p2p) return true;
  for (const auto& [a, b] : options.p2p_off)
    if ((a == from && b == to) || (a == to && b == from)) return true;
  return options.mover == Mover::sm_stores && options.sm_within_switch &&
         topology.path_kind(gpu_of(topology, from), gpu_of(topology, to)) > PathKind::pxb;
}

CopiesOutcome run_copies(const Topology& topology, const std::vector<Copy>& copies,
                         const CopyOptions& options) {
  Limits limits(topology);
  std::optional<std::size_t> staging;
  std::vector<Flow> flows;
  for (const Copy& copy : copies)
    flows.push_back(make_flow(topology, copy, options, limits, staging));

  // Dense: somebody sends more than one of the copies.
  std::map<int, std::vector<std::size_t>> by_engine, queues;
  for (std::size_t c = copies.size(); c-- > 0;) by_engine[flows[c].engine].push_back(c);
  const bool dense = std::any_of(by_engine.begin(), by_engine.end(),
                                 [](const auto& e) { return e.second.size() > 1; });
  const bool queued = dense && options.mover == Mover::copy_engine;
  if (options.mover == Mover::copy_engine)
    queues = by_engine;
  else
    for (std::size_t c = 0; c < copies.size(); ++c) queues[static_cast<int>(c)] = {c};

  CopiesOutcome out;
  std::vector<double> seconds(copies.size());
  std::vector<std::map<std::size_t, double>> held(copies.size());
  double last = 0;
  const int orders = queued ? drawn_orders : 1;
  for (int order = 0; order < orders; ++order) {
    auto drawn = queues;
    if (queued)
      for (auto& [engine, queue] : drawn) {
        // Fisher and Yates; a stream for each engine, so that one queue does not move the others.
        RandomStream random(static_cast<std::uint64_t>(order),
                            "copy order " + std::to_string(engine));
        for (std::size_t i = queue.size(); i > 1; --i)
          std::swap(queue[i - 1],
                    queue[static_cast<std::size_t>(random.uniform() * static_cast<double>(i))]);
      }
    const Run run = serve(topology, limits, copies, flows, std::move(drawn), dense, options.mover);
    last += run.last / orders;
    for (std::size_t c = 0; c < copies.size(); ++c) {
      seconds[c] += run.seconds[c] / orders;
      for (const auto& [limit, bytes] : run.held[c]) held[c][limit] += bytes;
    }
  }
  double bytes = 0;
  std::map<std::size_t, double> all;
  for (std::size_t c = 0; c < copies.size(); ++c) {
    bytes += copies[c].bytes.real();
    out.copies.push_back({Duration::from_seconds(seconds[c]),
                          BytesPerSecond(seconds[c] > 0 ? copies[c].bytes.real() / seconds[c] : 0),
                          flows[c].staged, most(limits, held[c])});
    for (const auto& [limit, moved] : held[c]) all[limit] += moved;
  }
  out.time = Duration::from_seconds(last);
  out.aggregate = BytesPerSecond(last > 0 ? bytes / last : 0);
  out.limit = most(limits, all);
  return out;
}

std::vector<Copy> each_to_each(const std::vector<int>& sources, const std::vector<int>& targets,
                               Bytes bytes) {
  std::vector<Copy> out;
  for (const int from : sources)
    for (const int to : targets)
      if (from != to) out.push_back({from, to, bytes});
  return out;
}

BytesPerSecond staggered_rate(const Topology& topology, const std::vector<int>& gpus,
                              const CopyOptions& options) {
  double sum = 0;
  const auto n = gpus.size();
  for (std::size_t shift = 1; shift < n; ++shift) {
    std::vector<Copy> round;
    for (std::size_t i = 0; i < n; ++i)
      round.push_back({gpus[i], gpus[(i + shift) % n], Bytes(1 << 28)});
    for (const CopyOutcome& copy : run_copies(topology, round, options).copies)
      sum += copy.rate.count();
  }
  return BytesPerSecond(n > 1 ? sum / static_cast<double>(n - 1) : 0);
}

std::vector<std::vector<BytesPerSecond>> copy_matrix(const Topology& topology,
                                                     const CopyOptions& options,
                                                     bool bidirectional) {
  const auto n = topology.gpus().size();
  std::vector<std::vector<BytesPerSecond>> out(n, std::vector<BytesPerSecond>(n));
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      if (i == j || (bidirectional && j < i)) continue;
      const int a = static_cast<int>(i), b = static_cast<int>(j);
      std::vector<Copy> copies = {{a, b, Bytes(1 << 28)}};
      if (bidirectional) copies.push_back({b, a, Bytes(1 << 28)});
      out[i][j] = run_copies(topology, copies, options).aggregate;
      if (bidirectional) out[j][i] = out[i][j];
    }
  return out;
}

Duration copy_latency(const Topology& topology, int from, int to, const CopyOptions& options) {
  if (is_staged(topology, from, to, options)) return Duration::from_us(staged_latency_us);
  return topology.latency(topology.peer_route(gpu_of(topology, from), gpu_of(topology, to)));
}
