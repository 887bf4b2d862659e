#include "sim/report/topology_report.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hardware/collective/eager.hpp"
#include "sim/report/table.hpp"

namespace {

using Json = nlohmann::ordered_json;

const Device& device(const Topology& t, DeviceId id) {
  return t.devices()[static_cast<std::size_t>(id)];
}

std::string gbps(BytesPerSecond rate) {
  return rate.count() >= 5e12 ? "no limit" : figure(rate.count() / 1e9) + " GB/s";
}

std::string link_text(const Link& l) {
  std::string out = l.kind == "pcie" ? "" : l.kind + " ";
  out += gbps(l.bandwidth.value);
  if (l.back) out += " / " + gbps(*l.back);
  if (l.gen > 0) out += fmt::format(", Gen{} x{}", l.gen, l.lanes > 0 ? l.lanes : 16);
  if (l.latency > Duration()) out += ", " + text(l.latency);
  if (l.bandwidth.basis == Provenance::assumed) out += ", assumed";
  return out;
}

// ---- the graph as a tree ----

// Below a host bridge: devices reached by links that are neither memory nor between sockets.
class Tree {
 public:
  explicit Tree(const Topology& t) : t_(t) {
    for (const Link& l : t.links()) {
      if (l.kind != "memory") continue;
      const bool memory_is_b = device(t, l.b).kind == DeviceKind::host_memory;
      roots_.push_back(memory_is_b ? l.a : l.b);
      memory_[roots_.back()] =
          fmt::format("{} {}", device(t, memory_is_b ? l.b : l.a).name, gbps(l.bandwidth.value));
    }
    std::sort(roots_.begin(), roots_.end());
    roots_.erase(std::unique(roots_.begin(), roots_.end()), roots_.end());
    seen_.insert(roots_.begin(), roots_.end());
    std::vector<DeviceId> at = roots_;
    for (std::size_t i = 0; i < at.size(); ++i)
      for (const Link& l : t.links()) {
        if (l.kind == "memory" || l.kind == "interconnect" || l.kind == "nvlink") continue;
        if (l.a != at[i] && l.b != at[i]) continue;
        const DeviceId below = l.a == at[i] ? l.b : l.a;
        if (device(t, at[i]).kind == DeviceKind::gpu || !seen_.insert(below).second) continue;
        children_[at[i]].push_back({below, &l});
        at.push_back(below);
      }
  }

  std::string text() const {
    std::string out;
    for (const DeviceId root : roots_) {
      out += fmt::format("  {} ({})", device(t_, root).name, name(device(t_, root).kind));
      if (const auto m = memory_.find(root); m != memory_.end())
        out += fmt::format(", memory {}", m->second);
      out += "\n";
      print({root}, 4, out);
    }
    std::map<std::string, int> between;
    for (const Link& l : t_.links())
      if (l.kind == "interconnect")
        out += fmt::format("  {} - {}: {}\n", device(t_, l.a).name, device(t_, l.b).name,
                           link_text(l));
    std::map<std::pair<DeviceId, std::string>, std::vector<std::string>> fabric;
    for (const Link& l : t_.links())
      if (l.kind == "nvlink") fabric[{l.b, link_text(l)}].push_back(device(t_, l.a).name);
    for (const auto& [key, names] : fabric)
      out += fmt::format("  {} ({}): {}, {} each\n", device(t_, key.first).name,
                         name(device(t_, key.first).kind), names_in_short(names), key.second);
    return out;
  }

 private:
  struct Child {
    DeviceId id;
    const Link* link;
  };

  std::string signature(const Child& c) const {
    std::string out = fmt::format("{} {} {}", name(device(t_, c.id).kind), link_text(*c.link),
                                  device(t_, c.id).acs_redirect);
    if (const auto it = children_.find(c.id); it != children_.end())
      for (const Child& below : it->second) out += "(" + signature(below) + ")";
    return out;
  }

