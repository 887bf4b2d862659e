// Each way of having no GPU: one line that says which, exit 3, nothing measured.

#include <catch2/catch.hpp>

#include "calibrate/measure/probe.hpp"
#include "tests/support/process.hpp"

namespace {

namespace fs = std::filesystem;
using process::Variable;

// What `calibrate run` says where `library` is the driver.
std::string said_with(const std::string& library) {
  const process::TemporaryFolder folder;
  fs::create_symlink(library, folder.path() / "libcuda.so.1");
  const Variable path("LD_LIBRARY_PATH", folder.path().string());
  const auto raw = folder.path() / "raw.jsonl";
  const auto o = process::run({"calibrate", "run", "--backend", "cuda", "--gpu",
                               "rtx-pro-6000-server", "-o", raw.string()});
  CHECK(o.code == 3);
  CHECK(o.out.empty());
  CHECK_FALSE(fs::exists(raw));
  const auto lines = process::lines(o.err);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("; use calibrate plan") != std::string::npos);
  return lines[0].substr(0, lines[0].find("; use calibrate plan"));
}

}  // namespace

TEST_CASE("a library that is no driver, or is not there, is no GPU") {
  CHECK(no_gpu_reason("libno-such-driver.so.1") ==
        "no NVIDIA driver (libno-such-driver.so.1 cannot be loaded)");
  CHECK(no_gpu_reason("libc.so.6") == "libc.so.6 is no CUDA driver");
  const process::TemporaryFolder folder;  // a real driver further on in the search must not count
  CHECK(said_with(folder.write("text.so", "no library\n")) ==
        "no GPU: no NVIDIA driver (libcuda.so.1 cannot be loaded)");
  CHECK(said_with(process::fake("nvml")) == "no GPU: libcuda.so.1 is no CUDA driver");
}

TEST_CASE("a driver that does not start or finds nothing says why") {
  const auto driver = process::fake("driver");
  unsetenv("CUDA_VISIBLE_DEVICES");
  const std::pair<std::string, std::string> cases[] = {
      {"34", "libcuda.so.1 is the toolkit's stub, not a driver"},
      {"100", "the driver finds no device"},
      {"802", "the system is not ready (is the fabric manager running?)"},
      {"803", "the driver's library does not match its kernel module"},
      {"999", "the driver does not start (cuInit says 999)"},
      {"0", "the driver finds no device"}};  // it starts, and counts none
  for (const auto& [code, reason] : cases) {
    const Variable init("FAKE_CUINIT", code);
    CHECK(said_with(driver) == "no GPU: " + reason);
  }
  const Variable visible("CUDA_VISIBLE_DEVICES", "7"), init("FAKE_CUINIT", "100");
  CHECK(said_with(driver) == "no GPU: the driver finds no device (CUDA_VISIBLE_DEVICES is '7')");
}

TEST_CASE("a driver with a device is a GPU") {
  const Variable devices("FAKE_DEVICES", "2");
  CHECK(no_gpu_reason(process::fake("driver").c_str()).empty());
  const auto gpus = find_gpus(process::fake("driver").c_str());
  REQUIRE(gpus);
  REQUIRE(gpus->size() == 2);
  CHECK(gpus->at(0).compute_major == 12);
  CHECK(gpus->at(0).sm_count == 188);
  CHECK(gpus->at(0).l2_bytes == 128 << 20);
  CHECK(gpus->at(1).sm_count == 0);
}

TEST_CASE("the stub of a CUDA toolkit is not taken for a driver") {
  const auto stub = process::fake("stub");
  if (!fs::exists(stub)) {
    WARN("there is no CUDA toolkit here");
    return;
  }
  CHECK(no_gpu_reason(stub.c_str()) == stub + " is the toolkit's stub, not a driver");
  CHECK(said_with(stub) == "no GPU: libcuda.so.1 is the toolkit's stub, not a driver");
}
