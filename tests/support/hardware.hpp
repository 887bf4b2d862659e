#pragma once

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "hardware/machine.hpp"
#include "models/cost/cost_models.hpp"
#include "models/graph/model_spec.hpp"
#include "sim/scenario/build_file.hpp"
#include "sim/scenario/kernel_files.hpp"
#include "sim/scenario/machine_file.hpp"
#include "sim/scenario/yaml.hpp"
#include "tests/support/paths.hpp"

/// A file of the repository as settings; the test fails where it does not parse.
inline Settings load_settings(const std::string& path) {
  auto settings = load_yaml((repo_root() / path).string(), {});
  if (!settings) FAIL(settings.error().render());
  return *settings;
}

/// YAML written in a test.
inline Settings yaml(const std::string& text) {
  auto settings = parse_yaml("test.yaml", text);
  if (!settings) FAIL(settings.error().render());
  return *settings;
}

inline GpuSpec load_gpu(const std::string& id) {
  Reading reading;
  const Settings file = load_settings("hardware/gpus/" + id + ".yaml");
  GpuSpec gpu = read_gpu(id, file, reading);
  if (!reading.errors.empty()) FAIL(reading.errors.render());
  return gpu;
}

inline Machine load_machine(const std::string& id) {
  Reading reading;
  const auto path = repo_root() / "hardware/machines" / (id + ".yaml");
  const auto file = load_machine_file(path.string(), {});
  if (!file) FAIL(file.error().render());
  Machine machine = read_machine(id, file->settings, reading);
  if (!reading.errors.empty()) FAIL(reading.errors.render());
  return machine;
}

inline ModelSpec load_model(const std::string& id) {
  Reading reading;
  const Settings file = load_settings("models/zoo/" + id + ".yaml");
  ModelSpec model = read_model(id, file, reading);
  if (!reading.errors.empty()) FAIL(reading.errors.render());
  return model;
}

/// The laws of a GPU for the back ends of a build.
inline CostModels load_costs(const std::string& gpu, const std::string& build) {
  Reading reading;
  const auto file = load_build((repo_root() / "hardware/builds" / (build + ".yaml")).string(), {});
  if (!file) FAIL(file.error().render());
  const Settings& build_file = file->settings;
  const Settings laws = load_settings("hardware/tables/" + gpu + "/laws.yaml");
  BackEnds back_ends;
  {
    Section section(build_file.find("back_ends"), "build.back_ends", reading);
    back_ends = read_back_ends(section);
  }
  const GpuSpec card = load_gpu(gpu);
  // shared for the life of the program, as the models point into them
  const auto tables = shared_kernel_tables(card, gpu, {});
  if (!tables) FAIL(tables.error().render());
  CostModels costs = read_cost_models(
      {card, tables->get(), build_file.find("engine")->text(), build_file.find("version")->text()},
      back_ends, laws, reading);
  if (!reading.errors.empty()) FAIL(reading.errors.render());
  return costs;
}

inline Link make_link(DeviceId a, DeviceId b, const std::string& kind, double gbps,
                      std::int64_t latency_ns = 100, int gen = 0) {
  Link link;
  link.a = a, link.b = b, link.kind = kind;
  link.bandwidth.value = BytesPerSecond(gbps * 1e9);
  link.latency = Duration::picoseconds(latency_ns * 1000);
  link.gen = gen, link.lanes = gen > 0 ? 16 : 0;
  return link;
}

constexpr double no_limit_gbps = 1e6;

/// GPUs on ports of one root complex with one memory, as a guest sees them.
inline Topology flat_box(int gpus, int gen, double gpu_gbps, double memory_gbps = no_limit_gbps) {
  Topology t;
  std::vector<DeviceId> cards;
  for (int i = 0; i < gpus; ++i) cards.push_back(t.add({"gpu" + std::to_string(i)}));
  const DeviceId root = t.add({"root", DeviceKind::root_complex});
  const DeviceId memory = t.add({"memory", DeviceKind::host_memory});
  for (const DeviceId card : cards) t.add(make_link(card, root, "pcie", gpu_gbps, 400, gen));
  t.add(make_link(root, memory, "memory", memory_gbps));
  return t;
}

/// Two switches of equally many GPUs, each on one x16 uplink to the root complex.
inline Topology two_switches(int gpus, int gen, double gpu_gbps, double uplink_gbps) {
  Topology t;
  std::vector<DeviceId> cards;
  for (int i = 0; i < gpus; ++i) cards.push_back(t.add({"gpu" + std::to_string(i)}));
  const DeviceId root = t.add({"root", DeviceKind::root_complex});
  const DeviceId memory = t.add({"memory", DeviceKind::host_memory});
  for (int s = 0; s < 2; ++s) {
    const DeviceId sw = t.add({"switch" + std::to_string(s), DeviceKind::pcie_switch});
    t.add(make_link(sw, root, "pcie", uplink_gbps, 300, gen));
    for (int i = 0; i < gpus / 2; ++i)
      t.add(make_link(cards[static_cast<std::size_t>(s * gpus / 2 + i)], sw, "pcie", gpu_gbps, 400,
                      gen));
  }
  t.add(make_link(root, memory, "memory", no_limit_gbps));
  return t;
}

/// Two sockets of equally many GPUs, each socket with its own memory.
inline Topology two_sockets(int gpus, int gen, double gpu_gbps, double between_gbps,
                            double memory_gbps = no_limit_gbps) {
  Topology t;
  std::vector<DeviceId> cards;
  for (int i = 0; i < gpus; ++i) cards.push_back(t.add({"gpu" + std::to_string(i)}));
  std::vector<DeviceId> sockets;
  for (int s = 0; s < 2; ++s) {
    sockets.push_back(t.add({"socket" + std::to_string(s), DeviceKind::root_complex}));
    const DeviceId memory = t.add({"memory" + std::to_string(s), DeviceKind::host_memory});
    t.add(make_link(sockets.back(), memory, "memory", memory_gbps));
    for (int i = 0; i < gpus / 2; ++i)
      t.add(make_link(cards[static_cast<std::size_t>(s * gpus / 2 + i)], sockets.back(), "pcie",
                      gpu_gbps, 400, gen));
  }
  t.add(make_link(sockets[0], sockets[1], "interconnect", between_gbps, 300));
  return t;
}

/// The ring law's defaults: hops of 1.02 us direct and 1.456 us staged (facts: pricing, 2b). A
/// slower host is slower by the same time in both protocols.
inline Interconnect interconnect(double staged_hop_us = 1.456) {
  Interconnect i;
  i.p2p.hop_ll.value = Duration::from_us(1.02);
  i.p2p.hop_simple = Duration::from_us(2.18);
  i.shm.hop_ll.value = Duration::from_us(staged_hop_us);
  i.shm.hop_simple = Duration::from_us(3.18 + staged_hop_us - 1.456);
  return i;
}

inline Interconnect direct_interconnect() {
  Interconnect i = interconnect();
  i.p2p_capable = true;
  i.nccl.p2p_level = PathKind::sys;
  return i;
}