  // Equal subtrees are printed once: `at` are devices that stand at the same place of each.
  void print(const std::vector<DeviceId>& at, int indent, std::string& out) const {
    std::vector<std::string> order;
    std::map<std::string, std::vector<Child>> groups;
    for (const DeviceId id : at)
      if (const auto it = children_.find(id); it != children_.end())
        for (const Child& c : it->second) {
          const std::string key = signature(c);
          if (groups[key].empty()) order.push_back(key);
          groups[key].push_back(c);
        }
    for (const auto& key : order) {
      std::vector<std::string> names;
      std::vector<DeviceId> ids;
      for (const Child& c : groups[key])
        names.push_back(device(t_, c.id).name), ids.push_back(c.id);
      const Device& first = device(t_, ids[0]);
      out += std::string(static_cast<std::size_t>(indent), ' ') + names_in_short(names);
      if (first.kind != DeviceKind::gpu) out += fmt::format(" ({})", name(first.kind));
      if (groups[key].front().link->kind != "internal")
        out += ": " + link_text(*groups[key].front().link) + (ids.size() > 1 ? " each" : "");
      if (first.acs_redirect) out += ", ACS redirect";
      if (first.write_collapse)
        out += fmt::format(", writes collapse to {}", gbps(first.write_collapse->copies));
      out += "\n";
      print(ids, indent + 2, out);
    }
  }

  const Topology& t_;
  std::vector<DeviceId> roots_;
  std::map<DeviceId, std::string> memory_;
  std::map<DeviceId, std::vector<Child>> children_;
  std::set<DeviceId> seen_;
};

// ---- matrices ----

using Matrix = std::vector<std::vector<double>>;

Matrix rates(const Machine& m, bool p2p, bool bidirectional) {
  CopyOptions options = copy_options(m);
  options.p2p = p2p;
  Matrix out;
  for (const auto& row : copy_matrix(m.topology, options, bidirectional)) {
    out.emplace_back();
    for (const BytesPerSecond r : row) out.back().push_back(r.count() / 1e9);
  }
  return out;
}

Matrix latencies(const Machine& m, bool p2p) {
  CopyOptions options = copy_options(m);
  options.p2p = p2p;
  Matrix out;
  for (int a = 0; a < m.gpu_count(); ++a) {
    out.emplace_back();
    for (int b = 0; b < m.gpu_count(); ++b)
      out.back().push_back(a == b ? 0 : copy_latency(m.topology, a, b, options).us());
  }
  return out;
}

struct Named {
  const char* key;
  const char* title;
  Matrix matrix;
};

std::vector<Named> all_matrices(const Machine& m) {
  return {{"unidirectional_p2p_on", "Unidirectional, P2P on (GB/s)", rates(m, true, false)},
          {"bidirectional_p2p_on", "Bidirectional, P2P on (GB/s)", rates(m, true, true)},
          {"unidirectional_p2p_off", "Unidirectional, P2P off (GB/s)", rates(m, false, false)},
          {"bidirectional_p2p_off", "Bidirectional, P2P off (GB/s)", rates(m, false, true)},
          {"latency_us_p2p_on", "Latency, P2P on (us)", latencies(m, true)},
          {"latency_us_p2p_off", "Latency, P2P off (us)", latencies(m, false)}};
}

std::string matrix_text(const Named& named) {
  std::vector<std::string> header = {"D\\D"};
  for (std::size_t i = 0; i < named.matrix.size(); ++i) header.push_back(fmt::format("{}", i));
  Table table(header, 2);
  for (std::size_t a = 0; a < named.matrix.size(); ++a) {
    std::vector<std::string> row = {fmt::format("{}", a)};
    for (std::size_t b = 0; b < named.matrix.size(); ++b)
      row.push_back(a == b ? "-" : fmt::format("{:.1f}", named.matrix[a][b]));
    table.row(std::move(row));
  }
  return fmt::format("\n  {}\n{}", named.title, table.text());
}

PathKind path(const Machine& m, int a, int b) {
  const auto& gpus = m.topology.gpus();
  return m.topology.path_kind(gpus[static_cast<std::size_t>(a)], gpus[static_cast<std::size_t>(b)]);
}

std::string paths_text(const Machine& m) {
  const int n = m.gpu_count();
  std::vector<std::string> header = {""};
  for (int i = 0; i < n; ++i) header.push_back(fmt::format("GPU{}", i));
  Table table(header, 2);
  for (int a = 0; a < n; ++a) {
    std::vector<std::string> row = {fmt::format("GPU{}", a)};
    for (int b = 0; b < n; ++b) row.emplace_back(name(path(m, a, b)));
    table.row(std::move(row));
  }
  return table.text();
}

// A value, or the range of several.
std::string range_text(double low, double high) {
  return high - low < 0.005 * high ? figure(high) : figure(low) + " to " + figure(high);
}

std::string classes_text(const Machine& m, const std::vector<Named>& matrices) {
  struct Class {
    int pairs = 0;
    std::vector<std::pair<double, double>> range;
  };
  std::map<PathKind, Class> classes;
  for (int a = 0; a < m.gpu_count(); ++a)
    for (int b = 0; b < m.gpu_count(); ++b) {
      if (a == b) continue;
      Class& c = classes[path(m, a, b)];
      ++c.pairs;
      c.range.resize(matrices.size(), {1e300, 0});
      for (std::size_t i = 0; i < matrices.size(); ++i) {
        const double v =
            matrices[i].matrix[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)];
        c.range[i] = {std::min(c.range[i].first, v), std::max(c.range[i].second, v)};
      }
    }
  Table table({"pairs", "", "P2P on", "both ways", "us", "P2P off", "both ways", "us"}, 2);
  for (const auto& [kind, c] : classes) {
    std::vector<std::string> row = {std::string(name(kind)), fmt::format("{}", c.pairs / 2)};
    for (const std::size_t i : {0u, 1u, 4u, 2u, 3u, 5u})
      row.push_back(range_text(c.range[i].first, c.range[i].second));
    table.row(std::move(row));
  }
  return table.text();
}

