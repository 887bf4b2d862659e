// `import topology`: laws over made-up boxes, then each form and its traps.

#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include "calibrate/import/topology/import_topology.hpp"
#include "tests/support/box_texts.hpp"
#include "tests/support/hardware.hpp"
#include "tests/support/process.hpp"

namespace {

using box_texts::Box;
using process::TemporaryFolder;

const std::string server = "rtx-pro-6000-server";

struct Text {
  std::string name, text;
};

Expected<ImportedBox> try_import(const std::vector<Text>& files, const std::string& gpu = server) {
  const TemporaryFolder folder;
  std::vector<std::string> paths;
  for (const auto& f : files) paths.push_back(folder.write(f.name, f.text));
  return import_topology(paths, gpu, "");
}

ImportedBox imported(const std::vector<Text>& files, const std::string& gpu = server) {
  auto box = try_import(files, gpu);
  if (!box) FAIL(box.error().render());
  return *box;
}

std::string refused(const std::vector<Text>& files, const std::string& gpu = server) {
  const auto box = try_import(files, gpu);
  REQUIRE_FALSE(box);
  return box.error().render();
}

// The machine that the file reads back as.
Machine read_back(const ImportedBox& box) {
  const TemporaryFolder folder;
  const auto file = load_machine_file(folder.write("box.yaml", machine_text(box)), {});
  if (!file) FAIL(file.error().render());
  Reading reading;
  Machine machine = read_machine("imported", file->settings, reading);
  if (!reading.errors.empty()) FAIL(reading.errors.render());
  return machine;
}

std::vector<std::string> classes_of(const Machine& m) {
  std::vector<std::string> out;
  for (const DeviceId a : m.topology.gpus())
    for (const DeviceId b : m.topology.gpus())
      if (a < b) out.emplace_back(name(m.topology.path_kind(a, b)));
  return out;
}

std::vector<std::string> classes_of(const Box& box) {
  std::vector<std::string> out;
  const auto& gpus = box.gpus();
  for (std::size_t i = 0; i < gpus.size(); ++i)
    for (std::size_t j = i + 1; j < gpus.size(); ++j)
      out.push_back(box_texts::path_class(gpus[i], gpus[j]));
  return out;
}

// What NCCL's dump leaves of the classes: host bridges of a NUMA node are one.
std::vector<std::string> without_bridges(std::vector<std::string> classes) {
  for (auto& c : classes)
    if (c == "NODE") c = "PHB";
  return classes;
}

bool has_note(const ImportedBox& box, const std::string& part) {
  for (const auto& note : box.draft.notes)
    if (note.find(part) != std::string::npos) return true;
  return false;
}

void check_says(const std::string& text, const std::vector<std::string>& parts) {
  for (const auto& part : parts) {
    INFO("expected: " << part << "\nin: " << text);
    CHECK(text.find(part) != std::string::npos);
  }
}

Box::Ports any_ports() {
  const auto few = [](int least, int most) {
    return static_cast<std::size_t>(*rc::gen::inRange(least, most + 1));
  };
  Box::Ports out(few(1, 2));
  for (auto& numa : out) {
    numa.resize(few(1, 2));
    for (auto& bridge : numa) {
      bridge.resize(few(1, 2));
      for (auto& port : bridge) {
        port.resize(few(0, 2));
        for (int& gpus : port) gpus = static_cast<int>(few(1, 2));
      }
    }
  }
  return out;
}

// Two NUMA nodes: a switch of two, a card alone on another bridge; one card.
using Port = std::vector<int>;
using Bridge = std::vector<Port>;
using Numa = std::vector<Bridge>;
const Box::Ports four_gpus = {Numa{Bridge{Port{2}}, Bridge{Port{}}}, Numa{Bridge{Port{}}}};
// One host bridge.
const Box::Ports two_ports = {Numa{Bridge{Port{}, Port{}}}};
const Box::Ports switch_of_two = {Numa{Bridge{Port{2}}}};
const Box::Ports switch_and_port = {Numa{Bridge{Port{2}, Port{}}}};

const Link& link_of(const Machine& m, const std::string& a) {
  const DeviceId id = m.topology.find(a);
  REQUIRE(id >= 0);
  for (const auto& l : m.topology.links())
    if (l.a == id) return l;
  FAIL("no link from " << a);
  return m.topology.links()[0];
}

std::string pairs_text(const Box& box, double on_same, double on_far, double latency_on,
                       double latency_off) {
  std::vector<std::string> buses;
  for (const auto& g : box.gpus()) buses.push_back(g.bus);
  const int n = static_cast<int>(buses.size());
  const auto near = [&](int i, int j) {
    return box_texts::path_class(box.gpus()[static_cast<std::size_t>(i)],
                                 box.gpus()[static_cast<std::size_t>(j)]) == "PIX";
  };
  return box_texts::devices(buses) +
         box_texts::matrix("Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)", "D\\D", n,
                           [&](int, int) { return 26.7; }) +
         box_texts::matrix("Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)",
                           "D\\D", n, [&](int i, int j) { return near(i, j) ? on_same : on_far; }) +
         box_texts::matrix("P2P=Disabled Latency Matrix (us)", "GPU", n,
                           [&](int, int) { return latency_off; }) +
         "\n" + box_texts::matrix("", "CPU", n, [&](int, int) { return 6.2; }) +
         box_texts::matrix("P2P=Enabled Latency (P2P Writes) Matrix (us)", "GPU", n,
                           [&](int, int) { return latency_on; });
}

}  // namespace

