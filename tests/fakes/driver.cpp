// A CUDA driver that starts as FAKE_CUINIT says (a CUresult) and finds FAKE_DEVICES devices.

#include <cstdlib>

namespace {
int number(const char* name) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : 0;
}
}  // namespace

extern "C" {
int cuInit(unsigned) { return number("FAKE_CUINIT"); }
int cuDeviceGetCount(int* out) { return *out = number("FAKE_DEVICES"), 0; }
}
