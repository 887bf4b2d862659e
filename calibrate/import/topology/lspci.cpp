// `lspci -vv` (as root; -nn and -D may be added): every bridge with the bus below it, so the whole
// tree from host bridges to GPUs. The speed of a link is the lesser LnkCap of its two ends: LnkSta
// of an idle card says 2.5GT/s (downgraded). Its width is LnkSta's where that is less: lanes do not
// sleep. A switch redirects peer traffic when a port above a GPU has ACS ReqRedir+.
// Leaves out: BARs, interrupts, MaxPayload, and redirection at root ports.

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "calibrate/import/topology/text_scan.hpp"
#include "calibrate/import/topology/topology_facts.hpp"
#include "sim/base/table_text.hpp"

namespace {

enum class Port { unknown, root, upstream, downstream };

struct Record {
  std::string id;         // "0000:01:00.0"
  std::string_view head;  // its first line
  std::string kind, device;
  std::string pci_id;  // "10de:2bb5" with -nn
  std::optional<unsigned> secondary;
  Port port = Port::unknown;
  int gen = 0, lanes = 0, lanes_now = 0;
  bool redirects = false, denied = false;
  std::optional<int> numa;

  std::string bus() const { return id.substr(0, 7); }  // "0000:01"
};

bool has(std::string_view line, std::string_view part) {
  return line.find(part) != std::string_view::npos;
}

// "01:00.0 3D controller: NVIDIA ..." at the start of a line.
std::optional<Record> record_of(std::string_view line) {
  if (line.empty() || line[0] == ' ' || line[0] == '\t') return {};
  const auto space = line.find(' ');
  if (space == std::string_view::npos || space < 7 || line[space - 2] != '.') return {};
  const auto id = bus_id(line.substr(0, space));
  const auto colon = line.find(": ", space);
  if (!id || colon == std::string_view::npos) return {};
  Record out;
  out.id = *id;
  out.head = line;
  out.kind = line.substr(space + 1, colon - space - 1);
  out.device = line.substr(colon + 2);
  for (auto at = out.device.find('['); at != std::string::npos; at = out.device.find('[', at + 1))
    if (at + 10 < out.device.size() && out.device[at + 5] == ':' && out.device[at + 10] == ']' &&
        hex_number(std::string_view(out.device).substr(at + 1, 4)) &&
        hex_number(std::string_view(out.device).substr(at + 6, 4)))
      out.pci_id = out.device.substr(at + 1, 9);
  return out;
}

bool is_gpu(const Record& r) {
  return (has(r.kind, "3D controller") || has(r.kind, "VGA compatible controller") ||
          has(r.kind, "Display controller")) &&
         (has(r.device, "NVIDIA") || r.pci_id.starts_with("10de:"));
}

// "GB202GL [RTX PRO 6000 Blackwell Server Edition]" becomes what the driver calls the card.
std::string model_of(const Record& r) {
  const auto open = r.device.find('['), close = r.device.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  const auto inner = r.device.substr(open + 1, close - open - 1);
  return inner == r.pci_id ? std::string() : "NVIDIA " + inner;
}

bool recognises(std::string_view text) {
  if (!has(text, "LnkCap:") && !has(text, "Bus: primary=")) return false;
  for (const auto line : text_lines(text))
    if (record_of(line)) return true;
  return false;
}

class Reader {
 public:
  Reader(const std::string& path, std::string_view text, Diagnostics& errors)
      : path_(path), text_(text), errors_(errors) {}

  TopologyFacts read() {
    out_.path = path_;
    out_.form = "lspci -vv";
    for (const auto line : text_lines(text_)) {
      if (auto record = record_of(line)) {
        if (!ids_.insert(record->id).second)
          errors_.error(place(line), fmt::format("the device {} appears twice", record->id),
                        "give one listing of one box");
        records_.push_back(std::move(*record));
      } else if (!records_.empty()) {
        read_detail(line, records_.back());
      }
    }
    find_bridges();
    for (std::size_t i = 0; i < records_.size(); ++i)
      if (is_gpu(records_[i])) place_gpu(records_[i]);
    if (tree_.gpus().empty() && errors_.empty())
      errors_.error(table_place(path_, 0, 0, {}), "there is no NVIDIA GPU in this listing",
                    "list the whole box: lspci -vv");
    note_guest();
    if (denied_ > 0)
      out_.notes.push_back(
          fmt::format("{}: capabilities of {} devices are hidden: link speeds and ACS need root "
                      "(sudo lspci -vv)",
                      path_, denied_));
    out_.tree = std::move(tree_);
    return out_;
  }

