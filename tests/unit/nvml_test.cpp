// What the driver's management library says, through a library of two made-up GPUs.

#include <catch2/catch.hpp>

#include "calibrate/measure/probe.hpp"
#include "tests/support/process.hpp"

TEST_CASE("the driver's facts are read, and what it does not say stays unknown") {
  const auto facts = ask_nvml(process::fake("nvml").c_str());
  REQUIRE(facts);
  CHECK(facts->driver == "580.95.05");
  REQUIRE(facts->gpus.size() == 2);
  const auto& g = facts->gpus[0];
  CHECK(g.address == "0000:1a:00.0");  // as /sys writes it
  CHECK(g.name == "NVIDIA RTX PRO 6000 Blackwell Server Edition");
  CHECK(g.sm_clock_mhz == 210);
  CHECK(g.sm_clock_max_mhz == 2430);
  CHECK(g.memory_clock_mhz == 405);
  CHECK(g.memory_clock_max_mhz == 12481);
  // 12,481 MHz x 2 x 64 bytes: the server card, where the workstation's 14,001 MHz give 1,792
  CHECK(g.line_rate_gb_per_s() == Approx(1597.568));
  CHECK(g.power_limit_mw == 600000);
  CHECK(g.memory_bytes == 97887ULL << 20);
  CHECK(g.link_gen == 1);
  CHECK(g.link_gen_max == 5);
  CHECK(g.link_width == 16);
  CHECK(g.link_width_max == 0);  // this driver lacks the function
  CHECK(g.virtualization == "passed through to this guest");
  CHECK(g.processes.size() == 5);
  CHECK(facts->gpus[1].power_limit_mw == 0);
  CHECK(facts->gpus[1].line_rate_gb_per_s() == 0);
  CHECK_FALSE(facts->gpus[1].processes_are_known);
  CHECK(facts->ancestor == std::vector<std::vector<std::string>>{{"X", "PHB"}, {"PHB", "X"}});
  CHECK(facts->peer == std::vector<std::vector<std::string>>{{"X", "NS"}, {"CNS", "X"}});
  CHECK_FALSE(facts->all_peers());
}

TEST_CASE("what the driver says stands in probe's report and decides peer access in its draft") {
  BoxFacts box;
  box.driver = ask_nvml(process::fake("nvml").c_str()).value();
  CHECK(render_box(box) ==
        "bare metal\n"
        "0 NUMA nodes, 0 NVIDIA GPUs\n"
        "driver 580.95.05\n"
        "  GPU0  0000:1a:00.0  NVIDIA RTX PRO 6000 Blackwell Server Edition\n"
        "        97887 MiB, power limit 600 W\n"
        "        SM 210 of 2430 MHz, memory 405 of 12481 MHz, PCIe 1 x16 of 5 x? now\n"
        "        memory of 512 bits, 1598 GB/s at its highest clock\n"
        "        passed through to this guest\n"
        "        in use: 4194305, 4194306, 4194307 and 2 more\n"
        "  GPU1  0000:1b:00.0  NVIDIA RTX PRO 6000 Blackwell Server Edition\n"
        "        97887 MiB, power limit ?\n"
        "        SM 210 of 2430 MHz, memory 405 of 12481 MHz, PCIe 1 x16 of 5 x? now\n"
        "        passed through to this guest\n"
        "        whether something computes on it is not known\n"
        "what a pair shares (PIX a switch, PXB switches, PHB a root complex, NODE, SYS nothing)\n"
        "        GPU0  GPU1\n"
        "  GPU0  X     PHB\n"
        "  GPU1  PHB   X\n"
        "peer access (reads and writes)\n"
        "        GPU0  GPU1\n"
        "  GPU0  X     NS\n"
        "  GPU1  CNS   X\n"
        "  CNS: the driver refuses the chipset; in a guest it sees an emulated one\n"
        "  NS: not supported\n"
        "note: a GPU is in use; what is measured meanwhile is wrong\n");
  CHECK(machine_file_draft(box, "rtx-pro-6000-server").find("\np2p: off\n") != std::string::npos);
  box.driver->peer = {{"X", "OK"}, {"OK", "X"}};
  CHECK(box.driver->all_peers());
  CHECK(machine_file_draft(box, "rtx-pro-6000-server").find("\np2p: on\n") != std::string::npos);
}

TEST_CASE("a card whose memory runs slower than its file says is told, another card is not") {
  BoxFacts box;
  GpuSpec gpu;
  gpu.id = "a-card";
  gpu.aliases = {"NVIDIA RTX PRO 6000 Blackwell Server Edition"};
  gpu.memory_bandwidth = BytesPerSecond(1.792e12);
  CHECK(line_rate_note(box, gpu).empty());  // no driver
  box.driver = ask_nvml(process::fake("nvml").c_str()).value();
  CHECK(line_rate_note(box, gpu).find("says 1792 GB/s of memory, this card's clock and bus give "
                                      "1598") != std::string::npos);
  gpu.memory_bandwidth = BytesPerSecond(1.6e12);
  CHECK(line_rate_note(box, gpu).empty());
  gpu.memory_bandwidth = BytesPerSecond(4.8e12);
  gpu.aliases = {"NVIDIA H200"};  // --gpu names another card than is there
  CHECK(line_rate_note(box, gpu).empty());
}

TEST_CASE("no management library, another one, and one that does not start are told apart") {
  CHECK(ask_nvml("libno-such-library.so.1").error() == "libno-such-library.so.1 cannot be loaded");
  CHECK(ask_nvml("libc.so.6").error() == "libc.so.6 is no NVML");
  setenv("FAKE_NVML_INIT", "9", 1);
  CHECK(ask_nvml(process::fake("nvml").c_str()).error() ==
        "NVML does not start (Driver Not Loaded)");
  unsetenv("FAKE_NVML_INIT");
}