// ---- laws ----

TEST_CASE("every form gives GPUs the paths that the box has") {
  CHECK(rc::check("random trees of NUMA nodes, host bridges, ports and switches", [] {
    const Box box(any_ports());
    const auto wanted = classes_of(box);
    const Text topo{"topo.txt", box.topo_m()}, xml{"dump.xml", box.nccl_xml()},
        pci{"lspci.txt", box.lspci()};
    RC_ASSERT(classes_of(read_back(imported({topo}))) == wanted);
    RC_ASSERT(classes_of(read_back(imported({pci}))) == wanted);
    RC_ASSERT(classes_of(read_back(imported({xml}))) == without_bridges(wanted));
    RC_ASSERT(classes_of(read_back(imported({xml, topo}))) == wanted);
    RC_ASSERT(classes_of(read_back(imported({topo, pci, xml}))) == wanted);
  }));
}

TEST_CASE("the order of the files decides nothing but their listing") {
  const Box box(four_gpus);
  const Text topo{"topo.txt", box.topo_m()}, xml{"dump.xml", box.nccl_xml()},
      pci{"lspci.txt", box.lspci()};
  auto one = imported({topo, pci, xml}), other = imported({xml, pci, topo});
  one.draft.read = other.draft.read = {};
  CHECK(machine_text(one) == machine_text(other));
}

TEST_CASE("a pair is off exactly where the driver says so") {
  CHECK(rc::check("random pairs without peer access", [] {
    const Box box(four_gpus);
    std::vector<std::pair<int, int>> off;
    for (int i = 0; i < 4; ++i)
      for (int j = i + 1; j < 4; ++j)
        if (*rc::gen::arbitrary<bool>()) off.emplace_back(i, j);
    const auto box_read =
        read_back(imported({{"topo.txt", box.topo_m()}, {"p2p.txt", box.topo_p2p(off)}}));
    const auto& links = box_read.interconnect;
    RC_ASSERT(links.p2p_capable == (off.size() < 6));
    if (links.p2p_capable) RC_ASSERT(links.p2p_off == off);
  }));
}

