#pragma once

#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

/// A made-up box, and what the tools would print of it: our own text in their forms.
namespace box_texts {

struct Gpu {
  int numa = 0, bridge = 0, port = 0;  // bridge and port count over the whole box
  int top = -1, leaf = -1;             // switches above it, -1 for none
  std::string bus;                     // "31:00.0"
};

/// The class of `nvidia-smi topo -m` between two GPUs.
inline std::string path_class(const Gpu& a, const Gpu& b) {
  if (a.top >= 0 && a.top == b.top) return a.leaf == b.leaf ? "PIX" : "PXB";
  if (a.bridge == b.bridge) return "PHB";
  return a.numa == b.numa ? "NODE" : "SYS";
}

class Box {
 public:
  /// `ports[numa][bridge][port]` is the list of GPU counts of the port: {} is one GPU without a
  /// switch, {n} one switch of n, {n, m} a switch over two leaf switches.
  using Ports = std::vector<std::vector<std::vector<std::vector<int>>>>;
  explicit Box(const Ports& numas) {
    int bridge = 0, port = 0, switches = 0;
    for (std::size_t numa = 0; numa < numas.size(); ++numa)
      for (const auto& ports : numas[numa]) {
        int bus = 0x20 * bridge;  // the root bus, then one per bridge below it
        lspci_ += fmt::format("{:02x}:00.0 Host bridge: Made Up Root Complex\n\n", bus);
        int slot = 0;
        const int root = bus;
        for (const auto& counts : ports) {
          Gpu g;
          g.numa = static_cast<int>(numa), g.bridge = bridge, g.port = port++;
          const int first = bus + 1;
          const int buses = counts.empty()       ? 1
                            : counts.size() == 1 ? counts[0] + 2
                                                 : 4 + counts[0] + counts[1] + 2;
          put_bridge(fmt::format("{:02x}:{:02x}.1", root, ++slot), first, first + buses - 1,
                     "Root Port (Slot+)", g.numa);
          if (counts.empty()) {
            put_gpu(g, ++bus);
          } else if (counts.size() == 1) {
            g.top = g.leaf = switches++;
            bus = put_switch(g, bus + 1, counts[0]);
          } else {
            g.top = switches++;
            const int up = ++bus, down = ++bus;
            put_bridge(fmt::format("{:02x}:00.0", up), down, up + buses - 1, "Upstream Port",
                       g.numa);
            open_switch(fmt::format("{:02x}:00.0", up), g);
            for (std::size_t k = 0; k < counts.size(); ++k) {
              g.leaf = switches++;
              const int next = bus + 1;
              put_bridge(fmt::format("{:02x}:{:02x}.0", down, k), next, next + counts[k] + 1,
                         "Downstream Port (Slot+)", g.numa);
              bus = put_switch(g, next, counts[k]);
            }
            xml_[numa_at(g.numa)] += "</pci>\n";
          }
        }
        ++bridge;
      }
  }

  const std::vector<Gpu>& gpus() const { return gpus_; }

  std::string topo_m() const {
    std::string out = "\t\x1b[4m";
    for (std::size_t i = 0; i < gpus_.size(); ++i) out += fmt::format("GPU{}\t", i);
    out += "NIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n";
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      out += fmt::format("GPU{}\t", i);
      for (std::size_t j = 0; j < gpus_.size(); ++j)
        out += i == j ? " X \t" : path_class(gpus_[i], gpus_[j]) + "\t";
      out += fmt::format("SYS\t0-31,64-95\t{}\t\tN/A\n", gpus_[i].numa);
    }
    out += "NIC0\t";
    for (std::size_t i = 0; i < gpus_.size(); ++i) out += "SYS\t";
    out += " X \t\t\t\t\n\nLegend:\n\n  X    = Self\n  PIX  = at most a single PCIe bridge\n";
    return out + "\nNIC Legend:\n\n  NIC0: mlx5_0\n";
  }

  std::string nccl_xml() const {
    std::string out = "<system version=\"1\">\n";
    for (std::size_t i = 0; i < xml_.size(); ++i)
      out += fmt::format(
                 "<cpu host_hash=\"0x1f\" numaid=\"{}\" affinity=\"ffff\" arch=\"x86_64\">\n", i) +
             xml_[i] + "<nic><net name=\"eth0\" dev=\"0\" speed=\"10000\"/></nic>\n</cpu>\n";
    return out + "</system>\n";
  }

  std::string lspci() const { return lspci_; }

  /// `off`: cells of pairs without access, in all others OK.
  std::string topo_p2p(const std::vector<std::pair<int, int>>& off,
                       const std::string& word = "CNS") const {
    std::string out = " \t";
    const int n = static_cast<int>(gpus_.size());
    for (int i = 0; i < n; ++i) out += fmt::format("GPU{}\t", i);
    out += "\n";
    for (int i = 0; i < n; ++i) {
      out += fmt::format(" GPU{}\t", i);
      for (int j = 0; j < n; ++j) {
        bool is_off = false;
        for (const auto& [a, b] : off) is_off |= (a == i && b == j) || (a == j && b == i);
        out += (i == j ? "X" : is_off ? word : "OK") + "\t";
      }
      out += "\n";
    }
    return out + "\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n";
  }

