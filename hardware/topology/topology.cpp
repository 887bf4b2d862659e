#include "hardware/topology/topology.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/graph/filtered_graph.hpp>
#include <boost/range/iterator_range.hpp>

#include "sim/base/assert.hpp"

namespace {
constexpr std::array<std::pair<DeviceKind, std::string_view>, 8> kinds = {{
    {DeviceKind::gpu, "gpu"},
    {DeviceKind::pcie_switch, "pcie_switch"},
    {DeviceKind::root_port, "root_port"},
    {DeviceKind::root_complex, "root_complex"},
    {DeviceKind::numa_node, "numa_node"},
    {DeviceKind::host_memory, "host_memory"},
    {DeviceKind::nvlink_switch, "nvlink_switch"},
    {DeviceKind::nic, "nic"},
}};

const std::vector<std::string> link_kinds = {"pcie", "internal", "interconnect", "memory",
                                             "nvlink"};
}  // namespace

std::string_view name(DeviceKind kind) {
  for (const auto& [value, word] : kinds)
    if (value == kind) return word;
  SIM_UNREACHABLE("a device kind without a name");
}

std::string_view name(PathKind kind) {
  switch (kind) {
    case PathKind::self:
      return "X";
    case PathKind::nvlink:
      return "NV";
    case PathKind::pix:
      return "PIX";
    case PathKind::pxb:
      return "PXB";
    case PathKind::phb:
      return "PHB";
    case PathKind::node:
      return "NODE";
    case PathKind::sys:
      return "SYS";
  }
  SIM_UNREACHABLE("a path kind without a name");
}

struct EdgeProperty {
  LinkId link = 0;
  std::int64_t latency_ps = 0;
};

struct Topology::Graph {
  boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS, boost::no_property,
                        EdgeProperty>
      g;
};

Topology::Topology() : graph_(std::make_unique<Graph>()) {}
Topology::~Topology() = default;
Topology::Topology(Topology&&) noexcept = default;
Topology& Topology::operator=(Topology&&) noexcept = default;
Topology::Topology(const Topology& o)
    : devices_(o.devices_),
      links_(o.links_),
      gpus_(o.gpus_),
      graph_(std::make_unique<Graph>(*o.graph_)) {}
Topology& Topology::operator=(const Topology& o) { return *this = Topology(o); }

DeviceId Topology::add(Device device) {
  const auto id = static_cast<DeviceId>(devices_.size());
  if (device.kind == DeviceKind::gpu) gpus_.push_back(id);
  devices_.push_back(std::move(device));
  boost::add_vertex(graph_->g);
  return id;
}

LinkId Topology::add(Link link) {
  const auto id = static_cast<LinkId>(links_.size());
  boost::add_edge(static_cast<std::size_t>(link.a), static_cast<std::size_t>(link.b),
                  EdgeProperty{id, link.latency.ps()}, graph_->g);
  links_.push_back(std::move(link));
  return id;
}

DeviceId Topology::find(std::string_view name) const {
  for (std::size_t i = 0; i < devices_.size(); ++i)
    if (devices_[i].name == name) return static_cast<DeviceId>(i);
  return -1;
}

Route Topology::route(DeviceId from, DeviceId to) const {
  const auto source = static_cast<std::size_t>(from), target = static_cast<std::size_t>(to);
  // GPUs and memories forward nothing: only the two ends may be one.
  const auto may_cross = [&](std::size_t v) {
    const auto kind = devices_[v].kind;
    return v == source || v == target ||
           (kind != DeviceKind::gpu && kind != DeviceKind::host_memory);
  };
  using Base = decltype(graph_->g);
  boost::filtered_graph<Base, boost::keep_all, std::function<bool(std::size_t)>> view(
      graph_->g, boost::keep_all(), may_cross);
  std::vector<std::size_t> before(devices_.size());
  for (std::size_t i = 0; i < before.size(); ++i) before[i] = i;
  std::vector<std::int64_t> distance(devices_.size(), std::numeric_limits<std::int64_t>::max());
  boost::dijkstra_shortest_paths(
      view, source,
      boost::weight_map(boost::get(&EdgeProperty::latency_ps, view))
          .predecessor_map(boost::make_iterator_property_map(
              before.begin(), boost::get(boost::vertex_index, graph_->g)))
          .distance_map(boost::make_iterator_property_map(
              distance.begin(), boost::get(boost::vertex_index, graph_->g))));
  Route route;
  for (std::size_t at = target; at != source; at = before[at]) {
    if (before[at] == at) return {};
    // Of parallel links the one of least latency, the first of equals.
    LinkId id = -1;
    for (const auto edge : boost::make_iterator_range(boost::out_edges(before[at], graph_->g)))
      if (boost::target(edge, graph_->g) == at &&
          (id < 0 || link(graph_->g[edge].link).latency < link(id).latency))
        id = graph_->g[edge].link;
    route.push_back({id, link(id).a == static_cast<DeviceId>(before[at])});
  }
  std::reverse(route.begin(), route.end());
  return route;
}