TEST_CASE("no bytes crash the import, and what it takes can be read back") {
  const Box box(four_gpus);
  const std::vector<Text> samples = {
      {"topo.txt", box.topo_m()},          {"dump.xml", box.nccl_xml()},
      {"lspci.txt", box.lspci()},          {"guest.txt", box_texts::guest_lspci(4)},
      {"p2p.txt", box.topo_p2p({{0, 1}})}, {"pairs.txt", pairs_text(box, 56, 50, 0.4, 14)}};
  const auto holds = [](const std::vector<Text>& files) {
    const auto result = try_import(files);
    if (result) {
      RC_ASSERT(read_back(*result).gpu_count() >= 1);
    } else {
      RC_ASSERT(!result.error().empty());
    }
  };
  CHECK(rc::check("random bytes", [&] {
    holds({{"any.txt", *rc::gen::arbitrary<std::string>()}});
  }));
  CHECK(rc::check("a sample that is cut off", [&] {
    auto sample = *rc::gen::elementOf(samples);
    sample.text.resize(*rc::gen::inRange<std::size_t>(0, sample.text.size()));
    holds({sample});
  }));
  CHECK(rc::check("a sample with a few other bytes, beside a whole one", [&] {
    auto sample = *rc::gen::elementOf(samples);
    for (int i = *rc::gen::inRange(1, 6); i > 0; --i)
      sample.text[*rc::gen::inRange<std::size_t>(0, sample.text.size())] =
          *rc::gen::inRange<char>(1, 127);
    holds({sample, {"whole.txt", box.topo_m()}});
  }));
}

TEST_CASE("a matrix that lost its end is refused wherever it was cut") {
  const Box box(four_gpus);
  const auto topo = box.topo_m();
  const auto last_row = topo.find("\nGPU3"), header = topo.find('\n');
  for (auto cut = header + 1; cut < last_row + 5; ++cut) {
    INFO("cut after " << cut << " bytes");
    check_says(refused({{"topo.txt", topo.substr(0, cut)}}), {"the output was cut off"});
  }
}

// ---- topo -m and -p2p ----

TEST_CASE("topo -m: columns of NICs and affinities are not taken for GPUs") {
  const auto box = imported({{"topo.txt", Box(four_gpus).topo_m()}});
  const auto machine = read_back(box);
  CHECK(machine.gpu_count() == 4);
  CHECK(machine.topology.nearest_memory(0) >= 0);
  check_says(machine_text(box), {"gpu0..3: gpu", "between: [gpu0..1, switch0]", "gen: 5, lanes: 16",
                                 "numa0: numa_node", "kind: interconnect"});
  CHECK(has_note(box, "topo -m gives distances, not the tree"));
  CHECK(has_note(box, "whether GPUs reach each other"));
}

TEST_CASE("topo -m: eight NV18 are one NVSwitch of 18 links, four NV6 are a mesh") {
  const auto nvlinks = [](int gpus, const std::string& word) {
    std::string out = "\t";
    for (int i = 0; i < gpus; ++i) out += fmt::format("GPU{}\t", i);
    out += "CPU Affinity\tNUMA Affinity\n";
    for (int i = 0; i < gpus; ++i) {
      out += fmt::format("GPU{}\t", i);
      for (int j = 0; j < gpus; ++j) out += (i == j ? " X " : word) + "\t";
      out += fmt::format("0-47\t{}\n", i * 2 / gpus);
    }
    return out;
  };
  const auto eight = read_back(imported({{"topo.txt", nvlinks(8, "NV18")}}, "h200"));
  const DeviceId hub = eight.topology.find("nvswitch");
  REQUIRE(hub >= 0);
  int links = 0;
  for (const auto& l : eight.topology.links())
    if (l.b == hub) {
      ++links;
      CHECK(l.kind == "nvlink");
      CHECK(l.bandwidth.value.real() == Approx(450e9));  // 18 x 25 GB/s
    }
  CHECK(links == 8);
  CHECK(eight.topology.path_kind(0, 7) == PathKind::nvlink);
  CHECK(eight.interconnect.p2p_capable);
  const auto four = read_back(imported({{"topo.txt", nvlinks(4, "NV6")}}, "h200"));
  CHECK(four.topology.find("nvswitch") < 0);
  CHECK(four.topology.route(0, 3).size() == 1);
  // Blackwell's links carry twice as much: 18 x 50 GB/s.
  const auto b200 = read_back(imported({{"topo.txt", nvlinks(8, "NV18")}}, "b200"));
  CHECK(b200.topology.links().back().bandwidth.value.real() == Approx(900e9));
}

