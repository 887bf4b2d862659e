#include "hardware/topology/topology.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <set>

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

void Topology::redirect_all() {
  for (Device& device : devices_) device.acs_redirect = device.kind == DeviceKind::pcie_switch;
}

DeviceId Topology::find(std::string_view name) const {
  for (std::size_t i = 0; i < devices_.size(); ++i)
    if (devices_[i].name == name) return static_cast<DeviceId>(i);
  return -1;
}

namespace {
/// GPUs and memories forward nothing: only the two ends of a route may be one. The graph's
/// iterators copy it all the time.
struct MayCross {
  const Device* devices = nullptr;
  std::size_t source = 0, target = 0;
  bool operator()(std::size_t v) const {
    const auto kind = devices[v].kind;
    return v == source || v == target ||
           (kind != DeviceKind::gpu && kind != DeviceKind::host_memory);
  }
};
}  // namespace

Route Topology::route(DeviceId from, DeviceId to) const {
  const auto source = static_cast<std::size_t>(from), target = static_cast<std::size_t>(to);
  using Base = decltype(graph_->g);
  const boost::filtered_graph<Base, boost::keep_all, MayCross> view(
      graph_->g, boost::keep_all(), MayCross{devices_.data(), source, target});
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
  return from == to ? PathKind::self : path_kind(from, route(from, to));
}