std::string rests_on(const CollectivePrice& p) {
  std::string out(name(p.provenance));
  if (p.provenance > Provenance::measured) out += fmt::format(", x or / {:g}", p.spread);
  return out;
}

// ---- NCCL ----

Bytes last_ll(const CollectivePricer& pricer) {
  // The protocol changes once: halve the interval in which it does.
  std::int64_t low = 1, high = std::int64_t{1} << 34;
  while (high - low > std::max<std::int64_t>(1, low / 1000)) {
    const std::int64_t middle = low + (high - low) / 2;
    const bool ll =
        pricer.price_by("nccl", Collective::all_reduce, Bytes(middle)).protocol == Protocol::ll;
    (ll ? low : high) = middle;
  }
  return Bytes(low);
}

std::string nccl_text(const Machine& m, const CollectivePricer& pricer) {
  const CollectiveBox& box = pricer.box();
  std::map<std::pair<PathKind, Transport>, int> pairs;
  for (int a = 0; a < box.ranks(); ++a)
    for (int b = a + 1; b < box.ranks(); ++b) ++pairs[{path(m, a, b), box.transport(a, b)}];
  std::vector<std::string> ways;
  for (const auto& [key, count] : pairs)
    ways.push_back(fmt::format("{} {} by {}", count, name(key.first), name(key.second)));
  std::string out = fmt::format("  NCCL {} with all {}: {}", m.interconnect.nccl.version,
                                box.ranks(), fmt::join(ways, ", "));
  out += "\n";
  if (pricer.transport() != Transport::nvlink) {
    const NcclView& view = pricer.view();
    out +=
        fmt::format("    believes {:g} GB/s, {} channels{}; LL up to {}, Simple above\n",
                    view.bus_gbps, view.channels,
                    view.bus_gbps < 1 ? " (its search found no ring)" : "", text(last_ll(pricer)));
  }
  if (pricer.path_limit())
    out += fmt::format("    a ring gets {} a hop, held by {} ({}{})\n", gbps(pricer.path_rate()),
                       pricer.path_limit()->name, name(pricer.path_limit()->bandwidth.basis),
                       pricer.path_limit()->bandwidth.spread > 1
                           ? fmt::format(", x or / {:g}", pricer.path_limit()->bandwidth.spread)
                           : "");
  out += "\n";
  Table table({"all-reduce", "us", "busbw GB/s", "protocol", "waits for", "rests on"}, 4);
  table.left(3).left(4).left(5);
  for (const Bytes size : {4_KiB, 64_KiB, 1_MiB, 64_MiB}) {
    const auto p = pricer.price_by("nccl", Collective::all_reduce, size);
    table.row(
        {text(size), figure(p.time.us()),
         figure(size.real() / p.time.us() / 1e3 * bus_factor(Collective::all_reduce, box.ranks())),
         std::string(name(p.protocol)), p.limit, rests_on(p)});
  }
  return out + table.text();
}

