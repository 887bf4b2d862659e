// The management library is looked up, never linked, and its header is not needed: the few
// functions and constants used here, from its public documentation (NVML API reference, R580).
// A function that a driver does not have leaves its fact unknown.

#include "calibrate/measure/nvml.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <fstream>
#include <set>
#include <type_traits>

#include <fmt/format.h>

namespace {

using Device = void*;
constexpr int success = 0;
constexpr unsigned sm_clock = 1, memory_clock = 2;  // nvmlClockType_t
constexpr unsigned p2p_read = 0, p2p_write = 1;     // nvmlGpuP2PCapsIndex_t

struct PciInfo {
  char legacy[16];
  unsigned domain, bus, device, ids, subsystem;
  char address[32];  // "00000000:01:00.0"
};
struct Memory {
  unsigned long long total, free, used;
};
struct Process {  // since R510
  unsigned id;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
};

struct Nvml {
  int (*init)();
  int (*shutdown)();
  const char* (*error)(int);
  int (*driver)(char*, unsigned);
  int (*count)(unsigned*);
  int (*handle)(unsigned, Device*);
  int (*name)(Device, char*, unsigned);
  int (*pci)(Device, PciInfo*);
  int (*memory)(Device, Memory*);
  int (*clock)(Device, unsigned, unsigned*);
  int (*clock_max)(Device, unsigned, unsigned*);
  int (*bus_width)(Device, unsigned*);
  int (*power_limit)(Device, unsigned*);
  int (*link_gen)(Device, unsigned*);
  int (*link_gen_max)(Device, unsigned*);
  int (*link_width)(Device, unsigned*);
  int (*link_width_max)(Device, unsigned*);
  int (*virtualization)(Device, unsigned*);
  int (*processes)(Device, unsigned*, Process*);
  int (*ancestor)(Device, Device, unsigned*);
  int (*peer)(Device, Device, unsigned, unsigned*);
};

template <class Function>
void take(void* library, const char* symbol, Function& into) {
  into = reinterpret_cast<Function>(dlsym(library, symbol));
}

Nvml functions_of(void* library) {
  Nvml n{};
  take(library, "nvmlInit_v2", n.init);
  take(library, "nvmlShutdown", n.shutdown);
  take(library, "nvmlErrorString", n.error);
  take(library, "nvmlSystemGetDriverVersion", n.driver);
  take(library, "nvmlDeviceGetCount_v2", n.count);
  take(library, "nvmlDeviceGetHandleByIndex_v2", n.handle);
  take(library, "nvmlDeviceGetName", n.name);
  take(library, "nvmlDeviceGetPciInfo_v3", n.pci);
  take(library, "nvmlDeviceGetMemoryInfo", n.memory);
  take(library, "nvmlDeviceGetClockInfo", n.clock);
  take(library, "nvmlDeviceGetMaxClockInfo", n.clock_max);
  take(library, "nvmlDeviceGetMemoryBusWidth", n.bus_width);
  take(library, "nvmlDeviceGetEnforcedPowerLimit", n.power_limit);
  take(library, "nvmlDeviceGetCurrPcieLinkGeneration", n.link_gen);
  take(library, "nvmlDeviceGetMaxPcieLinkGeneration", n.link_gen_max);
  take(library, "nvmlDeviceGetCurrPcieLinkWidth", n.link_width);
  take(library, "nvmlDeviceGetMaxPcieLinkWidth", n.link_width_max);
  take(library, "nvmlDeviceGetVirtualizationMode", n.virtualization);
  take(library, "nvmlDeviceGetComputeRunningProcesses_v3", n.processes);
  take(library, "nvmlDeviceGetTopologyCommonAncestor", n.ancestor);
  take(library, "nvmlDeviceGetP2PStatus", n.peer);
  return n;
}

// A number, 0 when the function is not there or does not answer.
template <class Function, class... Arguments>
unsigned number(Function function, Arguments... a) {
  unsigned out = 0;
  return function && function(a..., &out) == success ? out : 0;
}

std::string ancestor_word(unsigned level) {
  switch (level) {
    case 0:
      return "PIX";  // two GPUs of one board
    case 10:
      return "PIX";
    case 20:
      return "PXB";
    case 30:
      return "PHB";
    case 40:
      return "NODE";
    case 50:
      return "SYS";
    default:
      return "?";
  }
}

constexpr std::array<const char*, 7> peer_words{"OK", "CNS", "GNS", "TNS", "DR", "NS", "U"};
std::string peer_meaning(const std::string& word) {
  if (word == "CNS") return "the driver refuses the chipset; in a guest it sees an emulated one";
  if (word == "GNS") return "the driver refuses this kind of GPU";
  if (word == "TNS") return "the two hang on different I/O hubs";
  if (word == "DR") return "a setting of the driver (registry key) disables it";
  if (word == "NS") return "not supported";
  if (word == "U") return "the driver does not know";
  return "";
}

std::string virtualization_word(unsigned mode) {
  constexpr std::array<const char*, 5> words{"bare metal", "passed through to this guest",
                                             "a vGPU of this guest", "shared out as vGPUs",
                                             "shared out by vSGA"};
  return mode < words.size() ? words[mode] : "";
}

// "00000000:01:00.0" as /sys has it: "0000:01:00.0".
std::string short_address(std::string address) {
  if (address.size() == 16 && address.starts_with("0000")) address.erase(0, 4);
  for (char& c : address) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return address;
}

NvmlGpu describe(const Nvml& n, Device device) {
  NvmlGpu out;
  std::array<char, 96> name{};
  if (n.name && n.name(device, name.data(), name.size()) == success) out.name = name.data();
  if (PciInfo pci{}; n.pci && n.pci(device, &pci) == success)
    out.address = short_address(std::string(pci.address, strnlen(pci.address, sizeof pci.address)));
  if (Memory memory{}; n.memory && n.memory(device, &memory) == success)
    out.memory_bytes = memory.total;
  out.sm_clock_mhz = number(n.clock, device, sm_clock);
  out.sm_clock_max_mhz = number(n.clock_max, device, sm_clock);
  out.memory_clock_mhz = number(n.clock, device, memory_clock);
  out.memory_clock_max_mhz = number(n.clock_max, device, memory_clock);
  out.memory_bus_bits = number(n.bus_width, device);
  out.power_limit_mw = number(n.power_limit, device);
  out.link_gen = number(n.link_gen, device);
  out.link_gen_max = number(n.link_gen_max, device);
  out.link_width = number(n.link_width, device);
  out.link_width_max = number(n.link_width_max, device);
  if (unsigned mode = 0; n.virtualization && n.virtualization(device, &mode) == success)
    out.virtualization = virtualization_word(mode);
  std::array<Process, 64> processes{};
  unsigned count = processes.size();
  if (n.processes && n.processes(device, &count, processes.data()) == success) {
    out.processes_are_known = true;
    for (unsigned i = 0; i < std::min<unsigned>(count, processes.size()); ++i)
      out.processes.push_back(processes[i].id);
  }
  return out;
}

NvmlFacts ask(const Nvml& n) {
  NvmlFacts out;
  std::array<char, 96> driver{};
  if (n.driver && n.driver(driver.data(), driver.size()) == success) out.driver = driver.data();
  std::vector<Device> devices;
  for (unsigned i = 0, count = number(n.count); i < count; ++i)
    if (Device device = nullptr; n.handle(i, &device) == success) devices.push_back(device);
  for (const Device a : devices) {
    out.gpus.push_back(describe(n, a));
    auto& ancestors = out.ancestor.emplace_back();
    auto& peers = out.peer.emplace_back();
    for (const Device b : devices) {
      unsigned level = 0, reads = 0, writes = 0;
      ancestors.push_back(a == b                                              ? "X"
                          : n.ancestor && n.ancestor(a, b, &level) == success ? ancestor_word(level)
                                                                              : "?");
      const bool known = n.peer && n.peer(a, b, p2p_read, &reads) == success &&
                         n.peer(a, b, p2p_write, &writes) == success;
      const unsigned status = reads != 0 ? reads : writes;
      peers.push_back(a == b                                ? "X"
                      : known && status < peer_words.size() ? peer_words[status]
                                                            : "?");
    }
  }
  return out;
}

std::string or_unknown(unsigned value) { return value ? std::to_string(value) : "?"; }

// "1234 (python3)"
std::string process_name(unsigned id) {
  std::ifstream in(fmt::format("/proc/{}/comm", id));
  std::string name;
  return std::getline(in, name) ? fmt::format("{} ({})", id, name) : std::to_string(id);
}

std::string matrix(const std::vector<std::vector<std::string>>& cells) {
  std::string out = "        ";
  for (std::size_t i = 0; i < cells.size(); ++i)
    out += fmt::format("{:<6}", fmt::format("GPU{}", i));
  for (std::size_t i = 0; i < cells.size(); ++i) {
    out += fmt::format("\n  {:<6}", fmt::format("GPU{}", i));
    for (const auto& cell : cells[i]) out += fmt::format("{:<6}", cell);
  }
  // no blanks at the ends of lines
  std::string tidy;
  for (const char c : out + "\n") {
    if (c == '\n')
      while (!tidy.empty() && tidy.back() == ' ') tidy.pop_back();
    tidy += c;
  }
  return tidy;
}

}  // namespace

