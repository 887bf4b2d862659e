#include "calibrate/import/topology/topology_facts.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "calibrate/import/topology/text_scan.hpp"

std::optional<std::string> bus_id(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t from = 0; from <= text.size();) {
    const auto to = std::min(text.find(':', from), text.size());
    parts.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  if (parts.size() < 2 || parts.size() > 3) return {};
  const auto domain = parts.size() == 3 ? hex_number(parts[0]) : 0u;
  const auto bus = hex_number(parts[parts.size() - 2]);
  auto rest = parts.back();
  unsigned function = 0;
  if (const auto dot = rest.find('.'); dot != std::string_view::npos) {
    const auto digit = hex_number(rest.substr(dot + 1));
    if (!digit || *digit > 7) return {};
    function = *digit;
    rest = rest.substr(0, dot);
  }
  const auto device = hex_number(rest);
  if (!domain || !bus || !device || *bus > 0xff || *device > 0x1f) return {};
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", *domain, *bus, *device, function);
}

int pcie_gen(double gigatransfers) {
  // GT/s of the generations 1 to 6 (PCI Express base specification).
  constexpr std::array rates = {2.5, 5.0, 8.0, 16.0, 32.0, 64.0};
  for (std::size_t i = 0; i < rates.size(); ++i)
    if (std::abs(gigatransfers - rates[i]) < 0.3) return static_cast<int>(i) + 1;
  return 0;
}

bool is_width(int lanes) { return lanes >= 1 && lanes <= 32 && (lanes & (lanes - 1)) == 0; }

std::string_view name(PathClass c) {
  constexpr std::array<std::string_view, 7> words = {"X", "NV", "PIX", "PXB", "PHB", "NODE", "SYS"};
  return words[static_cast<std::size_t>(c)];
}

std::vector<int> PciTree::gpus() const {
  std::vector<int> out;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (nodes[i].kind == PciNode::Kind::gpu) out.push_back(static_cast<int>(i));
  std::stable_sort(out.begin(), out.end(), [&](int a, int b) {
    return nodes[static_cast<std::size_t>(a)].bus_id < nodes[static_cast<std::size_t>(b)].bus_id;
  });
  return out;
}
