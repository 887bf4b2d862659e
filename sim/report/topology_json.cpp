// The graph of a box for other programs: JSON with every number of the table, and Graphviz.

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/report/topology_report.hpp"
#include "sim/report/topology_tree.hpp"

namespace {

using Json = nlohmann::ordered_json;

// No way is no number.
Json matrix(const Matrix& values) {
  Json out = Json::array();
  for (std::size_t i = 0; i < values.size(); ++i) {
    Json row = Json::array();
    for (std::size_t j = 0; j < values[i].size(); ++j)
      row.push_back(i == j || values[i][j] > 0 ? Json(values[i][j]) : Json());
    out.push_back(std::move(row));
  }
  return out;
}

Json limit(const LinkLimit& l) {
  return {{"name", l.name},
          {"kind", l.kind},
          {"bandwidth_GBs", l.bandwidth.value.count() / 1e9},
          {"provenance", name(l.bandwidth.basis)},
          {"spread", l.bandwidth.spread}};
}

Json price(const CollectivePrice& p) {
  return {
      {"size_bytes", NcclOutlook::large.count()}, {"time_us", p.time.us()}, {"limit", p.limit},
      {"provenance", name(p.provenance)},         {"spread", p.spread},     {"anchor", p.anchor}};
}

Json nccl(const TopologyView& v) {
  if (!v.nccl) return nullptr;
  const NcclOutlook& n = *v.nccl;
  const auto& gpus = v.machine.topology.gpus();
  Json transports = Json::object();  // per class, every transport that its pairs take
  for (std::size_t i = 0; i < gpus.size(); ++i)
    for (std::size_t j = 0; j < gpus.size(); ++j) {
      if (i == j) continue;
      Json& list = transports[std::string(name(v.machine.topology.path_kind(gpus[i], gpus[j])))];
      const std::string word(name(n.transports[i][j]));
      if (std::find(list.begin(), list.end(), word) == list.end()) list.push_back(word);
    }
  Json protocols = Json::array();
  for (const auto& [protocol, from] : n.protocols)
    protocols.push_back({{"protocol", name(protocol)}, {"from_bytes", from}});
  return {{"version", n.version},
          {"transports", transports},
          {"view", {{"bus_GBs", n.view.bus_gbps}, {"channels", n.view.channels}}},
          {"ring",
           {{"transport", name(n.ring_transport)},
            {"hop_GBs", n.hop_rate.count() / 1e9},
            {"limit", n.ring_limit ? limit(*n.ring_limit) : Json()}}},
          {"all_reduce_protocols", protocols},
          {"all_reduce", price(n.all_reduce)},
          {"all_to_all", price(n.all_to_all)},
          {"all_to_all_links",
           {{"out_of_each_GBs", n.exchange_rate.count() / 1e9}, {"limit", n.exchange_limit}}}};
}

// A quoted name of Graphviz: whatever stands in it, it is one word.
std::string dot_word(const std::string& name) {
  std::string out = "\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + "\"";
}

std::string shape(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::gpu:
      return "shape=box, style=filled, fillcolor=lightgrey";
    case DeviceKind::pcie_switch:
    case DeviceKind::nvlink_switch:
      return "shape=hexagon";
    case DeviceKind::root_port:
      return "shape=ellipse";
    case DeviceKind::root_complex:
    case DeviceKind::numa_node:
      return "shape=doubleoctagon";
    case DeviceKind::host_memory:
      return "shape=cylinder";
    case DeviceKind::nic:
      return "shape=parallelogram";
  }
  return "shape=box";
}

}  // namespace

