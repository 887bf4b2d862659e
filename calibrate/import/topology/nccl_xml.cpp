// The XML that NCCL writes with NCCL_TOPO_DUMP_FILE: <cpu> per NUMA node, <pci> per device and per
// switch (its upstream port), nested as they are plugged, <gpu> and its <nvlink>s. Speeds are those
// that a slot and its card can do, not those of the moment. Root ports and host bridges are not in
// it: NCCL skips them. Only the GPUs of the job that wrote it are.
// Leaves out: NICs, CPU masks, GPU ranks.

#include <algorithm>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>

#include "calibrate/import/topology/text_scan.hpp"
#include "calibrate/import/topology/topology_facts.hpp"
#include "sim/base/table_text.hpp"

namespace {

using boost::property_tree::ptree;

// The parser descends by recursion; real dumps are eight deep and under a megabyte.
constexpr int depth_max = 64;
constexpr std::size_t size_max = std::size_t{16} << 20;

bool recognises(std::string_view text) { return text.find("<system") != std::string_view::npos; }

// How deep tags nest, roughly: enough to keep the parser from the end of the stack.
int nesting(std::string_view text) {
  int depth = 0, deepest = 0;
  for (auto at = text.find('<'); at != std::string_view::npos; at = text.find('<', at + 1)) {
    const auto rest = text.substr(at + 1);
    if (rest.starts_with('!') || rest.starts_with('?')) continue;
    if (rest.starts_with('/')) {
      --depth;
      continue;
    }
    deepest = std::max(deepest, ++depth);
    const auto end = rest.find('>');
    if (end != std::string_view::npos && end > 0 && rest[end - 1] == '/') --depth;
  }
  return deepest;
}

std::string attribute(const ptree& node, const char* key) {
  const auto attributes = node.get_child_optional("<xmlattr>");
  return attributes ? attributes->get<std::string>(key, "") : std::string();
}

class Reader {
 public:
  Reader(const std::string& path, std::string_view text, Diagnostics& errors)
      : path_(path), text_(text), errors_(errors) {}

  TopologyFacts read() {
    out_.path = path_;
    out_.form = "NCCL topology dump";
    tree_.shows_host_bridges = false;
    const auto begin = text_.find("<system");
    const auto end = text_.rfind("</system>");
    constexpr std::string_view closing = "</system>";
    const auto length =
        end == std::string_view::npos || end < begin ? text_.size() : end + closing.size() - begin;
    const auto xml = text_.substr(begin, length);  // a paste may have text around it
    if (xml.size() > size_max || nesting(xml) > depth_max) {
      errors_.error(place(xml), "this is larger or nested deeper than any dump of NCCL");
      return out_;
    }
    ptree root;
    try {
      std::istringstream in{std::string(xml)};
      boost::property_tree::read_xml(in, root);
    } catch (const boost::property_tree::xml_parser_error& e) {
      const auto lines = text_lines(xml);
      const auto line = std::min<std::size_t>(e.line(), lines.size());
      errors_.error(place(lines.empty() || line == 0 ? xml : lines[line - 1]),
                    fmt::format("this is no whole XML: {}", printable(e.message())),
                    "the dump was cut off: copy the whole file");
      return out_;
    }
    for (const auto& [tag, system] : root)
      if (tag == "system")
        for (const auto& [name, child] : system)
          if (name == "cpu") read_cpu(child);
    if (hosts_.size() > 1)
      errors_.error(place(xml), fmt::format("this dump spans {} hosts", hosts_.size()),
                    "dump the topology of a job on one box");
    if (tree_.gpus().empty() && errors_.empty())
      errors_.error(place(xml), "there is no <gpu> below a <cpu> and its <pci>s",
                    "NCCL writes them with NCCL_TOPO_DUMP_FILE=FILE, once a job has started");
    check_speeds();
    out_.tree = std::move(tree_);
    return out_;
  }

 private:
  Location place(std::string_view part) const { return place_in(path_, text_, part); }
  // Where an attribute's text first stands.
  Location place_of(const std::string& value) const {
    const auto at = value.empty() ? std::string_view::npos : text_.find("\"" + value + "\"");
    return place(at == std::string_view::npos ? text_.substr(text_.find("<system"))
                                              : text_.substr(at + 1));
  }

  void read_cpu(const ptree& cpu) {
    if (const auto host = attribute(cpu, "host_hash"); !host.empty()) hosts_.insert(host);
    PciNode bridge;
    bridge.kind = PciNode::Kind::host_bridge;
    const auto numa = attribute(cpu, "numaid");
    bridge.numa = numa.starts_with("0x") ? std::nullopt : number_after(numa, "");
    if (const auto hex = hex_number(numa); numa.starts_with("0x") && hex && *hex < 4096)
      bridge.numa = static_cast<int>(*hex);
    const int index = add(std::move(bridge));
    for (const auto& [tag, pci] : cpu)
      if (tag == "pci" && has_gpu(pci)) {
        PciNode port;
        port.kind = PciNode::Kind::root_port;
        port.parent = index;
        read_pci(pci, add(std::move(port)));
      }
  }

