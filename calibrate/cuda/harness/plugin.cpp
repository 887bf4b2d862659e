// The side of a plug-in that faces ceiling: one point at a time, exceptions turned into words. Each
// plug-in is this file, the harness and its kernels; CMake gives its name.

#include "calibrate/cuda/plugin.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "calibrate/cuda/harness/ranks.hpp"
#include "calibrate/cuda/harness/timer.hpp"
#include "calibrate/cuda/harness/versions.hpp"

namespace {

struct Open {
  Device device;
  std::unique_ptr<MeasuredKernel> kernel;
  std::unique_ptr<GraphTimer> timer;  // before the kernel it times, in death
};
std::unique_ptr<Open> now;

void say(PluginText out, const std::string& text) {
  if (out.room == 0) return;
  const std::size_t size = std::min(text.size(), out.room - 1);
  std::memcpy(out.data, text.data(), size);
  out.data[size] = 0;
}

// Runs `work`; what it throws becomes a state and its reason.
template <class Work>
int guarded(PluginText why, Work work) {
  say(why, "");
  try {
    return work();
  } catch (const Unsupported& e) {
    say(why, e.what());
    return plugin_unsupported;
  } catch (const std::exception& e) {
    say(why, e.what());
    return plugin_failed;
  }
}

int open(int device, PluginText why) {
  return guarded(why, [&] {
    now.reset();
    auto taken = std::make_unique<Open>();
    taken->device = take_device(device);
    now = std::move(taken);
    return plugin_ok;
  });
}

int facts(PluginText out) {
  std::string text;
  for (const auto& [library, version_of] : Registry<LibraryVersion>::entries())
    text += library + "=" + version_of() + "\n";
  if (int driver = 0; cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0)
    text += "cuda_driver=" + std::to_string(driver) + "\n";
  if (now)
    text += "device=" + now->device.name +
            "\nsm_clock_mhz=" + std::to_string(now->device.sm_clock_mhz) +
            "\nmemory_clock_mhz=" + std::to_string(now->device.memory_clock_mhz) + "\n";
  say(out, text);
  return plugin_ok;
}

std::string name_of(const char* kernel_class, const char* kernel_source) {
  return std::string(kernel_class) + " " + kernel_source;
}
int offers(const char* kernel_class, const char* kernel_source) {
  return KernelSources::find(name_of(kernel_class, kernel_source)) != nullptr;
}

int make_id(PluginText id, PluginText why) {
  return guarded(why, [&] {
    if (!rank_library()) throw Unsupported("this plug-in knows no ranks");
    say(id, rank_library()->make_id());
    return plugin_ok;
  });
}
int join(const char* id, int rank, int ranks, PluginText why) {
  return guarded(why, [&] {
    if (!rank_library()) throw Unsupported("this plug-in knows no ranks");
    rank_library()->join(id, rank, ranks);
    return plugin_ok;
  });
}

int prepare(const PluginPoint* p, PluginText why) {
  return guarded(why, [&]() -> int {
    if (!now) throw GpuError("no GPU was taken");
    now->timer.reset();
    now->kernel.reset();
    MeasuredPoint point{p->kernel_class,        p->kernel_source, {},
                        {p->x, p->x + p->axes}, p->pool_bytes,    p->launches};
    for (auto word = p->words; *word; word += 2) point.words[word[0]] = word[1];
    const auto* source = KernelSources::find(name_of(p->kernel_class, p->kernel_source));
    if (!source) throw Unsupported("this plug-in has no such kernel");
    now->kernel = source->make(point, now->device);
    if (const auto wrong = now->kernel->check(); !wrong.empty()) {
      now->kernel.reset();
      say(why, wrong);
      return plugin_unverified;
    }
    now->timer = std::make_unique<GraphTimer>(*now->kernel, now->device, point.launches);
    return plugin_ok;
  });
}

int measure(PluginSample* samples, int count, PluginText why) {
  const int state = guarded(why, [&] {
    if (!now || !now->timer) throw GpuError("no point was prepared");
    for (int i = 0; i < count; ++i) samples[i] = now->timer->sample();
    return plugin_ok;
  });
  return state == plugin_ok ? count : -1;
}

void close() { now.reset(); }

constexpr PluginApi api{
    plugin_abi, CEILING_PLUGIN_NAME, open, facts, offers, make_id, join, prepare, measure, close};

}  // namespace

extern "C" __attribute__((visibility("default"))) const PluginApi* ceiling_plugin() { return &api; }
