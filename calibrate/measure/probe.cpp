// What a box says of itself without CUDA: /sys, the CPU's word on a hypervisor, whether a driver
// answers, and what it says (nvml.cpp).

#include "calibrate/measure/probe.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace fs = std::filesystem;

namespace {

std::string first_line(const fs::path& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.pop_back();
  return line;
}

// "0000:01:00.0"
bool is_pci_address(const std::string& word) {
  return word.size() == 12 && word[4] == ':' && word[7] == ':' && word[10] == '.';
}

}  // namespace

tl::expected<std::vector<CudaGpu>, std::string> find_gpus(const char* library) {
  const auto none = [](std::string why) { return tl::unexpected(std::move(why)); };
  void* driver = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!driver) return none(fmt::format("no NVIDIA driver ({} cannot be loaded)", library));
  const auto symbol = [&](const char* name) { return dlsym(driver, name); };
  const auto init = reinterpret_cast<int (*)(unsigned)>(symbol("cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(symbol("cuDeviceGetCount"));
  if (!init || !count) {
    dlclose(driver);
    return none(fmt::format("{} is no CUDA driver", library));
  }
  // From here on the driver stays: it keeps threads of its own. CUresult of cuda.h: 34 the
  // toolkit's stub, 100 no device, 802 the NVSwitch fabric, 803 kernel module and library differ
  const int code = init(0);
  int devices = 0;
  if (code == 34) return none(fmt::format("{} is the toolkit's stub, not a driver", library));
  if (code == 803) return none("the driver's library does not match its kernel module");
  if (code == 802) return none("the system is not ready (is the fabric manager running?)");
  if (code != 0 && code != 100)
    return none(fmt::format("the driver does not start (cuInit says {})", code));
  if (code == 0 && count(&devices) == 0 && devices > 0) {
    const auto get = reinterpret_cast<int (*)(int*, int)>(symbol("cuDeviceGet"));
    const auto attribute =
        reinterpret_cast<int (*)(int*, int, int)>(symbol("cuDeviceGetAttribute"));
    std::vector<CudaGpu> gpus;
    for (int i = 0; i < devices; ++i) {
      const auto ask = [&](int which) {
        int device = 0, out = 0;
        const bool said =
            get && attribute && get(&device, i) == 0 && attribute(&out, which, device) == 0;
        return said ? out : 0;
      };
      gpus.push_back({ask(75), ask(76), ask(16), ask(38)});  // CUdevice_attribute of cuda.h
    }
    return gpus;
  }
  // the one cause that the user set himself
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return none("the driver finds no device" +
              (visible ? fmt::format(" (CUDA_VISIBLE_DEVICES is '{}')", visible) : std::string()));
}

std::string no_gpu_reason(const char* library) {
  const auto gpus = find_gpus(library);
  return gpus ? "" : gpus.error();
}

BoxFacts read_box(const std::string& root, const std::string& hypervisor) {
  BoxFacts box;
  box.hypervisor = hypervisor;
  const fs::path sys = fs::path(root) / "sys";
  box.product = first_line(sys / "class/dmi/id/product_name");
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(sys / "devices/system/node", code)) {
    const auto name = entry.path().filename().string();
    box.numa_nodes +=
        name.starts_with("node") && name.size() > 4 && name[4] >= '0' && name[4] <= '9';
  }
  for (const auto& entry : fs::directory_iterator(sys / "bus/pci/devices", code)) {
    const fs::path& at = entry.path();
    // class 03: display; 0x10de: NVIDIA
    if (first_line(at / "vendor") != "0x10de" || !first_line(at / "class").starts_with("0x03"))
      continue;
    PciGpu gpu;
    gpu.address = at.filename().string();
    gpu.device = first_line(at / "device");
    const auto node = first_line(at / "numa_node");
    gpu.numa_node =
        !node.empty() && node[0] >= '0' && node[0] <= '9' ? std::atoi(node.c_str()) : -1;
    gpu.link_speed_max = first_line(at / "max_link_speed");
    gpu.link_width_max = first_line(at / "max_link_width");
    const auto real = fs::canonical(at, code);
    for (const auto& part : real.parent_path())
      if (is_pci_address(part.string())) gpu.bridges.push_back(part.string());
    box.gpus.push_back(std::move(gpu));
  }
  std::sort(box.gpus.begin(), box.gpus.end(),
            [](const auto& a, const auto& b) { return a.address < b.address; });
  return box;
}