TEST_CASE("topo -m: every bad cell is named with its place") {
  auto text = Box(four_gpus).topo_m();
  text.replace(text.find("PIX"), 3, "PIY");
  text.replace(text.rfind("SYS\tSYS\tSYS"), 3, "SYZ");
  const auto errors = refused({{"topo.txt", text}});
  check_says(errors,
             {"topo.txt:2:", "'PIY' is no path between GPU0 and GPU1", "did you mean 'PIX'"});
  const auto odd = Box(four_gpus).topo_m();
  auto lopsided = odd;
  lopsided.replace(lopsided.find("GPU1\tPIX") + 5, 3, "PHB");
  check_says(refused({{"topo.txt", lopsided}}),
             {"topo.txt:3:6: error: GPU1 to GPU0 is PHB, but GPU0 to GPU1 is PIX"});
}

TEST_CASE("topo -m: classes that no tree has are refused") {
  const std::string text =
      "\tGPU0\tGPU1\tGPU2\nGPU0\t X \tPIX\tSYS\nGPU1\tPIX\t X \tPIX\nGPU2\tSYS\tPIX\t X \n";
  check_says(refused({{"topo.txt", text}}), {"no tree gives these classes"});
}

TEST_CASE("topo -p2p: one read or write that is not OK puts a pair off") {
  const Box box(four_gpus);
  const auto text = machine_text(imported({{"topo.txt", box.topo_m()},
                                           {"r.txt", box.topo_p2p({})},
                                           {"w.txt", box.topo_p2p({{1, 3}}, "DR")}}));
  check_says(text, {"p2p: {default: on, off: [[gpu1, gpu3]]}"});
  const auto none =
      imported({{"topo.txt", box.topo_m()},
                {"r.txt", box.topo_p2p({{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}}, "GNS")}});
  check_says(machine_text(none), {"p2p: off\n"});
  CHECK_FALSE(has_note(none, "whether GPUs reach each other"));
  // U is not known, which is not the same as off.
  CHECK(has_note(imported({{"topo.txt", box.topo_m()}, {"r.txt", box.topo_p2p({{0, 1}}, "U")}}),
                 "whether GPUs reach each other (P2P): taken as off in 1 pair"));
  // Atomics are another question.
  const auto atomics = "$ nvidia-smi topo -p2p a\n" + box.topo_p2p({{0, 1}}, "NS");
  check_says(
      machine_text(imported({{"all.txt", box.topo_m() + "\n" + box.topo_p2p({}) + atomics}})),
      {"p2p: on\n"});
}

// ---- NCCL's dump ----

TEST_CASE("dump: card, speeds and NVSwitch links are read") {
  const std::string xml =
      "<system version=\"1\">\n<cpu numaid=\"0\" affinity=\"ff\" arch=\"x86_64\">\n"
      "<pci busid=\"0000:16:00.0\" class=\"0x060400\" vendor=\"0x1000\" device=\"0xc030\" "
      "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">\n"
      "<pci busid=\"0000:18:00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x2335\" "
      "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"0\" sm=\"90\" rank=\"0\" "
      "gdr=\"1\">"
      "<nvlink target=\"0000:07:00.0\" count=\"5\" tclass=\"0x068000\"/>"
      "<nvlink target=\"0000:06:00.0\" count=\"13\" tclass=\"0x068000\"/></gpu></pci>\n</pci>\n"
      "<pci busid=\"0000:27:00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x2335\" "
      "link_speed=\"16.0 GT/s PCIe\" link_width=\"8\"><gpu dev=\"1\" sm=\"90\" rank=\"1\" "
      "gdr=\"1\">"
      "<nvlink target=\"0000:07:00.0\" count=\"18\" tclass=\"0x068000\"/></gpu></pci>\n"
      "</cpu>\n</system>\n";
  const auto box = imported({{"dump.xml", xml}}, "");
  CHECK(box.gpu == "h200");
  const auto m = read_back(box);
  const Link& slow = link_of(m, "gpu1");
  CHECK(slow.gen == 4);
  CHECK(slow.lanes == 8);
  // 16 GT/s x 8 lanes / 8 bits x 128/130 = 15.75 GB/s, times 53.4 / 63.
  CHECK(slow.bandwidth.value.real() == Approx(13.35e9).epsilon(0.002));
  CHECK(slow.bandwidth.basis == Provenance::assumed);
  CHECK(link_of(m, "gpu0").bandwidth.value.real() == Approx(53.4e9).epsilon(0.002));
  CHECK(m.topology.path_kind(0, 1) == PathKind::nvlink);
  CHECK(m.interconnect.p2p_capable);
}

