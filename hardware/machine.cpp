#include "hardware/machine.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace {

TransportSpec read_transport(Section& s, bool staged) {
  const TransportSpec untimed = untimed_transport(staged);
  const auto hop = s.constant<Duration>("hop_latency", untimed.hop_ll.value, plausible_time());
  return s.has("hop_latency") ? timed_transport(staged, hop) : untimed;
}

// `p2p: on`, or what holds for most pairs and which ones differ. The pairs are names of GPUs.
void read_p2p(Section& s, Machine& m) {
  const Settings* node = s.take_required("p2p");
  if (!node) return;
  if (!node->is_map()) {
    m.interconnect.p2p_capable = s.required<bool>("p2p");
    return;
  }
  Diagnostics& errors = s.reading().errors;
  Section p(*node, "machine.p2p", s.reading());
  m.interconnect.p2p_capable = p.required<bool>("default");
  const Settings* pairs = p.take("off");
  if (!pairs) return;
  const std::string hint = "write 'off: [[gpu0, gpu4]]'";
  if (!pairs->is_sequence()) p.error("off", "off must be a list of pairs", hint);
  std::vector<std::string> gpus;
  for (const DeviceId gpu : m.topology.gpus())
    gpus.push_back(m.topology.devices()[static_cast<std::size_t>(gpu)].name);
  for (const Settings& pair : pairs->items()) {
    std::vector<int> ranks;
    for (const Settings& end : pair.items()) {
      const auto it = std::find(gpus.begin(), gpus.end(), end.text());
      if (it != gpus.end()) ranks.push_back(static_cast<int>(it - gpus.begin()));
      // A graph that could not be read knows no names to compare with.
      if (it == gpus.end() && !gpus.empty())
        errors.error(end.where(), fmt::format("there is no GPU '{}'", end.text()),
                     suggestion(end.text(), gpus));
    }
    if (pair.items().size() != 2)
      errors.error(pair.where(), "a pair without P2P is two GPUs", hint);
    else if (ranks.size() == 2 && ranks[0] == ranks[1])
      errors.error(pair.where(), "a pair without P2P is two different GPUs");
    else if (ranks.size() == 2)
      m.interconnect.p2p_off.emplace_back(ranks[0], ranks[1]);
  }
}

// `all_reduce: {gpus: 8, small: [4 KiB, 45 us], large: [64 KiB, 344 us]}`
TimedAllReduces read_timed_all_reduces(const Settings& node, Reading& reading) {
  Section s(node, "machine.staging.all_reduce", reading);
  TimedAllReduces out;
  out.ranks = s.required<int>("gpus", between(2, 64));
  out.source = s.optional<std::string>("source", "two timed all-reduces of this box");
  const auto point = [&](const char* key, Bytes& size, Duration& time) {
    const auto words = s.words(key);
    const auto bytes = parse<Bytes>(words.size() == 2 ? words[0] : "");
    const auto duration = parse<Duration>(words.size() == 2 ? words[1] : "");
    if (!bytes || !duration || *bytes <= Bytes(0) || *duration <= Duration())
      return s.error(key, fmt::format("{} must be a size and a time", key),
                     "write '[4 KiB, 45 us]'");
    size = *bytes, time = *duration;
  };
  point("small", out.small, out.small_time);
  point("large", out.large, out.large_time);
  if (out.small >= out.large && out.large > Bytes(0))
    s.error("large", "'large' must be more bytes than 'small'");
  return out;
}

// Whether some pair of GPUs has to go through host memory.
bool stages(const Machine& m) {
  return m.gpu_count() > 1 && (!m.interconnect.p2p_capable || !m.interconnect.p2p_off.empty());
}

}  // namespace

CopyOptions copy_options(const Machine& machine, Mover mover) {
  CopyOptions out;
  out.p2p = machine.interconnect.p2p_capable;
  out.p2p_off = machine.interconnect.p2p_off;
  out.mover = mover;
  out.sm_within_switch = machine.interconnect.sm_within_switch;
  if (machine.interconnect.staging_capacity)
    out.staging_capacity = machine.interconnect.staging_capacity->value;
  return out;
}

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
  m.topology_id = s.maybe<std::string>("topology_id").value_or("");
  s.maybe<std::string>("source");
  if (const Settings* collectives = s.take("collectives"))
    for (const Settings& name :
         collectives->is_sequence() ? collectives->items() : std::vector<Settings>{*collectives})
      m.collectives.emplace_back(name.text(), name.where());
  m.guest = s.word("runs_in", {"bare_metal", "kvm_guest"}, "bare_metal") == "kvm_guest";
  m.reserved = s.constant<Bytes>("reserved", std::nullopt, at_least(Bytes(0)));

  {
    Section p(s.take("p2p_transport"), "machine.p2p_transport", reading);
    m.interconnect.p2p = read_transport(p, false);
  }
  {
    Section p(s.take("staging"), "machine.staging", reading);
    m.interconnect.shm = read_transport(p, true);
    if (p.has("capacity")) {
      auto capacity = p.constant<BytesPerSecond>("capacity", std::nullopt, plausible_bandwidth());
      if (capacity.label.empty() || capacity.label == "capacity")
        capacity.label = "staging capacity";
      m.interconnect.staging_capacity = std::move(capacity);
    } else {
      p.take("capacity");
    }
    if (const Settings* timed = p.take("all_reduce")) {
      if (p.has("hop_latency") || p.has("capacity"))
        p.error("all_reduce", "two timed all-reduces stand for hop_latency and capacity",
                "state either the times or the two numbers");
      m.interconnect.timed = read_timed_all_reduces(*timed, reading);
    }
  }
  m.interconnect.sm_within_switch =
      s.word("sm_peer_access", {"everywhere", "within_switch"}, "everywhere") == "within_switch";
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
  }
  read_p2p(s, m);
  if (m.interconnect.timed && m.interconnect.timed->ranks > m.gpu_count() && m.gpu_count() > 0)
    reading.errors.error(s.node().at("staging.all_reduce.gpus")->where(),
                         fmt::format("the machine has {} GPUs", m.gpu_count()));
  if (reading.errors.empty() && stages(m) && m.topology.nearest_memory(m.topology.gpus()[0]) < 0)
    reading.errors.error(s.node().at("topology.devices")->where(),
                         "without P2P the GPUs need a host_memory to stage through");
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
