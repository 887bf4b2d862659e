// The seam of the GPU: the driver is looked up when asked for, never linked, and the kernels will
// come as a plug-in, libceiling_cuda.so, loaded the same way. Until it exists this back end tells
// each situation apart and measures nothing.

#include <dlfcn.h>

#include <fmt/format.h>

#include "calibrate/measure/back_end.hpp"
#include "calibrate/measure/probe.hpp"

namespace {

const Registered<MeasuringBackEndKind> me(
    "cuda",
    {"the GPU of this machine, through the plug-in libceiling_cuda.so",
     [](const BackEndOptions&) -> tl::expected<std::unique_ptr<MeasuringBackEnd>, BackEndRefusal> {
       BackEndRefusal refusal{true, {}};
       std::string why = no_gpu_reason("libcuda.so.1");
       if (why.empty()) {
         void* plugin = dlopen("libceiling_cuda.so", RTLD_NOW | RTLD_LOCAL);
         if (!plugin) {
           why = fmt::format("the CUDA plug-in is missing ({})", dlerror());
         } else {
           dlclose(plugin);
           why = "this ceiling loads no CUDA plug-in yet";
         }
       }
       refusal.errors.error({}, why);
       return tl::unexpected(refusal);
     }});

}  // namespace
