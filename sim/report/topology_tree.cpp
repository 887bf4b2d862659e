#include "sim/report/topology_tree.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "sim/report/table.hpp"

namespace {

const Device& device(const Topology& t, DeviceId id) {
  return t.devices()[static_cast<std::size_t>(id)];
}

// How high in a box a device of this kind sits; the highest of what hangs together is the top.
int height(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::numa_node:
      return 4;
    case DeviceKind::root_complex:
      return 3;
    case DeviceKind::root_port:
      return 2;
    case DeviceKind::pcie_switch:
      return 1;
    default:
      return 0;
  }
}

std::string_view word(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::gpu:
      return "GPU";
    case DeviceKind::pcie_switch:
      return "PCIe switch";
    case DeviceKind::root_port:
      return "root port";
    case DeviceKind::root_complex:
      return "root complex";
    case DeviceKind::numa_node:
      return "NUMA node";
    case DeviceKind::host_memory:
      return "host memory";
    case DeviceKind::nvlink_switch:
      return "NVLink switch";
    case DeviceKind::nic:
      return "NIC";
  }
  return "";
}

bool of_the_tree(const Link& link) { return link.kind != "interconnect" && link.kind != "nvlink"; }

std::string rate_text(const Link& link) {
  if (link.kind == "internal") return "in the chip";
  std::string out = figure(link.bandwidth.value.count() / 1e9);
  if (link.back) out += "/" + figure(link.back->count() / 1e9);
  return out;
}

// What has to agree before two links are shown as one.
std::string look(const Link& link) {
  return fmt::format("{} {} {} {} {} {}", link.kind, rate_text(link), reported(link),
                     text(link.latency), rests_on(link.bandwidth.basis, link.bandwidth.spread),
                     link.duplex ? text(*link.duplex) : "");
}

struct Node {
  std::vector<DeviceId> devices;  // equal ones, side by side
  std::optional<LinkId> up;       // of the first
  std::vector<Node> children;
  std::string look;
  int gpus = 0;
};

// The forest: parents by the fewest links from the tops.
struct Forest {
  std::vector<DeviceId> tops;
  std::vector<std::optional<LinkId>> up;
  std::vector<std::vector<DeviceId>> children;
};

Forest grow(const Topology& t) {
  const std::size_t n = t.devices().size();
  std::vector<std::vector<std::pair<LinkId, DeviceId>>> around(n);
  for (LinkId l = 0; l < static_cast<LinkId>(t.links().size()); ++l) {
    const Link& link = t.link(l);
    if (!of_the_tree(link)) continue;
    around[static_cast<std::size_t>(link.a)].emplace_back(l, link.b);
    around[static_cast<std::size_t>(link.b)].emplace_back(l, link.a);
  }
  Forest f{{}, std::vector<std::optional<LinkId>>(n), std::vector<std::vector<DeviceId>>(n)};
  std::vector<bool> seen(n);
  const auto of = [&](DeviceId d) { return static_cast<std::size_t>(d); };
  // Down from the tops, all of them at once: what hangs between two belongs to the nearer one.
  const auto grow_from = [&](std::vector<DeviceId> open) {
    for (const DeviceId top : open) {
      f.tops.push_back(top);
      seen[of(top)] = true;
    }
    for (std::size_t i = 0; i < open.size(); ++i) {
      const DeviceId at = open[i];
      for (const auto& [l, next] : around[of(at)]) {
        const int here = height(device(t, at).kind), there = height(device(t, next).kind);
        const bool downwards = there < here || (there == 1 && here == 1);
        if (seen[of(next)] || here == 0 || !downwards) continue;
        seen[of(next)] = true;
        f.up[of(next)] = l;
        f.children[of(at)].push_back(next);
        open.push_back(next);
      }
    }
  };
  // The host first: whoever has memory of its own. Then what no host holds, from the highest down.
  std::vector<DeviceId> hosts;
  for (DeviceId d = 0; d < static_cast<DeviceId>(n); ++d)
    if (height(device(t, d).kind) > 0 &&
        std::any_of(around[of(d)].begin(), around[of(d)].end(), [&](const auto& l) {
          return device(t, l.second).kind == DeviceKind::host_memory;
        }))
      hosts.push_back(d);
  grow_from(hosts);
  for (int level = 4; level >= 0; --level)
    for (DeviceId d = 0; d < static_cast<DeviceId>(n); ++d) {
      if (seen[of(d)] || height(device(t, d).kind) != level) continue;
      const bool holds_something = std::any_of(around[of(d)].begin(), around[of(d)].end(),
                                               [&](const auto& l) { return !seen[of(l.second)]; });
      if (device(t, d).kind == DeviceKind::gpu || (level > 0 && holds_something)) grow_from({d});
    }
  return f;
}