PathKind Topology::path_kind(DeviceId from, const Route& route) const {
  int switches = 0, bridges = 0, nodes = 0, sockets = 0, nvlinks = 0;
  DeviceId at = from;
  for (const Hop& hop : route) {
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

Duration Topology::latency(const Route& route) const {
  Duration sum;
  for (const Hop& hop : route) sum += link(hop.link).latency;
  return sum;
}

Route Topology::peer_route(DeviceId from, DeviceId to) const {
  const Route direct = route(from, to);
  const auto is_root = [&](DeviceId d) {
    const auto kind = devices_[static_cast<std::size_t>(d)].kind;
    return kind == DeviceKind::root_port || kind == DeviceKind::root_complex;
  };
  if (std::none_of(direct.begin(), direct.end(), [&](const Hop& hop) {
        return devices_[static_cast<std::size_t>(link(hop.link).a)].acs_redirect ||
               devices_[static_cast<std::size_t>(link(hop.link).b)].acs_redirect;
      }))
    return direct;
  // The root nearest to each switch on the way; the way turns round where that is nearest of all.
  DeviceId root = -1;
  bool redirected = false;
  Duration nearest = Duration::max();
  for (const Hop& hop : direct) {
    const DeviceId at = hop.forward ? link(hop.link).b : link(hop.link).a;
    if (is_root(at)) return direct;
    if (at == to) break;
    for (DeviceId d = 0; d < static_cast<DeviceId>(devices_.size()); ++d) {
      if (!is_root(d)) continue;
      const Route up = route(at, d);
      if (up.empty() || latency(up) >= nearest) continue;
      nearest = latency(up);
      root = d;
      redirected = devices_[static_cast<std::size_t>(at)].acs_redirect;
    }
  }
  if (root < 0 || !redirected) return direct;
  Route way = route(from, root);
  const Route down = route(root, to);
  way.insert(way.end(), down.begin(), down.end());
  return way;
}

DeviceId Topology::nearest_memory(DeviceId from) const {
  DeviceId best = -1;
  Duration best_latency = Duration::max();
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i].kind != DeviceKind::host_memory) continue;
    const auto way = route(from, static_cast<DeviceId>(i));
    if (!way.empty() && latency(way) < best_latency)
      best = static_cast<DeviceId>(i), best_latency = latency(way);
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

namespace {

// More than any box holds, less than a slip of the pen can ask for.
constexpr int range_max = 256;  // members of one range
constexpr std::size_t devices_max = 512;

/// The names that "gpu0..7" stands for; a name without dots stands for itself. Empty after an
/// error.
std::vector<std::string> expand(const std::string& text, const Location& where,
                                Diagnostics& errors) {
  const auto dots = text.find("..");
  if (dots == std::string::npos) return {text};
  const std::string hint = "a range is written 'gpu0..7'";
  auto digits = dots;
  while (digits > 0 && std::isdigit(static_cast<unsigned char>(text[digits - 1]))) --digits;
  const auto first = parse<int>(text.substr(digits, dots - digits));
  const auto last = parse<int>(text.substr(dots + 2));
  if (digits == 0 || digits == dots || !first || !last || *last < 0) {
    errors.error(where, fmt::format("'{}' is not a range", text), hint);
    return {};
  }
  if (*last < *first) {
    errors.error(where, fmt::format("the range '{}' runs backwards", text), hint);
    return {};
  }
  if (*last - *first >= range_max) {
    errors.error(where, fmt::format("the range '{}' has more than {} members", text, range_max),
                 hint);
    return {};
  }
  std::vector<std::string> out;
  for (int i = *first; i <= *last; ++i)
    out.push_back(fmt::format("{}{}", text.substr(0, digits), i));
  return out;
}

/// Where things were declared, for errors that show only in the finished graph.
struct Places {
  std::vector<Location> devices, links;
};

std::optional<DeviceKind> read_kind(const Settings& value, Reading& reading) {
  std::vector<std::string> names;
  for (const auto& [kind, word] : kinds) {
    if (word == value.text()) return kind;
    names.emplace_back(word);
  }
  reading.errors.error(value.where(), fmt::format("'{}' is not a kind of device", value.text()),
                       suggestion(value.text(), names));
  return std::nullopt;
}

/// What stands behind a device's name: its kind, or a map with its kind and its habits.
std::optional<Device> read_device(const Settings::Entry& entry, const std::string& path,
                                  Reading& reading) {
  Device device;
  const auto take_kind = [&](const Settings& value) {
    const auto kind = read_kind(value, reading);
    if (kind) device.kind = *kind;
    return kind.has_value();
  };
  if (!entry.value.is_map()) {
    if (!take_kind(entry.value)) return std::nullopt;
    return device;
  }
  Section s(entry.value, path + "." + entry.key, reading);
  const Settings* kind = s.take_required("kind");
  const bool known = kind && take_kind(*kind);
  device.acs_redirect = s.optional("acs_redirect", false);
  if (const Settings* node = s.take("write_collapse")) {
    Section c(*node, s.path() + ".write_collapse", reading);
    WriteCollapse collapse;
    collapse.sources = c.optional<int>("sources", 2, between(1, 1024));
    collapse.copies = c.required<BytesPerSecond>("copies", plausible_bandwidth());
    collapse.stores = c.maybe<BytesPerSecond>("stores", plausible_bandwidth());
    device.write_collapse = collapse;
  }
  if (known && device.kind != DeviceKind::pcie_switch)
    for (const char* key : {"acs_redirect", "write_collapse"})
      if (s.has(key))
        s.error(key, fmt::format("{} is a property of a pcie_switch", key),
                fmt::format("'{}' is a {}", entry.key, name(device.kind)));
  if (!known) return std::nullopt;
  return device;
}

void read_devices(Section& section, Topology& topology, Places& places) {
  Diagnostics& errors = section.reading().errors;
  const Settings* devices = section.take_required("devices");
  if (devices && !devices->is_map())
    section.error("devices", "devices must map a name to a kind", "write 'gpu0: gpu'");
  for (const auto& entry : devices ? devices->entries() : std::vector<Settings::Entry>()) {
    const auto names = expand(entry.key, entry.where, errors);
    const auto device = read_device(entry, section.path() + ".devices", section.reading());
    if (!device) continue;
    if (topology.devices().size() + names.size() > devices_max) {
      errors.error(entry.where, fmt::format("more than {} devices", devices_max));
      break;
    }
    for (const auto& one : names) {
      if (const DeviceId twin = topology.find(one); twin >= 0) {
        errors.error(
            entry.where, fmt::format("there are two devices '{}'", one),
            "the other is declared at " + places.devices[static_cast<std::size_t>(twin)].text());
        continue;
      }
      Device named = *device;
      named.name = one;
      topology.add(std::move(named));
      places.devices.push_back(entry.where);
    }
  }
}

Link read_link(Section& s) {
  Link link;
  link.kind = s.word("kind", link_kinds, "pcie");
  link.bandwidth = s.constant<BytesPerSecond>("bandwidth", std::nullopt, plausible_bandwidth());
  link.back = s.maybe<BytesPerSecond>("back", plausible_bandwidth());
  link.duplex = s.maybe<BytesPerSecond>("duplex", plausible_bandwidth());
  const auto faster = std::max(link.bandwidth.value, link.back.value_or(link.bandwidth.value));
  if (link.duplex && *link.duplex < faster)
    s.error("duplex", "duplex is what both directions carry together, at least what one does",
            "one direction alone carries " + text(faster));
  link.latency = s.optional<Duration>("latency", Duration(), plausible_time());
  link.gen = s.maybe<int>("gen", between(1, 6)).value_or(0);
  const Check<int> width = [](const int& n) {
    const auto widths = {1, 2, 4, 8, 16, 32};
    return std::find(widths.begin(), widths.end(), n) == widths.end()
               ? std::string("is no width of a link: 1, 2, 4, 8, 16 or 32 lanes")
               : std::string();
  };
  link.lanes = s.maybe<int>("lanes", width).value_or(0);
  return link;
}

void read_links(Section& section, Topology& topology, Places& places) {
  std::vector<std::string> device_names;
  for (const auto& d : topology.devices()) device_names.push_back(d.name);
  const Settings* links = section.take_required("links");
  if (links && !links->is_sequence()) section.error("links", "links must be a list");
  int number = 0;
  for (const auto& item : links ? links->items() : std::vector<Settings>()) {
    Section s(item, fmt::format("{}.links.{}", section.path(), number++), section.reading());
    Diagnostics& errors = section.reading().errors;
    // One link for each pair of ends; a single device pairs up with every member of a range.
    const auto before = errors.size();
    std::vector<std::vector<std::string>> ends;
    const Settings* between = s.take("between");
    if (!between || !between->is_sequence() || between->items().size() != 2)
      s.error("between", "a link needs 'between: [one device, another]'");
    else
      for (const auto& end : between->items()) {
        if (!end.is_scalar()) errors.error(end.where(), "an end of a link is one device's name");
        ends.push_back(expand(end.is_scalar() ? end.text() : "", end.where(), errors));
        for (const auto& one : ends.back())
          if (end.is_scalar() && topology.find(one) < 0)
            errors.error(end.where(), fmt::format("there is no device '{}'", one),
                         suggestion(one, device_names));
      }
    const Link link = read_link(s);
    if (errors.size() != before) continue;
    const auto count = std::max(ends[0].size(), ends[1].size());
    if (ends[0].size() != ends[1].size() && ends[0].size() != 1 && ends[1].size() != 1) {
      s.error("between",
              fmt::format("ranges of {} and of {} devices do not pair up", ends[0].size(),
                          ends[1].size()),
              "two ranges need the same length; one device joins all of a range");
      continue;
    }
    for (std::size_t i = 0; i < count; ++i) {
      Link one = link;
      one.a = topology.find(ends[0][std::min(i, ends[0].size() - 1)]);
      one.b = topology.find(ends[1][std::min(i, ends[1].size() - 1)]);
      if (one.a == one.b) {
        s.error("between", "a link joins two different devices");
        break;
      }
      topology.add(std::move(one));
      places.links.push_back(between->where());
    }
  }
}

/// The ways of least latency from one device, all of them: of each device the links by which they
/// arrive.
struct Ways {
  std::vector<std::int64_t> latency_ps;  // -1: out of reach
  std::vector<std::vector<LinkId>> arrivals;
};

bool forwards(const Device& device) {
  return device.kind != DeviceKind::gpu && device.kind != DeviceKind::host_memory;
}

Ways least_ways(const Topology& topology, DeviceId from) {
  constexpr auto far = std::numeric_limits<std::int64_t>::max() / 2;
  const auto n = topology.devices().size();
  std::vector<std::vector<LinkId>> around(n);
  for (LinkId l = 0; l < static_cast<LinkId>(topology.links().size()); ++l)
    for (const DeviceId end : {topology.link(l).a, topology.link(l).b})
      around[static_cast<std::size_t>(end)].push_back(l);
  const auto other = [&](LinkId l, std::size_t here) {
    const Link& link = topology.link(l);
    return static_cast<std::size_t>(link.a == static_cast<DeviceId>(here) ? link.b : link.a);
  };
  const auto source = static_cast<std::size_t>(from);
  // Least latency, and of equals the fewest links: links of no latency then have an order.
  std::vector<std::pair<std::int64_t, int>> best(n, {far, 0});
  std::vector<bool> done(n);
  best[source] = {0, 0};
  while (true) {
    std::size_t at = n;
    for (std::size_t v = 0; v < n; ++v)
      if (!done[v] && best[v].first < far && (at == n || best[v] < best[at])) at = v;
    if (at == n) break;
    done[at] = true;
    if (at != source && !forwards(topology.devices()[at])) continue;
    for (const LinkId l : around[at]) {
      const auto next =
          std::pair(best[at].first + topology.link(l).latency.ps(), best[at].second + 1);
      best[other(l, at)] = std::min(best[other(l, at)], next);
    }
  }
  Ways ways{std::vector<std::int64_t>(n, -1), std::vector<std::vector<LinkId>>(n)};
  for (std::size_t v = 0; v < n; ++v) {
    if (best[v].first >= far) continue;
    ways.latency_ps[v] = best[v].first;
    for (const LinkId l : around[v]) {
      const auto u = other(l, v);
      if (u != source && !forwards(topology.devices()[u])) continue;
      const auto step = topology.link(l).latency.ps();
      if (best[u].first < far && best[u].first + step == best[v].first &&
          (step > 0 || best[u].second < best[v].second))
        ways.arrivals[v].push_back(l);
    }
  }
  return ways;
}

/// Two GPUs with two ways of equal latency between them: which one a byte takes nobody can say.
/// Parallel links between the same devices are one way; so are the switches of an NVLink fabric,
/// which stripe.
void check_ambiguity(const Topology& topology, const std::vector<Ways>& from_gpus,
                     const Places& places, Diagnostics& errors) {
  const auto device = [&](DeviceId d) -> const Device& {
    return topology.devices()[static_cast<std::size_t>(d)];
  };
  std::set<std::pair<LinkId, LinkId>> said;
  for (std::size_t g = 0; g < from_gpus.size(); ++g) {
    const DeviceId from = topology.gpus()[g];
    const Ways& ways = from_gpus[g];
    const auto before = [&](LinkId l, DeviceId at) {
      return topology.link(l).a == at ? topology.link(l).b : topology.link(l).a;
    };
    // From a device back to `from`, by the first arrival each time.
    const auto way = [&](DeviceId at, LinkId last) {
      std::string out = device(at).name;
      for (LinkId l = last; true; l = ways.arrivals[static_cast<std::size_t>(at)].front()) {
        at = before(l, at);
        out = device(at).name + " - " + out;
        if (at == from) return out;
      }
    };
    for (const DeviceId to : topology.gpus()) {
      if (to <= from || ways.latency_ps[static_cast<std::size_t>(to)] < 0) continue;
      std::vector<DeviceId> open = {to};
      std::set<DeviceId> seen = {to};
      while (!open.empty()) {
        const DeviceId at = open.back();
        open.pop_back();
        if (at == from) continue;
        const auto& arrivals = ways.arrivals[static_cast<std::size_t>(at)];
        for (const LinkId l : arrivals) {
          const DeviceId u = before(l, at), first = before(arrivals.front(), at);
          if (seen.insert(u).second) open.push_back(u);
          if (u == first || (device(u).kind == DeviceKind::nvlink_switch &&
                             device(first).kind == DeviceKind::nvlink_switch))
            continue;
          if (!said.insert(std::minmax(l, arrivals.front())).second) continue;
          errors.error(
              places.links[static_cast<std::size_t>(l)],
              fmt::format("{} reaches {} in two ways of equal latency: {} and {}",
                          device(from).name, device(to).name, way(at, arrivals.front()),
                          way(at, l)),
              fmt::format("give one way another latency; the other one's last link stands at {}",
                          places.links[static_cast<std::size_t>(arrivals.front())].text()));
        }
      }
    }
  }
}

void check_connected(const Topology& topology, const std::vector<Ways>& from_gpus,
                     const Places& places, Diagnostics& errors) {
  // Whoever reaches most of the others is not the one that is cut off.
  std::size_t anchor = 0;
  std::ptrdiff_t reached = -1;
  for (std::size_t g = 0; g < from_gpus.size(); ++g) {
    const auto& latency = from_gpus[g].latency_ps;
    const auto count = std::count_if(
        topology.gpus().begin(), topology.gpus().end(),
        [&](DeviceId other) { return latency[static_cast<std::size_t>(other)] >= 0; });
    if (count > reached) anchor = g, reached = count;
  }
  const auto gpu_name = [&](DeviceId d) {
    return topology.devices()[static_cast<std::size_t>(d)].name;
  };
  for (const DeviceId gpu : topology.gpus())
    if (from_gpus[anchor].latency_ps[static_cast<std::size_t>(gpu)] < 0)
      errors.error(places.devices[static_cast<std::size_t>(gpu)],
                   fmt::format("no way leads from {} to {}", gpu_name(topology.gpus()[anchor]),
                               gpu_name(gpu)),
                   "GPUs and memories forward nothing; add the link that joins it");
}

}  // namespace

Topology read_topology(Section& section) {
  Topology topology;
  Places places;
  Diagnostics& errors = section.reading().errors;
  read_devices(section, topology, places);
  read_links(section, topology, places);
  if (!errors.empty()) return topology;
  if (topology.gpus().empty()) {
    section.error("devices", "the machine has no GPU");
    return topology;
  }
  std::vector<Ways> from_gpus;
  for (const DeviceId gpu : topology.gpus()) from_gpus.push_back(least_ways(topology, gpu));
  check_connected(topology, from_gpus, places, errors);
  check_ambiguity(topology, from_gpus, places, errors);
  return topology;
}
