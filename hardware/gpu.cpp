#include "hardware/gpu.hpp"

#include "sim/base/assert.hpp"

Precision parse_precision(Section& section, const std::string& key, Precision fallback) {
  const auto word = section.word(key, {"bf16", "fp8", "nvfp4"}, std::string(name(fallback)));
  if (word == "fp8") return Precision::fp8;
  return word == "nvfp4" ? Precision::nvfp4 : Precision::bf16;
}

std::string_view name(Precision p) {
  switch (p) {
    case Precision::bf16:
      return "bf16";
    case Precision::fp8:
      return "fp8";
    case Precision::nvfp4:
      return "nvfp4";
  }
  SIM_UNREACHABLE("a precision without a name");
}

double bytes_per_element(Precision p) {
  switch (p) {
    case Precision::bf16:
      return 2;
    case Precision::fp8:
      return 1;
    case Precision::nvfp4:
      return 0.5625;
  }
  SIM_UNREACHABLE("a precision without a size");
}

FlopsPerSecond GpuSpec::peak(Precision p) const {
  return p == Precision::bf16 ? bf16 : p == Precision::fp8 ? fp8 : nvfp4;
}

GpuSpec read_gpu(const std::string& id, const Settings& file, Reading& reading) {
  Section s(file, "gpu", reading);
  GpuSpec gpu;
  gpu.id = id;
  s.required<int>("schema", between(1, 1));
  s.required<std::string>("source");
  gpu.name = s.required<std::string>("name");
  if (s.has("aliases")) gpu.aliases = s.words("aliases");
  gpu.architecture = s.required<std::string>("architecture");
  gpu.compute_capability = s.required<double>("compute_capability");
  gpu.sm_count = s.required<int>("sm_count", positive<int>());
  gpu.memory = s.required<Bytes>("memory", positive<Bytes>());
  gpu.l2 = s.required<Bytes>("l2", positive<Bytes>());
  gpu.memory_bandwidth = s.required<BytesPerSecond>("memory_bandwidth", plausible_bandwidth());
  gpu.bf16 = s.required<FlopsPerSecond>("bf16", plausible_peak());
  gpu.fp8 = s.optional<FlopsPerSecond>("fp8", gpu.bf16, plausible_peak());
  gpu.nvfp4 = s.optional<FlopsPerSecond>("nvfp4", gpu.fp8, plausible_peak());
  const Check<Hertz> plausible_clock = [](const Hertz& clock) {
    return clock < Hertz(100e6) || clock > Hertz(10e9) ? "must lie between 100 MHz and 10 GHz"
                                                       : std::string();
  };
  gpu.boost_clock = s.maybe<Hertz>("boost_clock", plausible_clock).value_or(Hertz());
  return gpu;
}
