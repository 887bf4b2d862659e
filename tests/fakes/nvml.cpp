// A management library of a guest with two GPUs, of which the second is one that an old driver says
// little about. FAKE_NVML_INIT: the code that nvmlInit returns.

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

int devices[2];
int index_of(void* device) { return static_cast<int>(static_cast<int*>(device) - devices); }
constexpr int not_supported = 3;

}  // namespace

extern "C" {

int nvmlInit_v2() {
  const char* code = std::getenv("FAKE_NVML_INIT");
  return code ? std::atoi(code) : 0;
}
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int code) { return code == 9 ? "Driver Not Loaded" : "Unknown Error"; }
int nvmlSystemGetDriverVersion(char* out, unsigned size) {
  std::snprintf(out, size, "580.95.05");
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* out) { return *out = 2, 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void** out) { return *out = &devices[i], 0; }
int nvmlDeviceGetName(void*, char* out, unsigned size) {
  std::snprintf(out, size, "NVIDIA RTX PRO 6000 Blackwell Server Edition");
  return 0;
}
struct Pci {
  char legacy[16];
  unsigned domain, bus, device, ids, subsystem;
  char address[32];
};
int nvmlDeviceGetPciInfo_v3(void* device, Pci* out) {
  std::snprintf(out->address, sizeof out->address, "00000000:%02X:00.0", 0x1a + index_of(device));
  return 0;
}
struct Memory {
  unsigned long long total, free, used;
};
int nvmlDeviceGetMemoryInfo(void*, Memory* out) { return out->total = 97887ULL << 20, 0; }
int nvmlDeviceGetClockInfo(void*, unsigned type, unsigned* out) {
  return *out = type == 1 ? 210 : 405, 0;
}
int nvmlDeviceGetMaxClockInfo(void*, unsigned type, unsigned* out) {
  return *out = type == 1 ? 2430 : 12481, 0;
}
int nvmlDeviceGetMemoryBusWidth(void* device, unsigned* out) {
  return *out = 512, index_of(device) ? not_supported : 0;
}
int nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* out) {
  return *out = 600000, index_of(device) ? not_supported : 0;
}
int nvmlDeviceGetCurrPcieLinkGeneration(void*, unsigned* out) { return *out = 1, 0; }
int nvmlDeviceGetMaxPcieLinkGeneration(void*, unsigned* out) { return *out = 5, 0; }
int nvmlDeviceGetCurrPcieLinkWidth(void*, unsigned* out) { return *out = 16, 0; }
// nvmlDeviceGetMaxPcieLinkWidth is missing
int nvmlDeviceGetVirtualizationMode(void*, unsigned* out) { return *out = 1, 0; }
struct Process {
  unsigned id;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
};
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, Process* out) {
  if (index_of(device)) return not_supported;
  for (unsigned i = 0; i < 5; ++i) out[i].id = 4194304 + 1 + i;  // above every real one
  return *count = 5, 0;
}
int nvmlDeviceGetTopologyCommonAncestor(void*, void*, unsigned* out) { return *out = 30, 0; }
int nvmlDeviceGetP2PStatus(void* from, void*, unsigned capability, unsigned* out) {
  // the first may read, not write; the second neither
  return *out = index_of(from) == 0 ? (capability == 1 ? 5 : 0) : 1, 0;
}
}
