#include "sim/report/topology_report.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "sim/report/table.hpp"
#include "sim/report/topology_tree.hpp"

namespace {

const std::string& name_of(const Topology& t, DeviceId id) {
  return t.devices()[static_cast<std::size_t>(id)].name;
}
const std::string& gpu_name(const Machine& m, std::size_t rank) {
  return name_of(m.topology, m.topology.gpus()[rank]);
}

Matrix in_gbps(const std::vector<std::vector<BytesPerSecond>>& rates) {
  Matrix out;
  for (const auto& row : rates) {
    out.emplace_back();
    for (const BytesPerSecond rate : row) out.back().push_back(rate.count() / 1e9);
  }
  return out;
}

// Of what an all-to-all loads, the link direction with the least for each flow; the same sum as in
// CollectiveBox::exchange.
std::string fullest_link(const CollectiveBox& box) {
  const Topology& t = box.topology();
  std::vector<double> flows(t.links().size() * 2);
  int staged = 0;
  for (int from = 0; from < box.ranks(); ++from)
    for (int to = 0; to < box.ranks(); ++to) {
      if (from == to) continue;
      const DeviceId a = t.gpus()[static_cast<std::size_t>(from)];
      const DeviceId b = t.gpus()[static_cast<std::size_t>(to)];
      const bool through_memory = box.transport(from, to) == Transport::shm;
      staged += through_memory;
      for (const Hop& hop : through_memory ? t.staged_route(a, b) : t.peer_route(a, b))
        ++flows[static_cast<std::size_t>(hop.link) * 2 + (hop.forward ? 0 : 1)];
    }
  double each = std::numeric_limits<double>::infinity();
  std::string out;
  for (std::size_t d = 0; d < flows.size(); ++d) {
    if (flows[d] == 0) continue;
    const Link& link = t.links()[d / 2];
    const double share =
        (d % 2 ? link.back.value_or(link.bandwidth.value) : link.bandwidth.value).count() /
        flows[d];
    if (share >= each) continue;
    each = share;
    out = d % 2 ? fmt::format("{} > {}", name_of(t, link.b), name_of(t, link.a))
                : fmt::format("{} > {}", name_of(t, link.a), name_of(t, link.b));
  }
  if (const auto& capacity = box.interconnect().staging_capacity;
      capacity && staged > 0 && capacity->value.count() / staged < each)
    out = "staging capacity";
  return out;
}

// Where NCCL changes its protocol between 8 B and 1 GiB, found by halves.
std::vector<std::pair<Protocol, std::int64_t>> protocol_changes(const CollectivePricer& pricer) {
  const auto at = [&](std::int64_t size) {
    return pricer.price_by("nccl", Collective::all_reduce, Bytes(size)).protocol;
  };
  std::vector<std::pair<Protocol, std::int64_t>> out = {{at(8), 0}};
  for (std::int64_t size = 8; size < std::int64_t{1} << 30; size *= 2) {
    std::int64_t low = size, high = size * 2;
    if (at(high) == out.back().first) continue;
    while (high - low > 1) {
      const auto middle = low + (high - low) / 2;
      (at(middle) == out.back().first ? low : high) = middle;
    }
    out.emplace_back(at(high), high);
  }
  return out;
}

NcclOutlook outlook(const Machine& machine, const CollectivePricer& pricer) {
  const CollectiveBox& box = pricer.box();
  NcclOutlook out;
  out.version = machine.interconnect.nccl.version;
  for (int i = 0; i < box.ranks(); ++i) {
    out.transports.emplace_back();
    for (int j = 0; j < box.ranks(); ++j)
      out.transports.back().push_back(i == j ? Transport::local : box.transport(i, j));
  }
  out.view = pricer.view();
  out.ring_transport = pricer.transport();
  out.hop_rate = pricer.path_rate();
  out.ring_limit = pricer.path_limit();
  out.exchange_rate = box.exchange(false);
  out.exchange_limit = fullest_link(box);
  out.protocols = protocol_changes(pricer);
  out.all_reduce = pricer.price_by("nccl", Collective::all_reduce, NcclOutlook::large);
  out.all_to_all = pricer.price_by("nccl", Collective::all_to_all, NcclOutlook::large);
  return out;
}

double rate_of(const Machine& m, const std::vector<Copy>& copies, std::string* limit = nullptr) {
  const CopiesOutcome outcome = run_copies(m.topology, copies, copy_options(m));
  if (limit) *limit = outcome.limit;
  return outcome.aggregate.count() / 1e9;
}

std::string gbps(double rate) { return rate > 0 ? figure(rate) : "-"; }

std::string time_text(double us) { return us > 0 ? text(Duration::from_us(us)) : "-"; }

// Pairs that look the same in every way.
struct PairKind {
  PathKind path;
  std::vector<std::string> cells;
  int pairs = 0;
  std::string such_as;
};

std::vector<PairKind> pair_kinds(const TopologyView& v) {
  const Topology& t = v.machine.topology;
  std::vector<PairKind> out;
  const std::size_t n = t.gpus().size();
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = i + 1; j < n; ++j) {
      // One way may differ from the other.
      const auto one_way = [&](const Matrix& m) {
        return m[i][j] == m[j][i] ? gbps(m[i][j]) : gbps(m[i][j]) + "/" + gbps(m[j][i]);
      };
      PairKind kind{
          t.path_kind(t.gpus()[i], t.gpus()[j]),
          {one_way(v.one_way), one_way(v.one_way_staged), gbps(v.both_ways[i][j]),
           gbps(v.both_ways_staged[i][j]), time_text(v.latency_us[i][j]),
           time_text(v.latency_us_staged[i][j]), std::string(name(v.nccl->transports[i][j]))},
          1,
          gpu_name(v.machine, i) + " - " + gpu_name(v.machine, j)};
      const auto same = std::find_if(out.begin(), out.end(), [&](const PairKind& o) {
        return o.path == kind.path && o.cells == kind.cells;
      });
      if (same == out.end())
        out.push_back(std::move(kind));
      else
        ++same->pairs;
    }
  std::stable_sort(out.begin(), out.end(),
                   [](const PairKind& a, const PairKind& b) { return a.path < b.path; });
  return out;
}