std::string heading(const Machine& m) {
  std::string out = m.name;
  if (!m.topology_id.empty()) out += fmt::format(" [{}]", m.topology_id);
  out += fmt::format("\n{}, {} {}, P2P {}{}\n", m.guest ? "a guest" : "bare metal", m.gpu_count(),
                     m.gpu_count() == 1 ? "GPU" : "GPUs", m.interconnect.p2p_capable ? "on" : "off",
                     m.interconnect.p2p_off.empty()
                         ? ""
                         : fmt::format(" except {} pairs", m.interconnect.p2p_off.size()));
  return out;
}

}  // namespace

std::string names_in_short(const std::vector<std::string>& names) {
  if (names.size() < 3) return fmt::format("{}", fmt::join(names, ", "));
  const auto digits = names[0].find_last_not_of("0123456789") + 1;
  const std::string stem = names[0].substr(0, digits);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (digits == names[0].size()) return fmt::format("{}", fmt::join(names, ", "));
    const auto expected =
        fmt::format("{}{}", stem, std::stoi(names[0].substr(digits)) + static_cast<int>(i));
    if (names[i] != expected) return fmt::format("{}", fmt::join(names, ", "));
  }
  return fmt::format("{}..{}", names[0], names.back().substr(digits));
}

std::string render_topology(const Machine& m, const CollectivePricer& pricer, bool full) {
  std::string out = heading(m) + "\n" + Tree(m.topology).text() + "\n";
  if (m.gpu_count() == 1)
    return out + "  one GPU: there is nothing to talk to\n\n  ceiling list machines\n";
  const auto matrices = all_matrices(m);
  out += paths_text(m) + "\n";
  if (full)
    for (const Named& named : matrices) out += matrix_text(named);
  else
    out += "  copies, GB/s, and their latency\n" + classes_text(m, matrices);
  out += "\n" + nccl_text(m, pricer);
  out +=
      fmt::format("\n  ceiling topology {} --collective all_reduce --gpus {} --sizes 4KiB..64MiB\n",
                  m.id, m.gpu_count());
  return out;
}

std::string topology_to_json(const Machine& m, const CollectivePricer& pricer) {
  const Topology& t = m.topology;
  Json devices = Json::array(), links = Json::array(), matrices, paths = Json::array();
  for (const Device& d : t.devices())
    devices.push_back({{"name", d.name}, {"kind", name(d.kind)}, {"acs_redirect", d.acs_redirect}});
  for (const Link& l : t.links())
    links.push_back({{"from", device(t, l.a).name},
                     {"to", device(t, l.b).name},
                     {"kind", l.kind},
                     {"bandwidth_GBs", l.bandwidth.value.count() / 1e9},
                     {"back_GBs", l.back.value_or(l.bandwidth.value).count() / 1e9},
                     {"basis", name(l.bandwidth.basis)},
                     {"latency_ns", l.latency.us() * 1e3},
                     {"gen", l.gen},
                     {"lanes", l.lanes}});
  for (int a = 0; a < m.gpu_count(); ++a) {
    Json row = Json::array();
    for (int b = 0; b < m.gpu_count(); ++b) row.push_back(name(path(m, a, b)));
    paths.push_back(row);
  }
  for (const Named& named : all_matrices(m)) matrices[named.key] = named.matrix;
  Json out{{"schema", 1},
           {"machine", m.id},
           {"name", m.name},
           {"topology_id", m.topology_id},
           {"p2p", m.interconnect.p2p_capable},
           {"devices", devices},
           {"links", links},
           {"paths", paths},
           {"matrices", matrices}};
  if (m.gpu_count() > 1)
    out["nccl"] = {{"version", m.interconnect.nccl.version},
                   {"transport", name(pricer.transport())},
                   {"bus_GBs", pricer.view().bus_gbps},
                   {"channels", pricer.view().channels},
                   {"path_GBs", pricer.path_rate().count() / 1e9},
                   {"path_limit", pricer.path_limit() ? pricer.path_limit()->name : ""}};
  return out.dump(2) + "\n";
}