TEST_CASE("dump: no speeds and virtual ports mean a guest") {
  std::string xml = Box(two_ports).nccl_xml();
  for (auto at = xml.find("32.0 GT/s PCIe"); at != std::string::npos;
       at = xml.find("32.0 GT/s PCIe"))
    xml.replace(at, 14, "");
  for (auto at = xml.find("link_width=\"16\""); at != std::string::npos;
       at = xml.find("link_width=\"16\""))
    xml.replace(at, 15, "link_width=\"0\"");
  const auto box = imported({{"dump.xml", xml}});
  CHECK(box.draft.guest);
  CHECK(has_note(box, "no GPU's link has a speed"));
  check_says(machine_text(box), {"runs_in: kvm_guest", "host: kvm-guest", "vroot0"});
}

TEST_CASE("dump: damage is named with its place") {
  const auto xml = Box(four_gpus).nccl_xml();
  check_says(refused({{"dump.xml", xml.substr(0, xml.size() / 2)}}),
             {"this is no whole XML", "the dump was cut off"});
  auto speed = xml;
  speed.replace(speed.find("32.0 GT/s"), 4, "33.0");
  check_says(refused({{"dump.xml", speed}}),
             {"dump.xml:3:", "'33.0 GT/s PCIe' is no speed of a link"});
  auto twice = xml;
  twice.replace(twice.find("dev=\"0\""), 7, "dev=\"9\"");
  CHECK(try_import({{"dump.xml", twice}}));  // dev is not what identifies a GPU
  const auto first = xml.find("busid=\"0000:03"), second = xml.find("busid=\"0000:04");
  REQUIRE(first != std::string::npos);
  REQUIRE(second != std::string::npos);
  twice.replace(second, 14, "busid=\"0000:03");
  check_says(refused({{"dump.xml", twice}}), {"the device 0000:03:00.0 appears twice"});
  std::string deep = "<system>";
  for (int i = 0; i < 100000; ++i) deep += "<cpu>";
  check_says(refused({{"dump.xml", deep}}), {"nested deeper than any dump"});
  auto hosts = xml;
  hosts.replace(hosts.rfind("0x1f"), 4, "0x2f");
  check_says(refused({{"dump.xml", hosts}}), {"spans 2 hosts"});
}

// ---- lspci ----

TEST_CASE("lspci: capability and not the sleeping state, redirecting switches") {
  const Box made(four_gpus);
  const auto plain = read_back(imported({{"lspci.txt", made.lspci()}}, ""));
  CHECK(link_of(plain, "gpu0").gen == 5);  // LnkSta says 2.5GT/s (downgraded)
  auto redirecting = made.lspci();
  for (auto at = redirecting.find("ReqRedir-"); at != std::string::npos;
       at = redirecting.find("ReqRedir-"))
    redirecting.replace(at, 9, "ReqRedir+");
  const auto box = imported({{"lspci.txt", redirecting}}, "");
  CHECK(box.gpu == server);  // from the name in brackets
  check_says(machine_text(box), {"switch0: {kind: pcie_switch, acs_redirect: on}"});
  CHECK_FALSE(has_note(box, "ACS"));
}

TEST_CASE("lspci: the slower end of a link decides, and lanes that are missing are missing") {
  auto text = Box(two_ports).lspci();
  text.replace(text.find("Speed 32GT/s"), 12, "Speed 16GT/s");  // the first root port
  const auto at = text.rfind("LnkSta:\tSpeed 2.5GT/s (downgraded), Width x16");
  text.replace(at, 45, "LnkSta:\tSpeed 2.5GT/s (downgraded), Width x8 ");
  const auto box = imported({{"lspci.txt", text}});
  const auto m = read_back(box);
  CHECK(link_of(m, "gpu0").gen == 4);
  CHECK(link_of(m, "gpu1").gen == 5);
  CHECK(link_of(m, "gpu1").lanes == 8);
  CHECK(has_note(box, "runs 8 of 16 lanes"));
}