// A matrix over the GPUs, in blocks of as many columns as a screen holds.
template <class Cell>
std::string matrix_text(const Machine& m, const std::string& title, Cell cell) {
  const std::size_t n = m.topology.gpus().size();
  std::vector<std::vector<std::string>> cells(n);
  std::size_t names = 0, width = 0;
  for (std::size_t i = 0; i < n; ++i) {
    names = std::max(names, gpu_name(m, i).size());
    width = std::max(width, fmt::format("{}", i).size());
    for (std::size_t j = 0; j < n; ++j) {
      cells[i].push_back(cell(i, j));
      width = std::max(width, cells[i].back().size());
    }
  }
  const std::size_t room = 98 - std::min<std::size_t>(names + 2, 60);
  const std::size_t columns = std::max<std::size_t>(1, room / (width + 1));
  std::string out = title + "\n";
  for (std::size_t first = 0; first < n; first += columns) {
    const std::size_t last = std::min(n, first + columns);
    out += fmt::format("  {:<{}}", "", names);
    for (std::size_t j = first; j < last; ++j) out += fmt::format(" {:>{}}", j, width);
    out += "\n";
    for (std::size_t i = 0; i < n; ++i) {
      out += fmt::format("  {:<{}}", gpu_name(m, i), names);
      for (std::size_t j = first; j < last; ++j) out += fmt::format(" {:>{}}", cells[i][j], width);
      out += "\n";
    }
  }
  return out;
}

std::string classes_text(const Machine& m) {
  const auto& gpus = m.topology.gpus();
  return matrix_text(m, "pair classes, in nvidia-smi's words", [&](std::size_t i, std::size_t j) {
    return std::string(name(m.topology.path_kind(gpus[i], gpus[j])));
  });
}

std::string bandwidths_text(const TopologyView& v) {
  const auto rates = [&](const std::string& title, const Matrix& matrix) {
    return "\n" + matrix_text(v.machine, title, [&](std::size_t i, std::size_t j) {
             return i == j ? std::string("-") : gbps(matrix[i][j]);
           });
  };
  const auto times = [&](const std::string& title, const Matrix& matrix) {
    return "\n" + matrix_text(v.machine, title, [&](std::size_t i, std::size_t j) {
             return i == j || matrix[i][j] <= 0 ? std::string("-")
                                                : fmt::format("{:.2f}", matrix[i][j]);
           });
  };
  return rates("unidirectional, P2P on, GB/s", v.one_way) +
         rates("unidirectional, P2P off, GB/s", v.one_way_staged) +
         rates("bidirectional, P2P on, GB/s", v.both_ways) +
         rates("bidirectional, P2P off, GB/s", v.both_ways_staged) +
         times("latency, P2P on, us", v.latency_us) +
         times("latency, P2P off, us", v.latency_us_staged);
}