 private:
  Location place(std::string_view part) const { return place_in(path_, text_, part); }

  void read_detail(std::string_view line, Record& r) {
    const auto value = [&](std::string_view key) -> std::string_view {
      const auto at = line.find(key);
      if (at == std::string_view::npos) return {};
      const auto rest = line.substr(at + key.size());
      return rest.substr(0, rest.find_first_of(", \t("));
    };
    if (has(line, "Bus: primary=")) {
      r.secondary = hex_number(value("secondary="));
      if (!r.secondary || *r.secondary > 0xff) {
        errors_.error(place(line), fmt::format("{} has no secondary bus", r.id),
                      "the listing was cut off");
        r.secondary.reset();
      }
    } else if (has(line, "LnkCap:")) {
      const auto speed = value("Speed "), width = value("Width x");
      if (speed.ends_with("GT/s")) {
        const auto rate = table_number(speed.substr(0, speed.size() - 4));
        r.gen = rate ? pcie_gen(*rate) : 0;
      }
      r.lanes = number_after(width, "").value_or(0);
      const bool unknown = speed == "unknown" || width == "0";
      if ((r.gen == 0 || !is_width(r.lanes)) && !unknown)
        errors_.error(place(line), fmt::format("the link of {} has no speed or no width", r.id),
                      "a line as 'LnkCap: Port #0, Speed 32GT/s, Width x16' is wanted");
      if (r.gen == 0 || !is_width(r.lanes)) r.gen = r.lanes = 0;
    } else if (has(line, "LnkSta:")) {
      r.lanes_now = number_after(value("Width x"), "").value_or(0);
    } else if (has(line, "ACSCtl:")) {
      r.redirects = has(line, "ReqRedir+");
    } else if (has(line, "NUMA node:")) {
      const auto words = words_of(line);
      r.numa = number_after(words.back().text, "");
    } else if (has(line, "<access denied>")) {
      if (is_gpu(r) || r.secondary) denied_ += !r.denied, r.denied = true;
    } else if (has(line, "Express")) {
      if (has(line, "Root Port")) r.port = Port::root;
      if (has(line, "Upstream Port")) r.port = Port::upstream;
      if (has(line, "Downstream Port")) r.port = Port::downstream;
    }
  }

  void find_bridges() {
    for (std::size_t i = 0; i < records_.size(); ++i) {
      const Record& r = records_[i];
      if (!r.secondary || *r.secondary == 0) continue;  // 0: firmware gave it no bus
      const auto below = fmt::format("{}{:02x}", r.id.substr(0, 5), *r.secondary);
      if (const auto [it, fresh] = above_.emplace(below, i); !fresh)
        errors_.error(
            place(r.head),
            fmt::format("{} and {} both lead to bus {}", records_[it->second].id, r.id, below),
            "give one listing of one box");
    }
  }

  void place_gpu(const Record& gpu) {
    std::vector<const Record*> way;  // bridges from the GPU up
    std::string bus = gpu.bus();
    for (auto it = above_.find(bus); it != above_.end(); it = above_.find(bus)) {
      way.push_back(&records_[it->second]);
      bus = way.back()->bus();
      if (way.size() > 64) {
        errors_.error(place(gpu.head), fmt::format("the bridges above {} go round", gpu.id));
        return;
      }
    }
    std::reverse(way.begin(), way.end());
    int at = host_bridge(bus, gpu);
    const Record* port = nullptr;  // what the next device is plugged into
    if (way.empty()) {             // on the host bridge itself: a port of its own
      PciNode root;
      root.kind = PciNode::Kind::root_port;
      root.parent = at;
      at = add(std::move(root));
    }
    for (std::size_t i = 0; i < way.size(); ++i) {
      const Record& bridge = *way[i];
      // Where lspci could not say, ports alternate: root, then up and down of each switch.
      Port kind = bridge.port;
      if (kind == Port::unknown)
        kind = i == 0 ? Port::root : i % 2 == 1 ? Port::upstream : Port::downstream;
      if (i == 0) kind = Port::root;
      if (kind != Port::downstream) at = bridge_node(bridge, kind, port, at);
      if (kind == Port::downstream && bridge.redirects)
        tree_.nodes[static_cast<std::size_t>(at)].acs_redirect = true;
      port = &bridge;
    }
    PciNode node;
    node.parent = at;
    node.bus_id = gpu.id;
    node.numa = gpu.numa;
    node.model = model_of(gpu);
    if (gpu.pci_id.starts_with("10de:")) node.pci_id = gpu.pci_id.substr(5);
    node.card_gen = gpu.gen;
    set_link(node, gpu, port);
    add(std::move(node));
  }