Node subtree(const Topology& t, const Forest& f, DeviceId at);

// Neighbours that look alike become one line, where no more than one GPU hangs below each: behind
// which switch a GPU sits must stay visible.
std::vector<Node> folded(std::vector<Node> nodes) {
  std::vector<Node> out;
  for (Node& node : nodes) {
    if (out.empty() || out.back().look != node.look || node.gpus > 1) {
      out.push_back(std::move(node));
      continue;
    }
    const auto merge = [](auto&& self, Node& into, const Node& from) -> void {
      into.devices.insert(into.devices.end(), from.devices.begin(), from.devices.end());
      for (std::size_t i = 0; i < into.children.size(); ++i)
        self(self, into.children[i], from.children[i]);
    };
    merge(merge, out.back(), node);
  }
  return out;
}

Node subtree(const Topology& t, const Forest& f, DeviceId at) {
  const auto v = static_cast<std::size_t>(at);
  Node node{{at}, f.up[v], {}, "", device(t, at).kind == DeviceKind::gpu ? 1 : 0};
  node.look = std::string(word(device(t, at).kind)) + (node.up ? look(t.link(*node.up)) : "");
  if (device(t, at).acs_redirect) node.look += " acs";
  for (const DeviceId child : f.children[v]) {
    node.children.push_back(subtree(t, f, child));
    node.gpus += node.children.back().gpus;
    node.look += "(" + node.children.back().look + ")";
  }
  node.children = folded(std::move(node.children));
  return node;
}

std::string names_of(const Topology& t, const std::vector<DeviceId>& devices) {
  std::vector<std::string> names;
  for (const DeviceId d : devices) names.push_back(device(t, d).name);
  return name_ranges(names);
}

void rows(const Topology& t, const Node& node, const std::string& lead, const std::string& below,
          Table& table) {
  const Device& first = device(t, node.devices.front());
  std::vector<std::string> cells = {
      lead + names_of(t, node.devices),
      std::string(word(first.kind)) + (first.acs_redirect ? ", ACS" : "")};
  if (node.up) {
    const Link& link = t.link(*node.up);
    cells.push_back(rate_text(link));
    cells.push_back(reported(link));
    cells.push_back(text(link.latency));
    if (link.kind != "internal")
      cells.push_back(rests_on(link.bandwidth.basis, link.bandwidth.spread));
  }
  table.row(std::move(cells));
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    const bool last = i + 1 == node.children.size();
    rows(t, node.children[i], below + (last ? "`- " : "|- "), below + (last ? "   " : "|  "),
         table);
  }
}

// Links beside the tree, equal ones between the same two groups of devices together.
std::string across(const Topology& t, const Forest& forest) {
  std::vector<bool> in_tree(t.links().size());
  for (const auto& up : forest.up)
    if (up) in_tree[static_cast<std::size_t>(*up)] = true;
  struct Group {
    const Link* link;
    std::vector<DeviceId> a, b;
    int parallel = 1;
  };
  std::vector<Group> groups;
  for (std::size_t l = 0; l < t.links().size(); ++l) {
    if (in_tree[l]) continue;
    const Link& link = t.links()[l];
    const auto twin = std::find_if(groups.begin(), groups.end(), [&](const Group& g) {
      return g.a == std::vector{link.a} && g.b == std::vector{link.b} &&
             look(*g.link) == look(link);
    });
    if (twin != groups.end())
      ++twin->parallel;
    else
      groups.push_back({&link, {link.a}, {link.b}});
  }
  // First those that end at one device, then those that begin at the same devices.
  const auto join = [&](auto same, auto grow_side, auto other_side) {
    std::vector<Group> out;
    for (const Group& g : groups) {
      const auto it = std::find_if(out.begin(), out.end(), [&](const Group& o) {
        return o.*same == g.*same && o.parallel == g.parallel && look(*o.link) == look(*g.link);
      });
      if (it == out.end()) {
        out.push_back(g);
        continue;
      }
      auto& side = (*it).*grow_side;
      side.insert(side.end(), (g.*other_side).begin(), (g.*other_side).end());
    }
    groups = std::move(out);
  };
  join(&Group::b, &Group::a, &Group::a);
  join(&Group::a, &Group::b, &Group::b);
  if (groups.empty()) return "";
  Table table({"across", "kind", "GB/s", "reported", "latency", "rests on"}, 2);
  table.left(1).left(3).left(5);
  for (const Group& g : groups)
    table.row({names_of(t, g.a) + " - " + names_of(t, g.b),
               g.parallel > 1 ? fmt::format("{} x {}", g.parallel, g.link->kind) : g.link->kind,
               rate_text(*g.link) +
                   (g.a.size() * g.b.size() > 1 && g.link->kind != "internal" ? " each" : ""),
               reported(*g.link), text(g.link->latency),
               g.link->kind == "internal"
                   ? ""
                   : rests_on(g.link->bandwidth.basis, g.link->bandwidth.spread)});
  return table.text();
}