TEST_CASE("lspci: a guest's tree is the hypervisor's, and the card's own speed is kept") {
  const auto box = imported({{"lspci.txt", box_texts::guest_lspci(8)}}, "");
  CHECK(box.gpu == server);
  CHECK(box.draft.guest);
  const auto m = read_back(box);
  CHECK(m.guest);
  CHECK_FALSE(m.interconnect.p2p_capable);
  const Link& l = link_of(m, "gpu0");
  CHECK(l.gen == 4);  // what NCCL sees
  CHECK(l.bandwidth.value.real() == Approx(53.4e9).epsilon(0.002));
  for (const auto& c : classes_of(m)) CHECK(c == "PHB");
  for (const char* part : {"the real tree", "link speeds", "whether GPUs reach each other",
                           "staging through guest memory", "host costs"}) {
    INFO(part);
    CHECK(has_note(box, part));
  }
}

TEST_CASE("lspci: what cannot be is refused") {
  const Box box(four_gpus);
  check_says(refused({{"lspci.txt", box.lspci() + box.lspci()}}), {"appears twice"});
  auto cut = box.lspci();
  cut.replace(cut.find("secondary="), 12, "secondary=zz");
  check_says(refused({{"lspci.txt", cut}}), {"lspci.txt:6:", "has no secondary bus"});
  check_says(refused({{"lspci.txt",
                       "00:00.0 Host bridge: X\n\tLnkCap:\tPort #0, Speed 8GT/s, "
                       "Width x4\n"}}),
             {"there is no NVIDIA GPU in this listing"});
  // A bridge whose bus lies behind itself must not be walked for ever.
  const std::string round =
      "01:00.0 PCI bridge: A\n\tBus: primary=01, secondary=02, subordinate=02, sec-latency=0\n"
      "02:00.0 PCI bridge: B\n\tBus: primary=02, secondary=01, subordinate=01, sec-latency=0\n"
      "02:01.0 3D controller: NVIDIA Corporation X\n";
  check_says(refused({{"lspci.txt", round}}), {"go round"});
}

// ---- p2pBandwidthLatencyTest ----

TEST_CASE("pairs: ports and uplinks carry what was timed, sockets keep their guess") {
  const Box box(four_gpus);
  const auto import =
      imported({{"lspci.txt", box.lspci()}, {"p.txt", pairs_text(box, 56, 50, 0.4, 14)}});
  const auto m = read_back(import);
  CHECK(link_of(m, "gpu0").bandwidth.value.real() == Approx(56e9));
  CHECK(link_of(m, "gpu0").bandwidth.basis == Provenance::measured);
  CHECK(link_of(m, "gpu0").bandwidth.source == "p.txt");
  CHECK(link_of(m, "switch0").bandwidth.value.real() == Approx(50e9));
  for (const auto& l : m.topology.links())
    if (l.kind == "interconnect") {
      CHECK(l.bandwidth.value.real() == Approx(192e9));
      CHECK(l.bandwidth.basis == Provenance::assumed);
    }
  CHECK(m.interconnect.p2p_capable);
  check_says(machine_text(import),
             {"PIX pairs one way: 56 GB/s", "pairs without peer access (staged): 26.7 GB/s"});
}

TEST_CASE("pairs: both ways together become what a port carries in duplex") {
  const Box box(four_gpus);
  const auto text = pairs_text(box, 56, 50, 0.4, 14) +
                    box_texts::matrix("Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)", "D\\D",
                                      4, [](int i, int j) { return i + j == 1 ? 102.0 : 97.0; });
  const auto m = read_back(imported({{"lspci.txt", box.lspci()}, {"p.txt", text}}));
  REQUIRE(link_of(m, "gpu0").duplex);
  CHECK(link_of(m, "gpu0").duplex->real() == Approx(102e9));
  CHECK(link_of(m, "gpu2").duplex->real() == Approx(97e9));
  CHECK_FALSE(link_of(m, "switch0").duplex);
}