std::string topology_to_json(const TopologyView& v) {
  const Machine& m = v.machine;
  const Topology& t = m.topology;
  Json out;
  out["schema"] = 1;
  out["machine"] = {{"id", m.id},
                    {"name", m.name},
                    {"topology_id", m.topology_id},
                    {"source", v.source},
                    {"gpu", m.gpu_id},
                    {"gpus", m.gpu_count()},
                    {"sockets", socket_count(t)},
                    {"runs_in", m.guest ? "kvm_guest" : "bare_metal"},
                    {"p2p", m.interconnect.p2p_capable}};
  Json pairs = Json::array();
  for (const auto& [a, b] : m.interconnect.p2p_off) pairs.push_back({a, b});
  out["machine"]["p2p_off"] = pairs;
  out["devices"] = Json::array();
  for (const Device& d : t.devices()) {
    Json one = {{"name", d.name}, {"kind", name(d.kind)}};
    if (d.acs_redirect) one["acs_redirect"] = true;
    if (const auto& c = d.write_collapse)
      one["write_collapse"] = {{"sources", c->sources},
                               {"copies_GBs", c->copies.count() / 1e9},
                               {"stores_GBs", c->stores.value_or(c->copies).count() / 1e9}};
    out["devices"].push_back(std::move(one));
  }
  out["links"] = Json::array();
  const auto device = [&](DeviceId id) { return t.devices()[static_cast<std::size_t>(id)].name; };
  for (const Link& l : t.links()) {
    Json one = {{"from", device(l.a)},
                {"to", device(l.b)},
                {"kind", l.kind},
                {"bandwidth_GBs", l.bandwidth.value.count() / 1e9},
                {"back_GBs", l.back.value_or(l.bandwidth.value).count() / 1e9},
                {"latency_ns", l.latency.us() * 1e3},
                {"gen", l.gen},
                {"lanes", l.lanes},
                {"provenance", name(l.bandwidth.basis)},
                {"spread", l.bandwidth.spread}};
    if (l.duplex) one["duplex_GBs"] = l.duplex->count() / 1e9;
    out["links"].push_back(std::move(one));
  }
  Json classes = Json::array();
  for (const DeviceId a : t.gpus()) {
    Json row = Json::array();
    for (const DeviceId b : t.gpus()) row.push_back(name(t.path_kind(a, b)));
    classes.push_back(std::move(row));
  }
  out["matrices"] = {{"class", classes},
                     {"unidirectional_p2p_on", matrix(v.one_way)},
                     {"unidirectional_p2p_off", matrix(v.one_way_staged)},
                     {"bidirectional_p2p_on", matrix(v.both_ways)},
                     {"bidirectional_p2p_off", matrix(v.both_ways_staged)},
                     {"latency_us_p2p_on", matrix(v.latency_us)},
                     {"latency_us_p2p_off", matrix(v.latency_us_staged)}};
  if (v.to_host.empty())
    out["host"] = nullptr;
  else
    out["host"] = {{"to_GBs", v.to_host},
                   {"from_GBs", v.from_host},
                   {"both_GBs", v.both_host},
                   {"all_to_GBs", v.all_to_host},
                   {"all_to_limit", v.to_host_limit},
                   {"all_from_GBs", v.all_from_host},
                   {"all_from_limit", v.from_host_limit}};
  out["nccl"] = nccl(v);
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string topology_to_dot(const Machine& m) {
  const Topology& t = m.topology;
  std::string out =
      fmt::format("graph {} {{\n  rankdir=BT;\n  label={};\n", dot_word(m.id), dot_word(m.name));
  for (const Device& d : t.devices())
    out += fmt::format("  {} [{}];\n", dot_word(d.name), shape(d.kind));
  const auto device = [&](DeviceId id) {
    return dot_word(t.devices()[static_cast<std::size_t>(id)].name);
  };
  for (const Link& l : t.links()) {
    std::string label = l.kind == "internal" ? "" : text(l.bandwidth.value);
    if (l.back) label += fmt::format(", back {}", text(*l.back));
    if (const auto said = reported(l); !said.empty()) label += ", " + said;
    out += fmt::format("  {} -- {} [label={}{}];\n", device(l.a), device(l.b), dot_word(label),
                       l.kind == "interconnect" ? ", constraint=false, style=bold"
                       : l.kind == "nvlink"     ? ", color=darkgreen"
                                                : "");
  }
  return out + "}\n";
}
