// gpus: N: the same box with fewer GPUs (the first N stay) or more: what hangs below the host's
// root complexes (a card on its port, a switch with its cards) is added again, round the sockets,
// until there are N.

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "hardware/edits/parts.hpp"
#include "hardware/machine.hpp"

namespace {

bool joins_host(const Device& d) {
  return d.kind == DeviceKind::root_complex || d.kind == DeviceKind::numa_node ||
         d.kind == DeviceKind::nvlink_switch;
}

// What is reached from a device without crossing the host.
std::vector<DeviceId> subtree(const Parts& parts, DeviceId start) {
  std::vector<DeviceId> out = {start};
  for (std::size_t i = 0; i < out.size(); ++i)
    for (const Link& l : parts.links) {
      if (l.a != out[i] && l.b != out[i]) continue;
      const DeviceId next = l.a == out[i] ? l.b : l.a;
      if (!joins_host(parts.devices[static_cast<std::size_t>(next)]) &&
          std::find(out.begin(), out.end(), next) == out.end())
        out.push_back(next);
    }
  return out;
}

int gpus_in(const Parts& parts, const std::vector<DeviceId>& devices) {
  int out = 0;
  for (const DeviceId d : devices)
    out += parts.devices[static_cast<std::size_t>(d)].kind == DeviceKind::gpu;
  return out;
}

std::string stem(const std::string& name) {
  const auto end = name.find_last_not_of("0123456789");
  return name.substr(0, end == std::string::npos ? 0 : end + 1);
}

void apply(Machine& machine, const std::string& key, Section& edits) {
  const int wanted = edits.required<int>(key, between(1, 64));
  Parts parts(machine.topology);
  const auto gpus = parts.gpus();
  if (wanted < static_cast<int>(gpus.size())) {
    machine.topology = parts.assemble([&](DeviceId id) {
      const auto rank = std::find(gpus.begin(), gpus.end(), id) - gpus.begin();
      return rank == static_cast<std::ptrdiff_t>(gpus.size()) || rank < wanted;
    });
    auto& off = machine.interconnect.p2p_off;
    off.erase(std::remove_if(
                  off.begin(), off.end(),
                  [&](const auto& pair) { return pair.first >= wanted || pair.second >= wanted; }),
              off.end());
    return;
  }
  // The subtrees in the order of their GPUs, each once.
  std::vector<std::vector<DeviceId>> trees;
  std::map<DeviceId, bool> seen;
  for (const DeviceId gpu : gpus) {
    if (seen[gpu]) continue;
    trees.push_back(subtree(parts, gpu));
    for (const DeviceId d : trees.back()) seen[d] = true;
  }
  int count = static_cast<int>(gpus.size());
  for (std::size_t next = 0; count < wanted; ++next) {
    const auto& tree = trees[next % trees.size()];
    const int more = gpus_in(parts, tree);
    if (more == 0) return;
    if (count + more > wanted)
      return edits.error(
          key, fmt::format("{} GPUs cannot be made of this box", wanted),
          fmt::format("its GPUs come {} at a time: {} or {}", more, count, count + more));
    std::map<DeviceId, DeviceId> copy;
    for (const DeviceId d : tree) {
      Device device = parts.devices[static_cast<std::size_t>(d)];
      device.name = parts.free_name(stem(device.name));
      copy[d] = parts.add(std::move(device));
    }
    const auto links = parts.links;
    for (Link l : links) {
      const bool a = copy.count(l.a), b = copy.count(l.b);
      if (!a && !b) continue;
      if (a) l.a = copy[l.a];
      if (b) l.b = copy[l.b];
      parts.links.push_back(std::move(l));
    }
    count += more;
  }
  machine.topology = parts.assemble();
}

const Registered<MachineEdit> me("gpus", {"another number of GPUs in the same box", apply});

}  // namespace
