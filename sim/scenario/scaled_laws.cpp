#include "sim/scenario/scaled_laws.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/base/units.hpp"

namespace {

constexpr double spread_least = 1.25;

struct Ratios {
  double bandwidth = 1, clock = 1;
  double bf16 = 1, fp8 = 1, nvfp4 = 1;
  double sms = 1;

  double peak(std::string_view precision) const {
    return precision == "fp8" ? fp8 : precision == "nvfp4" ? nvfp4 : bf16;
  }
  /// How far the ratio of two times can grow or shrink when start-up stays, and bytes, arithmetic
  /// and cycles move each by its own: the parts that a composed law takes its mean of.
  double apart() const {
    const auto [least, most] = std::minmax({1.0, bandwidth, bf16, fp8, clock, clock * sms});
    return most / least;
  }
};

// `what` is the precision that the numbers below stand for.
void scale(Settings& laws, const Settings& node, const std::string& path, std::string_view what,
           const Ratios& r) {
  for (const auto& entry : node.entries()) {
    const std::string here = path + "." + entry.key;
    if (entry.value.is_map()) {
      if (entry.key != "scale")
        scale(laws, entry.value, here,
              entry.key == "bf16" || entry.key == "fp8" || entry.key == "nvfp4"
                  ? std::string_view(entry.key)
                  : what,
              r);
      continue;
    }
    double factor = 1;
    if (parse<BytesPerSecond>(entry.value.text()))
      factor = r.bandwidth;
    else if (parse<FlopsPerSecond>(entry.value.text()))
      factor = r.peak(what);
    else if (entry.key == "wave_per_k")
      factor = r.sms / r.peak(what);  // a tile on one SM
    else if (entry.key.starts_with("per_") || entry.key == "walk" || entry.key == "walk_most")
      factor = 1 / r.clock;
    if (factor != 1)
      laws.set(here, Settings::scalar(scale_text(entry.value.text(), factor), entry.value.where()));
  }
}

}  // namespace

void scale_laws(Settings& laws, const GpuSpec& measured, const GpuSpec& gpu) {
  Ratios r;
  r.bandwidth = gpu.memory_bandwidth / measured.memory_bandwidth;
  r.bf16 = gpu.bf16 / measured.bf16;
  r.fp8 = gpu.fp8 / measured.fp8;
  r.nvfp4 = gpu.nvfp4 / measured.nvfp4;
  r.sms = static_cast<double>(gpu.sm_count) / measured.sm_count;
  if (gpu.boost_clock.count() > 0 && measured.boost_clock.count() > 0)
    r.clock = gpu.boost_clock / measured.boost_clock;
  const Settings before = laws;
  for (const auto& kernel : before.entries())
    for (const auto& law : kernel.value.entries()) {
      const std::string path = kernel.key + "." + law.key;
      scale(laws, law.value, path, kernel.key == "moe" ? "nvfp4" : "bf16", r);
      if (!law.value.is_map()) continue;
      const auto& where = law.value.where();
      if (const Settings* s = law.value.find("scale"); s && s->is_map()) {
        laws.set(path + ".scale.basis", Settings::scalar("assumed", where));
        double wide = spread_least;
        if (const Settings* spread = s->find("spread"))
          wide = std::max(wide, parse<double>(spread->text()).value_or(1) *
                                    (law.value.find("measured") ? r.apart() : 1));
        laws.set(path + ".scale.spread", Settings::scalar(fmt::format("{}", wide), where));
      }
      if (const Settings* source = law.value.find("source"))
        laws.set(path + ".source",
                 Settings::scalar(source->text() + fmt::format("; measured on {}, scaled to {}",
                                                               measured.name, gpu.name),
                                  source->where()));
    }
}