std::string cpu_hypervisor() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 31 & 1)) return "";
  __cpuid(0x40000000, a, b, c, d);
  std::string text;
  for (const unsigned word : {b, c, d})
    for (int i = 0; i < 4; ++i)
      if (const char letter = static_cast<char>(word >> (8 * i) & 255)) text += letter;
  return text.starts_with("KVM") ? "KVM" : text.empty() ? "unknown" : text;
#else
  return "";
#endif
}

std::string render_box(const BoxFacts& box) {
  std::string out =
      fmt::format("{}{}\n{} NUMA node{}, {} NVIDIA GPU{}\n",
                  box.hypervisor.empty() ? "bare metal" : "guest of " + box.hypervisor,
                  box.product.empty() ? "" : ", " + box.product, box.numa_nodes,
                  box.numa_nodes == 1 ? "" : "s", box.gpus.size(), box.gpus.size() == 1 ? "" : "s");
  for (const auto& gpu : box.gpus)
    out += fmt::format(
        "  {}  {}  NUMA {}  link {} x{}  behind {}\n", gpu.address, gpu.device,
        gpu.numa_node < 0 ? "?" : std::to_string(gpu.numa_node),
        gpu.link_speed_max.empty() ? "?" : gpu.link_speed_max,
        gpu.link_width_max.empty() ? "?" : gpu.link_width_max,
        gpu.bridges.empty() ? "the root" : fmt::format("{}", fmt::join(gpu.bridges, " > ")));
  for (std::size_t i = 0; i < box.cuda.size(); ++i)
    out += box.cuda[i].sm_count == 0
               ? fmt::format("  CUDA device {}: the driver says no more of it\n", i)
               : fmt::format("  CUDA device {}: compute capability {}.{}, {} SMs, {} MiB of L2\n",
                             i, box.cuda[i].compute_major, box.cuda[i].compute_minor,
                             box.cuda[i].sm_count, box.cuda[i].l2_bytes >> 20);
  if (box.driver) out += render_nvml(*box.driver);
  if (!box.hypervisor.empty())
    out +=
        "note: a guest sees the hypervisor's PCI tree, not the board's; run lspci -vv on the host\n"
        "and hand it to ceiling import topology\n";
  return out;
}

bool is_card(const GpuSpec& gpu, const std::string& device) {
  return std::find(gpu.aliases.begin(), gpu.aliases.end(), device) != gpu.aliases.end() ||
         gpu.name == device || "NVIDIA " + gpu.name == device;
}

std::string line_rate_note(const BoxFacts& box, const GpuSpec& gpu) {
  if (!box.driver || box.driver->gpus.empty() || !is_card(gpu, box.driver->gpus[0].name)) return "";
  const double found = box.driver->gpus[0].line_rate_gb_per_s();
  const double stated = gpu.memory_bandwidth.count() * 1e-9;
  // Less may be rounding of a clock (assumed).
  if (found <= 0 || std::abs(found / stated - 1) <= 0.03) return "";
  return fmt::format(
      "hardware/gpus/{}.yaml says {:.0f} GB/s of memory, this card's clock and bus give {:.0f}; "
      "tables measured here ('ceiling calibrate run') take care of it",
      gpu.id, stated, found);
}

std::string machine_file_draft(const BoxFacts& box, const std::string& gpu) {
  std::string facts;
  const auto text = render_box(box);
  for (std::size_t at = 0; at < text.size();) {
    const auto end = text.find('\n', at);
    facts += "# " + text.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return facts + fmt::format(
                     "# A draft: bandwidths are not measured yet{}. Add 'topology', from ceiling "
                     "import\n# topology or by hand (docs/topology.md).\n"
                     "schema: 1\nname: {}x {}\ngpu: {}\nruns_in: {}\np2p: {}\n",
                     box.driver ? "" : ", peer access is not known", box.gpus.size(), gpu, gpu,
                     box.hypervisor.empty() ? "bare_metal" : "kvm_guest",
                     box.driver && box.driver->all_peers() ? "on" : "off");
}
