#include "hardware/edits/parts.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

std::vector<DeviceId> Parts::gpus() const {
  std::vector<DeviceId> out;
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (devices[i].kind == DeviceKind::gpu) out.push_back(static_cast<DeviceId>(i));
  return out;
}

std::string Parts::free_name(const std::string& stem) const {
  for (int number = 0;; ++number) {
    std::string name = fmt::format("{}{}", stem, number);
    if (std::none_of(devices.begin(), devices.end(),
                     [&](const Device& d) { return d.name == name; }))
      return name;
  }
}

std::vector<std::size_t> Parts::pcie_links(DeviceId device) const {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < links.size(); ++i)
    if (links[i].kind == "pcie" && (links[i].a == device || links[i].b == device)) out.push_back(i);
  return out;
}

DeviceId Parts::other_end(std::size_t link, DeviceId device) const {
  return links[link].a == device ? links[link].b : links[link].a;
}

Topology Parts::assemble(const std::function<bool(DeviceId)>& keep) const {
  std::vector<bool> stays(devices.size(), true);
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (keep) stays[i] = keep(static_cast<DeviceId>(i));
  // Ends of nothing go, until none is left.
  for (bool again = true; again;) {
    again = false;
    for (std::size_t i = 0; i < devices.size(); ++i) {
      const DeviceKind kind = devices[i].kind;
      if (!stays[i] || kind == DeviceKind::gpu || kind == DeviceKind::host_memory ||
          kind == DeviceKind::nic)
        continue;
      int ways = 0;
      for (const Link& l : links)
        ways += (l.a == static_cast<DeviceId>(i) && stays[static_cast<std::size_t>(l.b)]) ||
                (l.b == static_cast<DeviceId>(i) && stays[static_cast<std::size_t>(l.a)]);
      if (ways <= 1) stays[i] = false, again = true;
    }
  }
  Topology out;
  std::vector<DeviceId> id(devices.size(), -1);
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (stays[i]) id[i] = out.add(devices[i]);
  for (Link l : links) {
    l.a = id[static_cast<std::size_t>(l.a)], l.b = id[static_cast<std::size_t>(l.b)];
    if (l.a >= 0 && l.b >= 0) out.add(std::move(l));
  }
  return out;
}

double pcie_line_gbps(int gen, int lanes) {
  // GB/s of one lane after encoding, Gen1 to Gen6.
  constexpr std::array<double, 6> lane = {0.25, 0.5, 0.985, 1.969, 3.938, 7.563};
  return lane[static_cast<std::size_t>(gen - 1)] * lanes;
}