PathKind Topology::path_kind(DeviceId from, DeviceId to) const {
  if (from == to) return PathKind::self;
  int switches = 0, bridges = 0, nodes = 0, sockets = 0, nvlinks = 0;
  DeviceId at = from;
  for (const Hop& hop : route(from, to)) {
    const Link& l = link(hop.link);
    sockets += l.kind == "interconnect";
    nvlinks += l.kind == "nvlink";
    at = hop.forward ? l.b : l.a;
    const DeviceKind kind = devices_[static_cast<std::size_t>(at)].kind;
    switches += kind == DeviceKind::pcie_switch;
    bridges += kind == DeviceKind::root_complex || kind == DeviceKind::root_port;
    nodes += kind == DeviceKind::numa_node;
  }
  if (sockets > 0) return PathKind::sys;
  if (nodes > 0) return PathKind::node;
  if (bridges > 0) return PathKind::phb;
  if (nvlinks > 0) return PathKind::nvlink;
  return switches <= 1 ? PathKind::pix : PathKind::pxb;
}

DeviceId Topology::nearest_memory(DeviceId from) const {
  DeviceId best = -1;
  Duration best_latency = Duration::max();
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i].kind != DeviceKind::host_memory) continue;
    Duration latency;
    const auto way = route(from, static_cast<DeviceId>(i));
    for (const auto& hop : way) latency += link(hop.link).latency;
    if (!way.empty() && latency < best_latency)
      best = static_cast<DeviceId>(i), best_latency = latency;
  }
  return best;
}

Route Topology::staged_route(DeviceId from, DeviceId to) const {
  const DeviceId memory = nearest_memory(to);
  if (memory < 0) return {};
  Route way = route(from, memory);
  const Route up = route(memory, to);
  if (way.empty() || up.empty()) return {};
  way.insert(way.end(), up.begin(), up.end());
  return way;
}

Topology read_topology(Section& section) {
  Topology topology;
  std::vector<std::string> kind_names;
  for (const auto& [kind, word] : kinds) kind_names.emplace_back(word);

  const Settings* devices = section.take_required("devices");
  if (devices && !devices->is_map())
    section.error("devices", "devices must map a name to a kind", "write 'gpu0: gpu'");
  for (const auto& entry : devices ? devices->entries() : std::vector<Settings::Entry>()) {
    const auto it = std::find_if(kinds.begin(), kinds.end(),
                                 [&](const auto& k) { return k.second == entry.value.text(); });
    if (it == kinds.end()) {
      section.reading().errors.error(
          entry.value.where(), fmt::format("'{}' is not a kind of device", entry.value.text()),
          suggestion(entry.value.text(), kind_names));
      continue;
    }
    topology.add(Device{entry.key, it->first});
  }

  std::vector<std::string> device_names;
  for (const auto& d : topology.devices()) device_names.push_back(d.name);
  const Settings* links = section.take_required("links");
  if (links && !links->is_sequence()) section.error("links", "links must be a list");
  int number = 0;
  for (const auto& item : links ? links->items() : std::vector<Settings>()) {
    Section s(item, fmt::format("{}.links.{}", section.path(), number++), section.reading());
    Link link;
    const auto ends = s.words("between");
    if (ends.size() != 2) {
      s.error("between", "a link needs 'between: [one device, another]'");
    } else {
      link.a = topology.find(ends[0]), link.b = topology.find(ends[1]);
      for (const auto& end : ends)
        if (topology.find(end) < 0)
          s.error("between", fmt::format("there is no device '{}'", end),
                  suggestion(end, device_names));
      if (link.a == link.b && link.a >= 0) s.error("between", "a link joins two different devices");
    }
    link.kind = s.word("kind", link_kinds, "pcie");
    link.bandwidth = s.constant<BytesPerSecond>("bandwidth", std::nullopt, plausible_bandwidth());
    link.latency = s.optional<Duration>("latency", Duration(), plausible_time());
    link.gen = s.maybe<int>("gen", between(1, 6)).value_or(0);
    link.lanes = s.maybe<int>("lanes", between(1, 32)).value_or(0);
    if (link.a >= 0 && link.b >= 0 && link.a != link.b) topology.add(std::move(link));
  }
  if (!section.reading().errors.empty()) return topology;

  if (topology.gpus().empty()) section.error("devices", "the machine has no GPU");
  for (std::size_t i = 1; i < topology.gpus().size(); ++i)
    if (topology.route(topology.gpus()[0], topology.gpus()[i]).empty())
      section.error(
          "links",
          fmt::format("no way leads from {} to {}",
                      topology.devices()[static_cast<std::size_t>(topology.gpus()[0])].name,
                      topology.devices()[static_cast<std::size_t>(topology.gpus()[i])].name));
  return topology;
}