std::string kinds_text(const TopologyView& v) {
  // More kinds than this are no summary.
  constexpr std::size_t kinds_max = 12;
  const auto kinds = pair_kinds(v);
  Table table({"class", "pairs", "such as", "P2P", "staged", "both ways", "staged", "latency",
               "staged", "NCCL"},
              2);
  table.left(2);
  for (std::size_t i = 0; i < std::min(kinds.size(), kinds_max); ++i) {
    const PairKind& kind = kinds[i];
    std::vector<std::string> row = {std::string(name(kind.path)), fmt::format("{}", kind.pairs),
                                    kind.such_as};
    row.insert(row.end(), kind.cells.begin(), kind.cells.end());
    table.row(std::move(row));
  }
  std::string out =
      "a pair of GPUs alone on the box, GB/s (predicted, as p2pBandwidthLatencyTest)\n";
  out += table.text();
  if (kinds.size() > kinds_max)
    out += fmt::format("  and {} more kinds of pairs: --full\n", kinds.size() - kinds_max);
  return out;
}

// Values of all GPUs as one, or from the least to the most.
std::string span(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return figure(*low) == figure(*high) ? figure(*low)
                                       : fmt::format("{} to {}", figure(*low), figure(*high));
}

std::string host_text(const TopologyView& v) {
  if (v.to_host.empty()) return "";
  Table table({"GPUs and host memory, GB/s", "to it", "from it", "both", "to it is held by"}, 2);
  table.left(4);
  const bool alone = v.machine.gpu_count() == 1;
  table.row({alone ? "the GPU" : "one GPU alone", span(v.to_host), span(v.from_host),
             span(v.both_host), alone ? v.to_host_limit : ""});
  if (!alone)
    table.row({fmt::format("all {} together", v.machine.gpu_count()), figure(v.all_to_host),
               figure(v.all_from_host), "", v.to_host_limit});
  return table.text();
}

double bus_gbps(Collective op, const CollectivePrice& price, int ranks) {
  return NcclOutlook::large.real() / price.time.seconds() / 1e9 * bus_factor(op, ranks);
}

std::string price_basis(const CollectivePrice& p) {
  const bool of_law = p.provenance > Provenance::interpolated;
  return rests_on(p.provenance, p.spread) +
         (of_law && !p.anchor.empty() ? ", scaled to a curve" : "");
}

std::string protocols_text(const NcclOutlook& n) {
  std::string out;
  for (std::size_t i = 0; i < n.protocols.size(); ++i) {
    if (!out.empty()) out += ", ";
    out += name(n.protocols[i].first);
    if (i + 1 < n.protocols.size())
      out += fmt::format(" below {}", text(Bytes(n.protocols[i + 1].second)));
    else if (i > 0)
      out += " above";
    else
      out += " for every size";
  }
  return out;
}

std::string nccl_text(const TopologyView& v) {
  const NcclOutlook& n = *v.nccl;
  const int gpus = v.machine.gpu_count();
  const auto line = [](const char* what, const std::string& said) {
    // The first line carries the label, the others stand under its text.
    std::string body = wrapped(said, 14, 98);
    const std::string label = fmt::format("  {:<12}", what);
    return body.replace(0, 14, label);
  };
  std::string out = fmt::format("NCCL {} on all {}\n", n.version, gpus);
  const bool nvlink = n.ring_transport == Transport::nvlink;
  std::string ring = fmt::format("over {}", name(n.ring_transport));
  if (n.ring_transport == Transport::shm) ring += ", staged in host memory";
  if (!nvlink) {
    ring += fmt::format("; each hop gets {} while all are under way, held by {}", text(n.hop_rate),
                        n.ring_limit ? n.ring_limit->name : "nothing");
    if (n.ring_limit)
      ring += fmt::format(" ({}, {})", text(n.ring_limit->bandwidth.value),
                          rests_on(n.ring_limit->bandwidth.basis, n.ring_limit->bandwidth.spread));
    out += line("ring", ring);
    out += line(
        "its view",
        n.view.bus_gbps <= 0.1
            ? fmt::format("its search finds nothing: 0.1 GB/s over {} channels", n.view.channels)
            : fmt::format("a bus of {} GB/s over {} channels, by what the system reports",
                          figure(n.view.bus_gbps), n.view.channels));
  } else {
    out += line("ring", ring + "; priced by a law of the card, no view of NCCL's is imitated");
  }
  out += line("all-reduce", protocols_text(n));
  Table table({"256 MiB on all", "busbw GB/s", "waits for", "rests on"}, 2);
  table.left(2).left(3);
  const auto row = [&](Collective op, const CollectivePrice& p, const std::string& link) {
    std::string waits = p.limit;
    if (p.limit == "links" && !link.empty()) waits = link;
    if (p.limit == "channels")
      waits = fmt::format("NCCL's channels; next {}", link.empty() ? "the links" : link);
    table.row({op == Collective::all_reduce ? "all-reduce" : "all-to-all",
               figure(bus_gbps(op, p, gpus)), waits, price_basis(p)});
  };
  row(Collective::all_reduce, n.all_reduce, n.ring_limit ? n.ring_limit->name : "");
  row(Collective::all_to_all, n.all_to_all, n.exchange_limit);
  out += "\n" + table.text();
  return out;
}

