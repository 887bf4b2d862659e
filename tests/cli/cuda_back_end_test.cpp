// The GPU back end on a driver and plug-ins that only pretend: how points find their plug-in, what
// a missing one costs, ranks and settings in processes of their own.

#include <catch2/catch.hpp>

#include "calibrate/measure/raw_file.hpp"
#include "tests/support/process.hpp"

namespace {

namespace fs = std::filesystem;
using process::Variable;

// A box with a driver that finds two devices; `plugins` names those that are there.
struct FakeBox {
  explicit FakeBox(const std::vector<std::string>& plugins)
      : path("LD_LIBRARY_PATH", folder.path().string()),
        where("CEILING_PLUGINS", folder.path().string()) {
    fs::create_symlink(process::fake("driver"), folder.path() / "libcuda.so.1");
    for (const auto& name : plugins)
      fs::create_symlink(process::fake("plugin"), folder.path() / ("libceiling_" + name + ".so"));
  }
  process::Outcome measure(std::vector<std::string> more = {}) const {
    std::vector<std::string> words{
        "calibrate", "run",          "--backend", "cuda",  "--gpu", "rtx-pro-6000-server",
        "--model",   "llama-3.1-8b", "--profile", "smoke", "-o",    raw()};
    words.insert(words.end(), more.begin(), more.end());
    return process::run(words);
  }
  std::string raw() const { return (folder.path() / "raw.jsonl").string(); }

  process::TemporaryFolder folder;
  Variable path, where, devices{"FAKE_DEVICES", "2"}, init{"FAKE_CUINIT", "0"};
};

void check_says(const std::string& text, const std::string& part) {
  INFO("expected: " << part << "\nin: " << text);
  CHECK(text.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("points go to the plug-in that has their kernel, collectives to ranks of it") {
  const FakeBox box({"gemm"});
  const auto refused = box.measure({"--tensor-parallel", "2"});
  CHECK(refused.code == 2);
  check_says(refused.err, "the plan is for rtx-pro-6000-server, the back end measures fake");
  CHECK(!fs::exists(box.raw()));

  const auto o = box.measure({"--tensor-parallel", "2", "--accept-changes"});
  INFO(o.err);
  REQUIRE(o.code == 0);
  const auto file = read_raw(box.raw());
  if (!file) FAIL(file.error().render());
  CHECK(file->header.device.device == "fake");
  std::size_t collectives = 0;
  for (const auto& p : file->points) {
    INFO(p.key << ": " << p.reason);
    // sample i takes x[0] + i, and 100.25 more on rank i % ranks: of two ranks one is always slow
    REQUIRE(p.samples.size() >= samples_min);
    const bool several = p.kernel_class == "nccl";
    collectives += several;
    CHECK(p.samples[0].us == Approx(p.x[0] + 100.25).epsilon(1e-6));
    CHECK(p.samples[3].us == Approx(p.x[0] + 3 + 100.25).epsilon(1e-6));
    CHECK(p.samples[0].sm_clock_mhz == 1000);
  }
  CHECK(collectives == plan_grid("smoke")->message_bytes.size());
}

TEST_CASE("without plug-ins there is no GPU to measure on, and the way out is named") {
  const FakeBox none({});
  const auto o = none.measure();
  CHECK(o.code == 3);
  CHECK(process::lines(o.err).size() == 1);
  check_says(o.err, "no GPU: there are no plug-ins in " + none.folder.path().string());
  CHECK(!fs::exists(none.raw()));

  const FakeBox broken({});
  broken.folder.write("libceiling_gemm.so", "no library\n");
  const auto why = broken.measure();
  CHECK(why.code == 3);
  CHECK(process::lines(why.err).size() == 1);
  check_says(why.err, "the plug-in gemm cannot be loaded: ");
  check_says(why.err, "libceiling_gemm.so: ");  // the loader's own words

  const FakeBox other({});
  fs::create_symlink(process::fake("nvml"), other.folder.path() / "libceiling_gemm.so");
  check_says(other.measure().err, "libceiling_gemm.so is no plug-in of ceiling");
}

TEST_CASE("a plug-in whose own library is missing says so in the loader's words") {
  const FakeBox alone({});
  const auto orphan = [](const FakeBox& box, const std::string& name) {
    fs::create_symlink(process::fake("orphan"), box.folder.path() / ("libceiling_" + name + ".so"));
  };
  orphan(alone, "attention");
  const auto o = alone.measure();
  CHECK(o.code == 3);
  CHECK(process::lines(o.err).size() == 1);
  check_says(o.err,
             "no GPU: the plug-in attention cannot be loaded: libceiling_no_such_library.so.9: "
             "cannot open shared object file");
  CHECK(!fs::exists(alone.raw()));
}

TEST_CASE("probe has NCCL write its view of the box, whole or not at all") {
  const FakeBox box({"comm"});
  box.folder.write("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
  box.folder.write("sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n");
  const auto file = (box.folder.path() / "nccl.xml").string();
  const std::vector<std::string> words{
      "calibrate", "probe", "--root", box.folder.path().string(), "--nccl-topology", file};
  const auto o = process::run(words);
  INFO(o.err);
  CHECK(o.code == 0);
  check_says(o.out, "CUDA device 0: compute capability 12.0, 188 SMs, 128 MiB of L2");
  check_says(o.out, "CUDA device 1: the driver says no more of it");
  check_says(o.out, "NCCL's view of 2 GPUs: " + file);
  CHECK(process::read_text(file) == "<system version=\"1\"></system>\n");
  CHECK(!fs::exists(file + ".part"));

  fs::remove(file);
  {
    const Variable join("FAKE_JOIN", "1");  // when rank 0 has written
    const auto apart = process::run(words);
    CHECK(apart.code == 2);
    check_says(apart.err, "NCCL does not start: ");
    CHECK(!fs::exists(file));
    CHECK(!fs::exists(file + ".part"));
  }
  const FakeBox none({});
  const auto refused = process::run(words);
  CHECK(refused.code == 2);
  check_says(refused.err, "the plug-in comm is in none of " + none.folder.path().string());
  CHECK(!fs::exists(file));
}
