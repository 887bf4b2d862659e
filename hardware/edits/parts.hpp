#pragma once

#include <functional>
#include <vector>

#include "hardware/topology/topology.hpp"

/// A topology taken apart, for edits that add or remove devices. Ids are indices into `devices`.
struct Parts {
  std::vector<Device> devices;
  std::vector<Link> links;

  explicit Parts(const Topology& topology) : devices(topology.devices()), links(topology.links()) {}

  DeviceId add(Device device) {
    devices.push_back(std::move(device));
    return static_cast<DeviceId>(devices.size()) - 1;
  }
  std::vector<DeviceId> gpus() const;
  /// A name that no device has yet: `stem` and the first free number.
  std::string free_name(const std::string& stem) const;
  /// The PCIe links at a device, by their index.
  std::vector<std::size_t> pcie_links(DeviceId device) const;
  DeviceId other_end(std::size_t link, DeviceId device) const;

  /// Without the devices for which `keep` is false, their links, and whatever then leads nowhere:
  /// ports, switches and bridges below which there is no GPU, memory or NIC.
  Topology assemble(const std::function<bool(DeviceId)>& keep = {}) const;
};

/// GB/s one way of a PCIe slot, after encoding (PCI-SIG; Gen5 x16: 63).
double pcie_line_gbps(int gen, int lanes);