 private:
  std::size_t numa_at(int numa) {
    if (xml_.size() <= static_cast<std::size_t>(numa))
      xml_.resize(static_cast<std::size_t>(numa) + 1);
    return static_cast<std::size_t>(numa);
  }
  void put_bridge(const std::string& id, int secondary, int subordinate, const char* port,
                  int numa) {
    lspci_ += fmt::format(
        "{} PCI bridge: Made Up PCIe Bridge (prog-if 00 [Normal decode])\n"
        "\tControl: I/O+ Mem+ BusMaster+\n\tNUMA node: {}\n"
        "\tBus: primary={}, secondary={:02x}, subordinate={:02x}, sec-latency=0\n"
        "\tCapabilities: [58] Express (v2) {}, IntMsgNum 0\n"
        "\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported\n"
        "\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x16\n"
        "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir- CmpltRedir- UpstreamFwd-\n\n",
        id, numa, id.substr(0, 2), secondary, subordinate, port);
  }
  void open_switch(const std::string& id, const Gpu& g) {
    xml_[numa_at(g.numa)] += fmt::format(
        "<pci busid=\"0000:{}\" class=\"0x060400\" vendor=\"0x1000\" device=\"0xc030\" "
        "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">\n",
        id);
  }
  // The switch's upstream port stands on bus `up`; returns the last bus.
  int put_switch(Gpu g, int up, int gpus) {
    const int down = up + 1;
    put_bridge(fmt::format("{:02x}:00.0", up), down, down + gpus, "Upstream Port", g.numa);
    open_switch(fmt::format("{:02x}:00.0", up), g);
    for (int i = 0; i < gpus; ++i) {
      put_bridge(fmt::format("{:02x}:{:02x}.0", down, i), down + 1 + i, down + 1 + i,
                 "Downstream Port (Slot+)", g.numa);
      put_gpu(g, down + 1 + i);
    }
    xml_[numa_at(g.numa)] += "</pci>\n";
    return down + gpus;
  }
  void put_gpu(Gpu g, int bus) {
    g.bus = fmt::format("{:02x}:00.0", bus);
    lspci_ += fmt::format(
        "{} 3D controller: NVIDIA Corporation GB202GL [RTX PRO 6000 Blackwell Server Edition] "
        "(rev a1)\n\tNUMA node: {}\n\tCapabilities: [60] Express (v2) Legacy Endpoint\n"
        "\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM L1\n"
        "\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x16\n\n",
        g.bus, g.numa);
    xml_[numa_at(g.numa)] += fmt::format(
        "<pci busid=\"0000:{}\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x2bb5\" "
        "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"{}\" sm=\"120\" "
        "rank=\"{}\" gdr=\"1\"/></pci>\n",
        g.bus, gpus_.size(), gpus_.size());
    gpus_.push_back(std::move(g));
  }

  std::vector<Gpu> gpus_;
  std::vector<std::string> xml_;
  std::string lspci_;
};

/// One matrix of p2pBandwidthLatencyTest; `at(i, j)` gives a cell.
template <class At>
std::string matrix(const std::string& heading, const char* corner, int n, At at) {
  std::string out = heading + "\n   " + corner;
  for (int i = 0; i < n; ++i) out += fmt::format("{:>7}", i);
  out += " \n";
  for (int i = 0; i < n; ++i) {
    out += fmt::format("{:>6}", i);
    for (int j = 0; j < n; ++j) out += fmt::format(" {:.2f}", i == j ? 1488.1 : at(i, j));
    out += " \n";
  }
  return out;
}

inline std::string devices(const std::vector<std::string>& buses) {
  std::string out = "[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]\n";
  for (std::size_t i = 0; i < buses.size(); ++i)
    out += fmt::format(
        "Device: {}, NVIDIA RTX PRO 6000 Blackwell Server Edition, pciBusID: {}, pciDeviceID: 0, "
        "pciDomainID:0\n",
        i, buses[i].substr(0, 2));
  return out;
}

/// A guest of QEMU's q35 machine: one virtual root port a GPU.
inline std::string guest_lspci(int gpus) {
  std::string out =
      "00:00.0 Host bridge: Intel Corporation 82G33/G31/P35/P31 Express DRAM Controller\n\n";
  for (int i = 0; i < gpus; ++i)
    out += fmt::format(
        "00:1c.{} PCI bridge: Red Hat, Inc. QEMU PCIe Root port (prog-if 00 [Normal decode])\n"
        "\tBus: primary=00, secondary={:02x}, subordinate={:02x}, sec-latency=0\n"
        "\tCapabilities: [54] Express (v2) Root Port (Slot+), MSI 00\n"
        "\t\tLnkCap:\tPort #16, Speed 16GT/s, Width x16, ASPM L0s\n\n"
        "{:02x}:00.0 3D controller: NVIDIA Corporation Device 2bb5 [10de:2bb5] (rev a1)\n"
        "\tCapabilities: [60] Express (v2) Endpoint, MSI 00\n"
        "\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM L1\n\n",
        i, i + 1, i + 1, i + 1);
  return out;
}

/// The output of all_reduce_perf on `gpus` GPUs of one host.
inline std::string all_reduce_perf(int gpus, const std::vector<std::string>& rows) {
  std::string out =
      "# nccl-tests version 2.17.6 nccl-headers=22807 nccl-library=22707\n"
      "# Collective test starting: all_reduce_perf\n"
      "# nThread 1 nGpus 1 minBytes 4096 maxBytes 1048576 step: 4(factor) warmup iters: 1\n#\n"
      "# Using devices\n";
  for (int i = 0; i < gpus; ++i)
    out += fmt::format(
        "#  Rank {:>2} Group  0 Pid   6899 on        box device {:>2} "
        "[0000:{:02x}:00] NVIDIA RTX PRO 6000 Blackwell Server Edition\n",
        i, i, i + 1);
  out +=
      "#\n#                                                              out-of-place           "
      "            in-place          \n"
      "#       size         count      type   redop    root     time   algbw   busbw  #wrong     "
      "time   algbw   busbw  #wrong \n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             "
      "(us)  (GB/s)  (GB/s)         \n";
  for (const auto& row : rows) out += row + "\n";
  return out + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 6.6972 \n#\n";
}

}  // namespace box_texts
