// Machine files: what they say of P2P, staging and the host, and the names they go by.

#include <cctype>
#include <map>

#include <catch2/catch.hpp>

#include "sim/scenario/data.hpp"
#include "tests/support/hardware.hpp"

namespace {

/// A small machine with further lines.
Machine machine(const std::string& lines, Reading& reading, const std::string& p2p = "p2p: on") {
  const Settings file =
      yaml("schema: 1\nname: x\ngpu: y\nreserved: 1 GiB\n" + p2p + "\n" + lines +
           "host: {kernel_launch: 4 us, graph_launch: 10 us, graph_launch_per_node: 1 us,\n"
           "  virtualisation: 1, request_path: 5 ms, response_path: 3 ms}\n"
           "topology:\n"
           "  devices: {gpu0..3: gpu, r: root_complex, m: host_memory}\n"
           "  links:\n"
           "    - {between: [gpu0..3, r], bandwidth: 50 GB/s, latency: 400 ns}\n"
           "    - {between: [r, m], kind: memory, bandwidth: 100 GB/s}\n");
  return read_machine("x", file, reading);
}

}  // namespace

TEST_CASE("P2P holds for all pairs, for none, or for all but some") {
  Reading reading;
  CHECK(machine("", reading).interconnect.p2p_capable);
  CHECK_FALSE(machine("", reading, "p2p: off").interconnect.p2p_capable);
  const Machine m = machine("", reading, "p2p: {default: on, off: [[gpu0, gpu3], [gpu2, gpu1]]}");
  CHECK(m.interconnect.p2p_capable);
  CHECK(m.interconnect.p2p_off == std::vector<std::pair<int, int>>{{0, 3}, {2, 1}});
  CHECK(reading.errors.render() == "");
}

TEST_CASE("mistakes in the pairs without P2P are all reported") {
  Reading reading;
  machine("", reading,
          "p2p: {default: yess, of: 1, off: [[gpu0, gpu9], [gpu1], [gpu2, gpu2], gpu3]}");
  const auto text = reading.errors.render();
  INFO(text);
  for (const char* words :
       {"default: 'yess'", "unknown key 'of' in machine.p2p", "there is no GPU 'gpu9'",
        "a pair without P2P is two GPUs", "a pair without P2P is two different GPUs"})
    CHECK(text.find(words) != std::string::npos);
}

TEST_CASE("a host states how stores reach peers and what its staging carries") {
  Reading reading;
  const Machine plain = machine("", reading);
  CHECK_FALSE(plain.interconnect.sm_within_switch);
  CHECK_FALSE(plain.interconnect.staging_capacity);
  const Machine m = machine(
      "sm_peer_access: within_switch\n"
      "staging: {hop_latency: 1.9 us, capacity: {value: 22 GB/s, basis: assumed, spread: 1.4, "
      "source: s}}\n",
      reading);
  CHECK(reading.errors.render() == "");
  CHECK(m.interconnect.sm_within_switch);
  REQUIRE(m.interconnect.staging_capacity);
  CHECK(m.interconnect.staging_capacity->value.count() == 22e9);
  CHECK(m.interconnect.staging_capacity->label == "staging capacity");
  CHECK(m.interconnect.staging_capacity->spread == 1.4);
  CHECK(m.interconnect.shm.hop_ll.value == Duration::from_us(1.9));
  machine("sm_peer_access: nowhere\nstaging: {capacty: 1 GB/s}\n", reading);
  const auto text = reading.errors.render();
  INFO(text);
  CHECK(text.find("'nowhere' is not a valid sm_peer_access") != std::string::npos);
  CHECK(text.find("did you mean 'capacity'?") != std::string::npos);
}

TEST_CASE("a machine answers to its file's name and to its topology_id in any case") {
  std::map<std::string, std::string> by_id;
  for (const auto& name : data_names("hardware/machines")) {
    const auto file = load_machine_file(name, {});
    REQUIRE(file);
    CHECK(file->id == name);
    const Settings* id = file->settings.find("topology_id");
    if (!id) continue;
    INFO(name << " and " << by_id[id->text()]);
    CHECK(by_id[id->text()].empty());
    by_id[id->text()] = name;
  }
  REQUIRE(by_id.count("T19"));
  for (const auto& [id, name] : by_id) {
    std::string lower = id;
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    for (const auto& word : {id, lower}) {
      const auto file = load_machine_file(word, {});
      REQUIRE(file);
      CHECK(file->id == name);
    }
  }
}

TEST_CASE("a machine that nobody knows is refused with what there is") {
  const auto hint = [](const std::string& name) {
    const auto file = load_machine_file(name, {});
    REQUIRE_FALSE(file);
    REQUIRE(file.error().size() == 1);
    CHECK(file.error().list()[0].message == "there is no '" + name + "' in machines");
    return file.error().list()[0].hint;
  };
  CHECK(hint("8x-rtx-pro-6000-kvn") == "did you mean '8x-rtx-pro-6000-kvm'?");
  const auto known = hint("a-box-that-nobody-built-yet");
  for (const auto& name : data_names("hardware/machines"))
    CHECK(known.find(name) != std::string::npos);
}

TEST_CASE("a host that is named stands in the machine as if it were written there") {
  const auto file = load_machine_file("8x-rtx-pro-6000-kvm", {});
  REQUIRE(file);
  REQUIRE(file->settings.at("host.virtualisation.value"));
  CHECK(file->settings.at("host.virtualisation.value")->text() == "1.05");
  CHECK(file->files.size() == 2);
  CHECK(load_machine("8x-rtx-pro-6000-p2p").host.virtualisation.value == 1);
}
