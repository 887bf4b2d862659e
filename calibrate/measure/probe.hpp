#pragma once

#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "calibrate/measure/nvml.hpp"
#include "hardware/gpu.hpp"

/// One GPU as the CUDA driver describes it. 0: it does not say.
struct CudaGpu {
  int compute_major = 0, compute_minor = 0, sm_count = 0, l2_bytes = 0;
};
/// The GPUs that the CUDA driver finds, one at least, or why none: no driver, the toolkit's stub,
/// no device, or what cuInit says. `library` is opened at run time (a test names one of its own).
tl::expected<std::vector<CudaGpu>, std::string> find_gpus(const char* library);
/// The latter; empty when there is a GPU.
std::string no_gpu_reason(const char* library);

/// One PCI device as /sys shows it. In a guest the tree is the hypervisor's, not the board's, and
/// link fields may be empty.
struct PciGpu {
  std::string address;                         // "0000:01:00.0"
  std::string device;                          // "0x2bb5", of the vendor NVIDIA
  int numa_node = -1;                          // -1: the firmware does not say
  std::string link_speed_max, link_width_max;  // as written: "32.0 GT/s PCIe", "16"; "" if unknown
  std::vector<std::string> bridges;            // from the root to it
};

/// What can be known of a box without measuring.
struct BoxFacts {
  std::string hypervisor;  // "KVM", or of another vendor its signature; empty on bare metal
  std::string product;     // of the firmware's tables: "Standard PC (Q35 + ICH9, 2009)"
  int numa_nodes = 0;
  std::vector<PciGpu> gpus;         // in the order of their addresses
  std::vector<CudaGpu> cuda;        // as the CUDA driver numbers them, where there is one
  std::optional<NvmlFacts> driver;  // what its management library says
};

/// Reads `root`/sys; nothing there is an error. `hypervisor` is the CPU's own word (cpuid leaf
/// 0x40000000), "" when it names none.
BoxFacts read_box(const std::string& root, const std::string& hypervisor);
/// What the CPU says of a hypervisor under this process: "KVM", "VMware", ..., "" on bare metal.
std::string cpu_hypervisor();

/// Whether a driver that says `device` means this card.
bool is_card(const GpuSpec& gpu, const std::string& device);
/// What to say when the first GPU is such a card but clock and bus of its memory give a rate more
/// than 3 % off that of its file: cards of one name differ. Else empty.
std::string line_rate_note(const BoxFacts& box, const GpuSpec& gpu);

/// What was found, for people.
std::string render_box(const BoxFacts& box);
/// The head of a machine file to be filled in, for hardware/machines: facts as comments, and the
/// keys that follow from them.
std::string machine_file_draft(const BoxFacts& box, const std::string& gpu);