bool NvmlFacts::all_peers() const {
  for (const auto& row : peer)
    for (const auto& cell : row)
      if (cell != "X" && cell != "OK") return false;
  return gpus.size() > 1;
}

tl::expected<NvmlFacts, std::string> ask_nvml(const char* library) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle) return tl::unexpected(fmt::format("{} cannot be loaded", library));
  const Nvml n = functions_of(handle);
  if (!n.init || !n.shutdown || !n.count || !n.handle) {
    dlclose(handle);
    return tl::unexpected(fmt::format("{} is no NVML", library));
  }
  if (const int code = n.init(); code != success) {
    const auto why = fmt::format("NVML does not start ({})",
                                 n.error ? n.error(code) : std::to_string(code).c_str());
    dlclose(handle);
    return tl::unexpected(why);
  }
  auto out = ask(n);
  n.shutdown();
  dlclose(handle);
  return out;
}

std::string render_nvml(const NvmlFacts& facts) {
  std::string out = fmt::format("driver {}\n", facts.driver.empty() ? "?" : facts.driver);
  for (std::size_t i = 0; i < facts.gpus.size(); ++i) {
    const auto& g = facts.gpus[i];
    out += fmt::format("  GPU{}  {}  {}\n", i, g.address.empty() ? "?" : g.address,
                       g.name.empty() ? "?" : g.name);
    out += fmt::format("        {}, power limit {}\n",
                       g.memory_bytes ? fmt::format("{} MiB", g.memory_bytes >> 20) : "? MiB",
                       g.power_limit_mw ? fmt::format("{} W", g.power_limit_mw / 1000) : "?");
    out += fmt::format("        SM {} of {} MHz, memory {} of {} MHz, PCIe {} x{} of {} x{} now\n",
                       or_unknown(g.sm_clock_mhz), or_unknown(g.sm_clock_max_mhz),
                       or_unknown(g.memory_clock_mhz), or_unknown(g.memory_clock_max_mhz),
                       or_unknown(g.link_gen), or_unknown(g.link_width), or_unknown(g.link_gen_max),
                       or_unknown(g.link_width_max));
    if (const double rate = g.line_rate_gb_per_s(); rate > 0)
      out += fmt::format("        memory of {} bits, {:.0f} GB/s at its highest clock\n",
                         g.memory_bus_bits, rate);
    if (!g.virtualization.empty()) out += fmt::format("        {}\n", g.virtualization);
    if (!g.processes_are_known) out += "        whether something computes on it is not known\n";
    constexpr std::size_t shown = 3;
    std::string list;
    for (std::size_t p = 0; p < std::min(shown, g.processes.size()); ++p)
      list += (p ? ", " : "") + process_name(g.processes[p]);
    if (g.processes.size() > shown) list += fmt::format(" and {} more", g.processes.size() - shown);
    if (!list.empty()) out += fmt::format("        in use: {}\n", list);
  }
  if (facts.gpus.size() > 1) {
    out +=
        "what a pair shares (PIX a switch, PXB switches, PHB a root complex, NODE, SYS nothing)\n" +
        matrix(facts.ancestor) + "peer access (reads and writes)\n" + matrix(facts.peer);
    std::set<std::string> words;
    for (const auto& row : facts.peer) words.insert(row.begin(), row.end());
    for (const auto& word : words)
      if (const auto meaning = peer_meaning(word); !meaning.empty())
        out += fmt::format("  {}: {}\n", word, meaning);
  }
  for (const auto& g : facts.gpus)
    if (!g.processes.empty()) {
      out += "note: a GPU is in use; what is measured meanwhile is wrong\n";
      break;
    }
  return out;
}
