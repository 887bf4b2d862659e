#include "hardware/machine.hpp"

#include <fmt/format.h>

namespace {

// Defaults of the ring law (see collective/pricing.cpp); a host that was timed states its own.
TransportSpec read_transport(Section& parent, const std::string& key, double hop_ll_us,
                             double hop_simple_us) {
  TransportSpec out;
  Section s(parent.take(key), "machine." + key, parent.reading());
  out.hop_ll = s.constant<Duration>("hop_latency", Duration::from_us(hop_ll_us), plausible_time());
  if (!s.has("hop_latency")) out.hop_ll.basis = Provenance::fitted;
  // A Simple step is an LL hop plus fence and barrier: a slower host is slower by the same amount.
  out.hop_simple = Duration::from_us(hop_simple_us + out.hop_ll.value.us() - hop_ll_us);
  return out;
}

}  // namespace

std::string machine_gpu(const Settings& file) {
  const Settings* gpu = file.find("gpu");
  return gpu && gpu->is_scalar() ? gpu->text() : std::string();
}

Machine read_machine(const std::string& id, const Settings& file, Reading& reading) {
  Section s(file, "machine", reading);
  Machine m;
  m.id = id;
  s.required<int>("schema", between(1, 1));
  m.name = s.required<std::string>("name");
  m.gpu_id = m.interconnect.gpu = s.required<std::string>("gpu");
  s.maybe<std::string>("topology_id");
  s.maybe<std::string>("source");
  m.guest = s.word("runs_in", {"bare_metal", "kvm_guest"}, "bare_metal") == "kvm_guest";
  m.reserved = s.constant<Bytes>("reserved", std::nullopt, at_least(Bytes(0)));
  m.interconnect.p2p_capable = s.required<bool>("p2p");
  // Hop latencies fitted on ten hosts: 1.02 us direct (0.9 to 1.4), 1.456 us staged (1.24 to 1.63).
  m.interconnect.p2p = read_transport(s, "p2p_transport", 1.02, 2.18);
  m.interconnect.shm = read_transport(s, "staging", 1.456, 3.18);
  {
    Section n(s.take("nccl"), "machine.nccl", reading);
    m.interconnect.nccl = read_nccl_environment(n);
  }
  if (const Settings* host = s.take_required("host")) {
    Section h(*host, "machine.host", reading);
    m.host.kernel_launch = h.constant<Duration>("kernel_launch", std::nullopt, plausible_time());
    m.host.graph_launch = h.constant<Duration>("graph_launch", std::nullopt, plausible_time());
    m.host.graph_launch_per_node =
        h.constant<Duration>("graph_launch_per_node", std::nullopt, plausible_time());
    m.host.virtualisation = h.constant<double>("virtualisation", std::nullopt, between(1.0, 10.0));
    m.host.request_path = h.constant<Duration>("request_path", std::nullopt, plausible_time());
    m.host.response_path = h.constant<Duration>("response_path", std::nullopt, plausible_time());
  }
  if (const Settings* topology = s.take_required("topology")) {
    Section t(*topology, "machine.topology", reading);
    m.topology = read_topology(t);
    if (reading.errors.empty() && m.gpu_count() > 1 && !m.interconnect.p2p_capable &&
        m.topology.nearest_memory(m.topology.gpus()[0]) < 0)
      t.error("devices", "without P2P the GPUs need a host_memory to stage through");
  }
  return m;
}

void apply_machine_edits(Machine& machine, const Settings& edits, Reading& reading) {
  Section section(edits, "machine_edits", reading);
  for (const auto& entry : edits.entries()) {
    if (const MachineEdit* edit = Registry<MachineEdit>::find(entry.key)) {
      edit->apply(machine, entry.key, section);
      continue;
    }
    section.take(entry.key);
    reading.errors.error(entry.where, fmt::format("unknown machine edit '{}'", entry.key),
                         suggestion(entry.key, Registry<MachineEdit>::names()));
  }
}
