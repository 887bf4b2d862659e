#include "models/cost/kernel_class.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace {

bool starts_with(std::string_view text, std::string_view head) {
  return text.substr(0, head.size()) == head;
}

}  // namespace

double table_bytes_per_element(std::string_view dtype) {
  if (dtype == "nvfp4") return 0.5625;  // 4 bits and one 8-bit scale per 16
  if (dtype == "mxfp4" || dtype == "w4a16_mxfp4" || dtype == "w4a8_mxfp4_mxfp8")
    return 0.53125;  // 4 bits and one 8-bit scale per 32
  if (starts_with(dtype, "int4") || starts_with(dtype, "w4")) return 0.515625;  // 16-bit per 128
  if (starts_with(dtype, "fp8") || starts_with(dtype, "int8") || starts_with(dtype, "w8") ||
      starts_with(dtype, "mxfp8"))
    return 1;
  if (dtype == "float32" || dtype == "fp32") return 4;
  return 2;
}

LawContext law_context(const GpuSpec& gpu, std::string_view arithmetic, std::string_view weights) {
  LawContext c;
  Precision p = Precision::bf16;
  if (arithmetic == "nvfp4")
    p = Precision::nvfp4;
  else if (starts_with(arithmetic, "fp8") || starts_with(arithmetic, "mxfp8"))
    p = Precision::fp8;
  c.peak = gpu.peak(p).count() * 1e-6;
  c.bandwidth = gpu.memory_bandwidth.count() * 1e-6;
  c.l2 = static_cast<double>(gpu.l2.count());
  c.sms = gpu.sm_count;
  c.weight_bytes = table_bytes_per_element(weights);
  return c;
}

double overlapped(double a, double b) { return std::sqrt(a * a + b * b); }

double reread_us(const LawContext& c, double bytes, double cold, double warm) {
  const double outside = std::clamp((bytes / c.l2 - 0.5) / 0.5, 0.0, 1.0);
  return bytes / c.bandwidth * (outside / cold + (1 - outside) / warm);
}

std::string_view word(const std::map<std::string, std::string>& words, const char* id) {
  const auto it = words.find(id);
  return it == words.end() ? std::string_view() : std::string_view(it->second);
}

double word_number(const std::map<std::string, std::string>& words, const char* id,
                   double otherwise) {
  const auto text = word(words, id);
  double value = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return std::isfinite(value) && value >= 0 ? value : otherwise;
}