TEST_CASE("pairs: a copy that is no different with peer access has none") {
  const Box box(four_gpus);
  const auto off = imported({{"lspci.txt", box.lspci()},
                             {"p2p.txt", box.topo_p2p({})},
                             {"p.txt", pairs_text(box, 26.5, 26.5, 13.5, 14)}});
  check_says(machine_text(off), {"p2p: off\n"});
  CHECK(has_note(off, "staged through the host, taken as off"));
  // and then says nothing of the links
  CHECK(link_of(read_back(off), "gpu0").bandwidth.basis == Provenance::assumed);
}

TEST_CASE("pairs: another order of GPUs is matched by bus id") {
  const Box box(switch_and_port);
  std::vector<std::string> buses;
  for (const auto& g : box.gpus()) buses.insert(buses.begin(), g.bus);  // backwards
  const auto text =
      box_texts::devices(buses) +
      box_texts::matrix("Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)", "D\\D",
                        3, [](int i, int j) { return i + j == 3 ? 55.0 : 40.0; }) +
      box_texts::matrix("Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)", "D\\D", 3,
                        [](int, int) { return 20.0; });
  const auto import = imported({{"lspci.txt", box.lspci()}, {"p.txt", text}});
  const auto m = read_back(import);
  // Devices 1 and 2 there are gpu1 and gpu0 here: the pair on the switch.
  CHECK(link_of(m, "gpu0").bandwidth.value.real() == Approx(55e9));
  CHECK(link_of(m, "gpu1").bandwidth.value.real() == Approx(55e9));
  CHECK(link_of(m, "gpu2").bandwidth.value.real() == Approx(40e9));
  CHECK(has_note(import, "another order"));
}

TEST_CASE("pairs: damage is named with its place") {
  const Box box(four_gpus);
  auto text = pairs_text(box, 56, 50, 0.4, 14);
  text.replace(text.find("56.00"), 5, "56,00");
  check_says(refused({{"lspci.txt", box.lspci()}, {"p.txt", text}}),
             {"p.txt:", "'56,00' is no bandwidth or latency"});
  check_says(refused({{"lspci.txt", box.lspci()}, {"p.txt", pairs_text(box, 56, 50, 1e6, 14)}}),
             {"'1000000.00' is no bandwidth or latency"});
  check_says(refused({{"p.txt", "P2P=Enabled Latency (P2P Writes) Matrix (us)\n"}}),
             {"no matrix follows this heading"});
}

// ---- several files ----

TEST_CASE("files of different boxes are refused, and every error is said at once") {
  const Box four(four_gpus), two(switch_of_two);
  check_says(refused({{"a.txt", four.topo_m()}, {"b.txt", two.topo_p2p({})}}),
             {"has 2 GPUs", "has 4", "give the files of one box"});
  auto text = four.topo_m();
  text.replace(text.find("PIX"), 3, "PIY");
  const auto xml = four.nccl_xml();
  const auto errors = refused(
      {{"topo.txt", text}, {"dump.xml", xml.substr(0, xml.size() / 2)}, {"readme.txt", "hello\n"}});
  check_says(errors, {"'PIY'", "no whole XML", "nothing in this file describes a box"});
  check_says(refused({{"p2p.txt", four.topo_p2p({})}}),
             {"no file says how the GPUs are connected"});
  check_says(refused({{"topo.txt", four.topo_m()}}, ""), {"do not say which GPU", "--gpu NAME"});
  check_says(refused({{"topo.txt", four.topo_m()}}, "rtx-pro-6000-servr"), {"rtx-pro-6000-server"});
}

TEST_CASE("a tree wins over the classes of topo -m, and says so") {
  const Box box(four_gpus);
  auto topo = box.topo_m();
  topo.replace(topo.find("PIX"), 3, "PHB");
  topo.replace(topo.find("PIX"), 3, "PHB");
  const auto import = imported({{"topo.txt", topo}, {"lspci.txt", box.lspci()}});
  CHECK(classes_of(read_back(import))[0] == "PIX");
  CHECK(has_note(import, "differs from the tree in 1 pair"));
}