std::string topology_to_dot(const Machine& m) {
  const auto quoted = [](const std::string& s) {
    std::string out = "\"";
    for (const char c : s) {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
    return out + '"';
  };
  const auto shape = [](DeviceKind kind) {
    return kind == DeviceKind::gpu           ? "box, style=filled, fillcolor=\"#cfe8cf\""
           : kind == DeviceKind::host_memory ? "cylinder"
           : kind == DeviceKind::pcie_switch || kind == DeviceKind::nvlink_switch ? "diamond"
                                                                                  : "ellipse";
  };
  std::string out = fmt::format("graph {} {{\n  node [fontname=\"sans-serif\"];\n", quoted(m.id));
  for (const Device& d : m.topology.devices())
    out += fmt::format("  {} [shape={}];\n", quoted(d.name), shape(d.kind));
  for (const Link& l : m.topology.links())
    out += fmt::format("  {} -- {} [label={}];\n", quoted(device(m.topology, l.a).name),
                       quoted(device(m.topology, l.b).name), quoted(link_text(l)));
  return out + "}\n";
}

std::string render_route(const Machine& m, DeviceId from, DeviceId to) {
  const Topology& t = m.topology;
  const auto hops = [&](const char* title, const Route& route) {
    if (route.empty()) return fmt::format("  {}: no way\n", title);
    Table table({"from", "to", "GB/s", "latency", ""}, 4);
    table.left(1).left(4);
    double slowest = 1e300;
    for (const Hop& hop : route) {
      const Link& l = t.link(hop.link);
      const DeviceId a = hop.forward ? l.a : l.b, b = hop.forward ? l.b : l.a;
      const BytesPerSecond rate =
          hop.forward ? l.bandwidth.value : l.back.value_or(l.bandwidth.value);
      slowest = std::min(slowest, rate.count());
      table.row({device(t, a).name, device(t, b).name,
                 rate.count() >= 5e12 ? "-" : figure(rate.count() / 1e9), text(l.latency),
                 std::string(name(l.bandwidth.basis))});
    }
    return fmt::format("  {}: {} at most, {}\n{}", title, gbps(BytesPerSecond(slowest)),
                       text(t.latency(route)), table.text());
  };
  std::string out =
      fmt::format("{} to {} on {}\n\n", device(t, from).name, device(t, to).name, m.name);
  const bool gpus =
      device(t, from).kind == DeviceKind::gpu && device(t, to).kind == DeviceKind::gpu;
  out += hops(gpus ? "directly (P2P)" : "way", gpus ? t.peer_route(from, to) : t.route(from, to));
  if (gpus) out += "\n" + hops("staged through host memory", t.staged_route(from, to));
  return out;
}

namespace {

std::string end_text(int end) { return end == Copy::host ? "host" : fmt::format("{}", end); }

}  // namespace

std::string render_copies(const Machine& m, const std::vector<Copy>& copies,
                          const CopiesOutcome& outcome) {
  std::string out = fmt::format("{}: {} copies of {} together\n\n", m.name, copies.size(),
                                copies.empty() ? "" : text(copies[0].bytes));
  Table table({"flow", "GB/s", "ms", "way", "held by"}, 2);
  table.left(3).left(4);
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const CopyOutcome& c = outcome.copies[i];
    const bool host = copies[i].from == Copy::host || copies[i].to == Copy::host;
    table.row({end_text(copies[i].from) + " > " + end_text(copies[i].to),
               figure(c.rate.count() / 1e9), figure(c.time.ms()),
               host       ? "host"
               : c.staged ? "staged"
                          : "P2P",
               c.limit});
  }
  return out + table.text() +
         fmt::format("\n  together {} GB/s in {} ms, held by {}\n",
                     figure(outcome.aggregate.count() / 1e9), figure(outcome.time.ms()),
                     outcome.limit);
}

