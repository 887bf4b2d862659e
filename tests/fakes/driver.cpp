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
int cuDeviceGet(int* out, int number) { return *out = 100 + number, 0; }
int cuDeviceGetAttribute(int* out, int which, int device) {
  constexpr int l2 = 38, sms = 16, major = 75;
  *out = which == l2 ? 128 << 20 : which == sms ? 188 : which == major ? 12 : 0;
  return device == 100 ? 0 : 1;  // the second one does not say
}
}