  static bool is_gpu(const ptree& pci) {
    return pci.count("gpu") > 0 || attribute(pci, "class").starts_with("0x03");
  }
  static bool has_gpu(const ptree& pci) {
    if (is_gpu(pci)) return true;
    for (const auto& [tag, child] : pci)
      if (tag == "pci" && has_gpu(child)) return true;
    return false;
  }

  void read_pci(const ptree& pci, int parent) {
    PciNode node;
    node.parent = parent;
    node.kind = is_gpu(pci) ? PciNode::Kind::gpu : PciNode::Kind::pcie_switch;
    const auto id = attribute(pci, "busid");
    if (const auto bus = bus_id(id))
      node.bus_id = *bus;
    else
      errors_.error(place_of(id), fmt::format("'{}' is no bus id of a <pci>", printable(id)),
                    "write it as 0000:01:00.0");
    if (!node.bus_id.empty() && !seen_.insert(node.bus_id).second)
      errors_.error(place_of(id), fmt::format("the device {} appears twice", node.bus_id));
    read_link(pci, node);
    if (attribute(pci, "vendor") == "0x1b36")
      out_.guest.push_back(fmt::format("{} is a virtual port of QEMU (vendor 1b36)", node.bus_id));
    if (node.kind == PciNode::Kind::gpu) {
      if (const auto device = attribute(pci, "device");
          device.starts_with("0x") && attribute(pci, "vendor") == "0x10de")
        node.pci_id = device.substr(2);
      for (int at = parent; at >= 0; at = tree_.nodes[static_cast<std::size_t>(at)].parent)
        node.numa = tree_.nodes[static_cast<std::size_t>(at)].numa;
      for (const auto& [tag, gpu] : pci)
        if (tag == "gpu") read_nvlinks(gpu, node.bus_id);
      add(std::move(node));
      return;
    }
    const int index = add(std::move(node));
    for (const auto& [tag, child] : pci)
      if (tag == "pci" && has_gpu(child)) read_pci(child, index);
  }

  void read_link(const ptree& pci, PciNode& node) {
    const auto speed = attribute(pci, "link_speed"), width = attribute(pci, "link_width");
    if (const auto words = words_of(speed); !words.empty() && words[0].text != "Unknown") {
      const auto rate = table_number(words[0].text);
      node.gen = rate ? pcie_gen(*rate) : 0;
      if (node.gen == 0)
        errors_.error(place_of(speed), fmt::format("'{}' is no speed of a link", printable(speed)),
                      "PCIe runs at 2.5, 5, 8, 16, 32 or 64 GT/s");
    }
    if (width.empty()) return;
    const auto lanes = number_after(width, "");
    if (!lanes || (*lanes > 0 && !is_width(*lanes)))
      errors_.error(place_of(width), fmt::format("'{}' is no width of a link", printable(width)));
    node.lanes = lanes.value_or(0);
    // A speed without lanes, or lanes without a speed, is how a guest's empty fields look.
    if (node.lanes == 0 || node.gen == 0) node.lanes = node.gen = 0;
  }

  void read_nvlinks(const ptree& gpu, const std::string& from) {
    for (const auto& [tag, link] : gpu) {
      if (tag != "nvlink") continue;
      const auto count = number_after(attribute(link, "count"), "");
      const auto target = attribute(link, "target");
      const auto to = bus_id(target);
      if (!count || *count < 1 || *count > 64 || !to) {
        errors_.error(place_of(target),
                      fmt::format("an <nvlink> of {} has no count or no target", from));
        continue;
      }
      // Class 0x0680, "other bridge", is an NVSwitch.
      const bool to_switch = attribute(link, "tclass").starts_with("0x0680");
      out_.nvlinks.push_back({from, to_switch ? std::string() : *to, *count});
    }
  }

  void check_speeds() {
    const auto gpus = tree_.gpus();
    bool known = false;
    for (const int g : gpus) known |= tree_.nodes[static_cast<std::size_t>(g)].gen > 0;
    if (!gpus.empty() && !known && errors_.empty())
      out_.guest.emplace_back("no GPU's link has a speed, as in guests");
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
  std::set<std::string> hosts_, seen_;
};

const Registered<TopologyForm> me("NCCL topology dump",
                                  {"the XML that NCCL writes with NCCL_TOPO_DUMP_FILE", recognises,
                                   [](const std::string& path, std::string_view text,
                                      Diagnostics& errors) {
                                     return Reader(path, text, errors).read();
                                   }});

}  // namespace
