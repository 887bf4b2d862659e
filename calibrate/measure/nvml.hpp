#pragma once

#include <string>
#include <vector>

#include <tl/expected.hpp>

/// One GPU as the driver's management library (NVML) describes it. 0 and "": it does not say.
struct NvmlGpu {
  std::string address;  // "0000:01:00.0", as /sys writes it
  std::string name;     // "NVIDIA RTX PRO 6000 Blackwell Server Edition"
  unsigned sm_clock_mhz = 0, sm_clock_max_mhz = 0;
  unsigned memory_clock_mhz = 0, memory_clock_max_mhz = 0;
  unsigned memory_bus_bits = 0;
  unsigned power_limit_mw = 0;
  unsigned long long memory_bytes = 0;
  unsigned link_gen = 0, link_gen_max = 0, link_width = 0, link_width_max = 0;  // now: idle links
                                                                                // are slow
  std::string virtualization;        // "bare metal", "passed through to this guest", ...
  std::vector<unsigned> processes;   // that compute on it now
  bool processes_are_known = false;  // false: the list may be empty for want of an answer

  /// What its memory can move at most, in GB/s: two transfers a cycle of the highest clock over the
  /// whole bus. 0: not known.
  double line_rate_gb_per_s() const { return memory_clock_max_mhz * 2e-3 * memory_bus_bits / 8; }
};

/// What the driver says of a box. Matrices are square, a row per GPU.
struct NvmlFacts {
  std::string driver;  // "580.95.05"
  std::vector<NvmlGpu> gpus;
  /// What a pair shares in the PCI tree that this machine sees: PIX one switch, PXB several, PHB a
  /// root complex, NODE a NUMA node, SYS nothing; "X" for itself, "?".
  std::vector<std::vector<std::string>> ancestor;
  /// Whether the row may read and write the column's memory, in the words of nvidia-smi: OK, CNS,
  /// GNS, TNS, DR, NS, U; the worse of the two; "X" for itself, "?".
  std::vector<std::vector<std::string>> peer;

  /// Several GPUs and peer access between all of them.
  bool all_peers() const;
};

/// Asks NVML, which is opened at run time (a test names a library of its own). The error says why
/// there is no answer.
tl::expected<NvmlFacts, std::string> ask_nvml(const char* library);

/// What was said, for people, at most 100 columns wide for eight GPUs; why peers are refused in
/// words.
std::string render_nvml(const NvmlFacts& facts);