// What a line of the table cannot say.
std::string notes(const Topology& t) {
  std::map<std::string, std::vector<std::string>> collapses;
  std::vector<std::string> redirected;
  for (const Device& d : t.devices()) {
    if (d.acs_redirect) redirected.push_back(d.name);
    if (const auto& c = d.write_collapse)
      collapses[fmt::format(
                    "once {} GPUs below one of them write to targets behind two root ports, its "
                    "uplink carries {} of copies and {} of kernels' stores",
                    c->sources, text(c->copies), text(c->stores.value_or(c->copies)))]
          .push_back(d.name);
  }
  std::string out;
  for (const auto& [what, names] : collapses)
    out += wrapped(fmt::format("{}: {}", name_ranges(names), what), 2);
  if (!redirected.empty())
    out +=
        wrapped(fmt::format("{}: ACS redirects what turns round in it up to the root port and back",
                            name_ranges(redirected)),
                2);
  return out;
}

}  // namespace

std::string render_tree(const Topology& topology) {
  const Forest forest = grow(topology);
  std::vector<Node> tops;
  for (const DeviceId top : forest.tops) tops.push_back(subtree(topology, forest, top));
  Table table({"device", "kind", "uplink GB/s", "reported", "latency", "rests on"}, 2);
  table.left(1).left(3).left(5);
  for (const Node& node : folded(std::move(tops))) rows(topology, node, "", "", table);
  const std::string beside = across(topology, forest), said = notes(topology);
  return table.text() + (beside.empty() ? "" : "\n" + beside) + (said.empty() ? "" : "\n" + said);
}

int socket_count(const Topology& topology) {
  const std::size_t n = topology.devices().size();
  std::vector<std::size_t> part(n);
  for (std::size_t d = 0; d < n; ++d) part[d] = d;
  const auto root = [&](std::size_t d) {
    while (part[d] != d) d = part[d];
    return d;
  };
  const auto forwards = [&](DeviceId d) { return height(device(topology, d).kind) > 0; };
  for (const Link& link : topology.links())
    if (of_the_tree(link) && forwards(link.a) && forwards(link.b))
      part[root(static_cast<std::size_t>(link.a))] = root(static_cast<std::size_t>(link.b));
  std::set<std::size_t> sockets;
  for (std::size_t d = 0; d < n; ++d)
    if (height(topology.devices()[d].kind) >= height(DeviceKind::root_complex))
      sockets.insert(root(d));
  return static_cast<int>(sockets.size());
}

std::string name_ranges(const std::vector<std::string>& names) {
  struct Run {
    std::string stem;
    int first = 0, last = 0;
    bool numbered = false;
  };
  std::vector<Run> runs;
  for (const auto& name : names) {
    auto digits = name.size();
    while (digits > 0 && std::isdigit(static_cast<unsigned char>(name[digits - 1]))) --digits;
    Run run{name, 0, 0, false};
    // A leading zero or more digits than an int holds: a name like any other.
    const auto length = name.size() - digits;
    if (length > 0 && length < 9 && (length == 1 || name[digits] != '0'))
      run = {name.substr(0, digits), *parse<int>(name.substr(digits)), 0, true};
    run.last = run.first;
    if (!runs.empty() && run.numbered && runs.back().numbered && runs.back().stem == run.stem &&
        runs.back().last + 1 == run.first)
      runs.back().last = run.last;
    else
      runs.push_back(run);
  }
  std::string out;
  for (const Run& run : runs) {
    if (!out.empty()) out += ", ";
    out += run.stem;
    if (run.numbered) out += fmt::format("{}", run.first);
    if (run.last > run.first) out += fmt::format("..{}", run.last);
  }
  return out;
}

std::string reported(const Link& link) {
  if (link.gen == 0 && link.lanes == 0) return "";
  if (link.gen == 0) return fmt::format("x{}", link.lanes);
  return link.lanes == 0 ? fmt::format("Gen{}", link.gen)
                         : fmt::format("Gen{} x{}", link.gen, link.lanes);
}

std::string rests_on(Provenance basis, double spread) {
  return spread > 1 ? fmt::format("{}, x or / {:.3g}", name(basis), spread)
                    : std::string(name(basis));
}