std::string header_text(const TopologyView& v) {
  const Machine& m = v.machine;
  const int sockets = socket_count(m.topology);
  std::string out = m.name + (m.topology_id.empty() ? "" : ", topology " + m.topology_id) + "\n";
  std::string what = m.guest ? "KVM guest" : "bare metal";
  what += fmt::format(", {} x {}", m.gpu_count(), v.gpu);
  if (sockets > 0) what += fmt::format(", {} socket{}", sockets, sockets == 1 ? "" : "s");
  if (m.gpu_count() > 1) {
    what += m.interconnect.p2p_capable ? ", P2P on" : ", P2P off";
    if (m.interconnect.p2p_capable && !m.interconnect.p2p_off.empty())
      what += fmt::format(" but for {} pairs", m.interconnect.p2p_off.size());
    if (m.interconnect.sm_within_switch) what += ", kernels' stores within a switch only";
  }
  out += wrapped(what, 2);
  if (!v.source.empty()) out += wrapped("source: " + v.source, 2);
  return out;
}

}  // namespace

TopologyView view_topology(std::string named, const Machine& machine, std::string gpu,
                           std::string source, const CollectivePricer* pricer) {
  TopologyView v;
  v.named = std::move(named);
  v.machine = machine;
  v.gpu = std::move(gpu);
  v.source = std::move(source);
  const Topology& t = machine.topology;
  CopyOptions on = copy_options(machine), off = on;
  on.p2p = true;
  off.p2p = false;
  v.one_way = in_gbps(copy_matrix(t, on, false));
  v.one_way_staged = in_gbps(copy_matrix(t, off, false));
  v.both_ways = in_gbps(copy_matrix(t, on, true));
  v.both_ways_staged = in_gbps(copy_matrix(t, off, true));
  const int n = machine.gpu_count();
  const auto latencies = [&](const CopyOptions& options) {
    Matrix out(static_cast<std::size_t>(n), std::vector<double>(static_cast<std::size_t>(n)));
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j)
        if (i != j && has_way(t, {i, j, Bytes(1)}, options))
          out[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] =
              copy_latency(t, i, j, options).us();
    return out;
  };
  v.latency_us = latencies(on);
  v.latency_us_staged = latencies(off);
  constexpr Bytes bytes{1 << 28};
  std::vector<Copy> down, up;
  for (int i = 0; i < n; ++i) {
    if (!has_way(t, {i, Copy::host, bytes}, on)) continue;
    down.push_back({i, Copy::host, bytes});
    up.push_back({Copy::host, i, bytes});
    v.to_host.push_back(rate_of(machine, {down.back()}));
    v.from_host.push_back(rate_of(machine, {up.back()}));
    v.both_host.push_back(rate_of(machine, {down.back(), up.back()}));
  }
  if (!down.empty()) {
    v.all_to_host = rate_of(machine, down, &v.to_host_limit);
    v.all_from_host = rate_of(machine, up, &v.from_host_limit);
  }
  if (pricer && n > 1) v.nccl = outlook(machine, *pricer);
  return v;
}

std::string render_topology(const TopologyView& v, bool full) {
  std::string out = header_text(v) + "\n" + render_tree(v.machine.topology) + "\n";
  if (!v.nccl) {
    out += host_text(v) + "\n";
    out += "One GPU: there is nothing between GPUs, and no collective moves anything.\n";
    out += fmt::format("\nnext   ceiling topology {} --edit gpus=8\n", v.named);
    return out;
  }
  // More GPUs than on any one box: their matrix is no overview.
  constexpr int matrix_max = 16;
  if (full || v.machine.gpu_count() <= matrix_max) out += classes_text(v.machine) + "\n";
  out += kinds_text(v);
  if (full) out += bandwidths_text(v);
  out += "\n" + host_text(v) + "\n" + nccl_text(v);
  out += fmt::format("\nnext   ceiling topology {} --collective all_reduce\n", v.named);
  return out;
}