std::string copies_to_json(const Machine& m, const std::vector<Copy>& copies,
                           const CopiesOutcome& outcome) {
  Json flows = Json::array();
  for (std::size_t i = 0; i < copies.size(); ++i)
    flows.push_back({{"from", end_text(copies[i].from)},
                     {"to", end_text(copies[i].to)},
                     {"bytes", copies[i].bytes.count()},
                     {"GBs", outcome.copies[i].rate.count() / 1e9},
                     {"time_us", outcome.copies[i].time.us()},
                     {"staged", outcome.copies[i].staged},
                     {"limit", outcome.copies[i].limit}});
  return Json{{"schema", 1},
              {"machine", m.id},
              {"flows", flows},
              {"aggregate_GBs", outcome.aggregate.count() / 1e9},
              {"time_us", outcome.time.us()},
              {"limit", outcome.limit}}
             .dump(2) +
         "\n";
}

std::string render_collective(const Machine& m, const std::vector<CollectiveRow>& rows) {
  if (rows.empty()) return "";
  std::string out = fmt::format("# {} of {} GPUs on {}\n", name(rows[0].op), rows[0].gpus, m.name);
  out += "# time: on the GPU, from a graph or back to back\n";
  out += "# eager: as the caller of a framework sees it (assumed, x or / 1.4)\n";
  Table table({"size (B)", "time (us)", "algbw", "busbw", "eager", "by", "waits for", "rests on"},
              2);
  table.left(5).left(6).left(7);
  std::string anchor;
  for (const CollectiveRow& r : rows) {
    const CollectivePrice& p = r.price;
    const double algbw = r.size.real() / p.time.us() / 1e3;
    std::string by = p.kernel == "nccl" ? std::string(name(p.protocol)) : p.kernel;
    if (p.algorithm != by && p.algorithm != name(p.transport)) by += " " + p.algorithm;
    by += fmt::format(" {}", name(p.transport));
    if (p.channels > 0) by += fmt::format(" x{}", p.channels);
    table.row({fmt::format("{}", r.size.count()), figure(p.time.us()), figure(algbw),
               figure(algbw * bus_factor(r.op, r.gpus)), figure(eager_time(p, r.size).us()), by,
               p.limit, rests_on(p)});
    if (!p.anchor.empty()) anchor = p.anchor;
  }
  out += table.text();
  if (!anchor.empty()) out += fmt::format("  scaled to measurements: {}\n", anchor);
  return out;
}

std::string collective_to_json(const Machine& m, const std::vector<CollectiveRow>& rows) {
  Json out{{"schema", 1}, {"machine", m.id}, {"rows", Json::array()}};
  for (const CollectiveRow& r : rows) {
    const CollectivePrice& p = r.price;
    const double algbw = r.size.real() / p.time.us() / 1e3;
    out["rows"].push_back({{"op", name(r.op)},
                           {"gpus", r.gpus},
                           {"size_bytes", r.size.count()},
                           {"time_us", p.time.us()},
                           {"algbw_GBs", algbw},
                           {"busbw_GBs", algbw * bus_factor(r.op, r.gpus)},
                           {"eager_us", eager_time(p, r.size).us()},
                           {"kernel", p.kernel},
                           {"algorithm", p.algorithm},
                           {"protocol", p.kernel == "nccl" ? name(p.protocol) : ""},
                           {"transport", name(p.transport)},
                           {"channels", p.channels},
                           {"limit", p.limit},
                           {"provenance", name(p.provenance)},
                           {"spread", p.spread},
                           {"anchor", p.anchor}});
  }
  return out.dump(2) + "\n";
}