  // The slower end decides.
  void set_link(PciNode& node, const Record& device, const Record* port) {
    node.gen = device.gen, node.lanes = device.lanes;
    if (port && port->gen > 0 && node.gen > 0) {
      node.gen = std::min(node.gen, port->gen);
      node.lanes = std::min(node.lanes, port->lanes);
    }
    if (is_width(device.lanes_now) && device.lanes_now < node.lanes) {
      out_.notes.push_back(fmt::format("{}: {} runs {} of {} lanes (LnkSta); taken as wired so",
                                       path_, device.id, device.lanes_now, node.lanes));
      node.lanes = device.lanes_now;
    }
  }

  int host_bridge(const std::string& bus, const Record& gpu) {
    if (const auto it = nodes_.find(bus); it != nodes_.end()) return it->second;
    PciNode node;
    node.kind = PciNode::Kind::host_bridge;
    node.bus_id = bus;
    node.numa = gpu.numa;
    return nodes_[bus] = add(std::move(node));
  }

  int bridge_node(const Record& bridge, Port kind, const Record* above, int parent) {
    if (const auto it = nodes_.find(bridge.id); it != nodes_.end()) return it->second;
    PciNode node;
    node.parent = parent;
    node.bus_id = bridge.id;
    node.kind = kind == Port::root ? PciNode::Kind::root_port : PciNode::Kind::pcie_switch;
    if (node.kind == PciNode::Kind::pcie_switch) set_link(node, bridge, above);
    return nodes_[bridge.id] = add(std::move(node));
  }

  void note_guest() {
    for (const auto& r : records_) {
      const auto sign = [&](std::string_view what) {
        if (out_.guest.size() < 3) out_.guest.push_back(fmt::format("{} is {}", r.id, what));
      };
      if (has(r.device, "QEMU") || has(r.device, "Virtio") || has(r.device, "Red Hat") ||
          r.pci_id.starts_with("1b36:") || r.pci_id.starts_with("1af4:"))
        sign("a device of QEMU");
      else if (has(r.device, "82G33/G31/P35/P31 Express DRAM") || r.pci_id == "8086:29c0")
        sign("the host bridge of QEMU's q35 machine");
      else if (has(r.device, "440FX") || r.pci_id == "8086:1237")
        sign("the host bridge of QEMU's i440fx machine");
      else if (has(r.device, "VMware") || has(r.device, "Hyper-V"))
        sign("a device of a hypervisor");
    }
  }

  int add(PciNode node) {
    tree_.nodes.push_back(std::move(node));
    return static_cast<int>(tree_.nodes.size()) - 1;
  }

  const std::string& path_;
  std::string_view text_;
  Diagnostics& errors_;
  TopologyFacts out_;
  PciTree tree_;
  std::vector<Record> records_;
  std::set<std::string> ids_;
  std::map<std::string, std::size_t> above_;  // the bridge that leads to a bus
  std::map<std::string, int> nodes_;          // by bus id
  std::size_t denied_ = 0;
};

const Registered<TopologyForm> me("lspci -vv",
                                  {"the PCI tree with link capabilities and ACS", recognises,
                                   [](const std::string& path, std::string_view text,
                                      Diagnostics& errors) {
                                     return Reader(path, text, errors).read();
                                   }});

}  // namespace
