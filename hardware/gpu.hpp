#pragma once

#include <string>
#include <vector>

#include "sim/base/settings.hpp"

/// How numbers are stored: in weights, in the KV cache, or on their way through a GEMM.
enum class Precision { bf16, fp8, nvfp4 };

Precision parse_precision(Section& section, const std::string& key, Precision fallback);
std::string_view name(Precision p);

/// Bytes of one stored element. NVFP4 is four bits plus one FP8 scale per 16: 0.5625.
double bytes_per_element(Precision p);

/// One GPU model, as its file in hardware/gpus says.
struct GpuSpec {
  std::string id;                    // name of the file
  std::string name;                  // for people
  std::vector<std::string> aliases;  // names that tables of measurements use for it
  std::string architecture;
  double compute_capability = 0;
  int sm_count = 0;
  Bytes memory;  // as nvidia-smi reports it (memory.total)
  Bytes l2;
  BytesPerSecond memory_bandwidth;  // line rate
  FlopsPerSecond bf16, fp8, nvfp4;  // dense peaks
  Hertz boost_clock;                // of the SMs at those peaks; 0 where the file does not say

  FlopsPerSecond peak(Precision p) const;
};

GpuSpec read_gpu(const std::string& id, const Settings& file, Reading& reading);
