#include "sim/scenario/topology_rows.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "hardware/collective/kernels/kernel.hpp"
#include "sim/scenario/kernel_files.hpp"
#include "sim/scenario/machine_file.hpp"
#include "sim/scenario/transfer_text.hpp"
#include "sim/scenario/yaml.hpp"

namespace {

std::vector<Copy> read_flows(Section& s, int gpus, Bytes bytes) {
  std::vector<Copy> out;
  const Settings* node = s.take_required("flows");
  if (!node) return out;
  Diagnostics& errors = s.reading().errors;
  const auto items = node->is_sequence() ? node->items() : std::vector<Settings>{*node};
  for (const Settings& item : items) {
    const auto copies = parse_copies(item.text(), gpus, bytes, item.where(), errors);
    out.insert(out.end(), copies.begin(), copies.end());
  }
  if (items.empty()) s.error("flows", "flows must name at least one copy", "write '0>1'");
  return out;
}

std::string flow_text(const Settings* flows) {
  if (!flows) return "";
  std::string out = flows->text();
  for (const Settings& item : flows->items()) out += (out.empty() ? "" : ", ") + item.text();
  return out;
}

struct File {
  std::string path;
  const Machine& machine;
  double compute_capability;
  Bytes bytes;
};

// A row of copies.
TopologyLine score_copies(Section& s, const File& file) {
  TopologyLine line;
  line.unit = "GB/s";
  const auto copies = read_flows(s, file.machine.gpu_count(),
                                 s.optional<Bytes>("bytes", file.bytes, positive<Bytes>()));
  const bool stores = s.word("mover", {"copy_engine", "sm_stores"}, "copy_engine") == "sm_stores";
  CopyOptions options = copy_options(file.machine, stores ? Mover::sm_stores : Mover::copy_engine);
  options.p2p = s.optional("p2p", options.p2p);
  const bool redirect = s.optional("acs_redirect", false);
  line.measured = s.required<BytesPerSecond>("measured", positive<BytesPerSecond>()).count() / 1e9;
  if (!s.reading().errors.empty()) return line;
  if (!std::all_of(copies.begin(), copies.end(), [&](const Copy& copy) {
        return has_way(file.machine.topology, copy, options);
      })) {
    s.error("flows", "a copy goes through host memory and the machine has none",
            "add a host_memory to its devices");
    return line;
  }
  Topology topology = file.machine.topology;
  if (redirect) topology.redirect_all();
  const CopiesOutcome outcome = run_copies(topology, copies, options);
  line.predicted = outcome.aggregate.count() / 1e9;
  line.limit = outcome.limit;
  return line;
}

// A row of collectives: a line for each of its points.
std::vector<TopologyLine> score_collectives(Section& s, const std::string& kind, const File& file) {
  std::vector<TopologyLine> out;
  Collective op = Collective::all_reduce;
  parse_collective(s.word("op", collective_names()), op);
  const int gpus = s.required<int>("gpus", between(2, file.machine.gpu_count()));
  auto kernels = Registry<CollectiveKernelFactory>::names();
  kernels.emplace_back("nccl");
  const std::string kernel = s.word("kernel", kernels, "nccl");
  Interconnect host = file.machine.interconnect;
  if (const Settings* nccl = s.take("nccl")) {
    Section n(*nccl, s.path() + ".nccl", s.reading());
    host.nccl = read_nccl_environment(n);
  }
  host.p2p_capable = s.optional("p2p", host.p2p_capable);
  // Judged as a box that nobody timed: only its graph and NCCL's environment.
  if (kind == "nccl") {
    host.p2p = untimed_transport(false), host.shm = untimed_transport(true);
    host.staging_capacity.reset(), host.timed.reset();
  }
  const std::string hint = "write 'points: [[4 KiB, 24 us], [64 KiB, 31 us]]'";
  const Settings* points = s.take_required("points");
  std::vector<std::pair<Bytes, Duration>> measured;
  for (const Settings& point : points ? points->items() : std::vector<Settings>()) {
    const auto ends = point.items();
    const auto size = parse<Bytes>(ends.size() == 2 ? ends[0].text() : "");
    const auto time = parse<Duration>(ends.size() == 2 ? ends[1].text() : "");
    if (size && time && *size > Bytes(0) && *time > Duration())
      measured.emplace_back(*size, *time);
    else
      s.reading().errors.error(point.where(), "a point is a size and a time", hint);
  }
  if (points && measured.empty()) s.error("points", "there are no points", hint);
  if (!s.reading().errors.empty()) return out;
  const CollectivePricer pricer(file.machine.topology, host, gpus, file.compute_capability);
  for (const auto& [size, time] : measured) {
    const CollectivePrice price = pricer.price_by(kernel, op, size);
    TopologyLine line;
    line.unit = "us";
    line.name = fmt::format("{} of {}, {}, {} {}", name(op), gpus, text(size), price.kernel,
                            price.kernel == "nccl" ? name(price.protocol) : "");
    line.measured = time.us();
    line.predicted = price.time.us();
    line.limit = price.limit;
    out.push_back(std::move(line));
  }
  return out;
}

}  // namespace

const std::map<std::string, ErrorBar>& topology_row_bars() {
  static const std::map<std::string, ErrorBar> bars = {
      {"single", {0.10, 0, 0}},       {"paired", {0.10, 0, 0}},     {"shifted", {0.10, 0, 0}},
      {"host", {0.10, 0, 0}},         {"all_to_all", {0.25, 0, 0}}, {"nccl", {0, 0.20, 0.35}},
      {"host_numbers", {0, 0.25, 0}}, {"kernel", {0, 0.20, 0}}};
  return bars;
}

bool is_topology_file(const std::string& path) {
  const auto settings = load_yaml(path, {});
  return settings && settings->is_map() && settings->find("rows");
}

Expected<std::vector<TopologyLine>> score_topology_file(const std::string& path) {
  const auto settings = load_yaml(path, {});
  if (!settings) return tl::unexpected(settings.error());
  Reading reading;
  std::vector<TopologyLine> out;
  {
    Section s(*settings, "topology rows", reading);
    s.required<int>("schema", between(1, 1));
    s.maybe<std::string>("source");
    const auto bytes = s.optional<Bytes>("bytes", 256_MiB, positive<Bytes>());
    const Settings* rows = s.take_required("rows");
    if (rows && !rows->is_sequence()) s.error("rows", "rows must be a list");
    const auto name = s.required<std::string>("machine");
    if (name.empty()) {
      s.ignore_rest();
      return tl::unexpected(reading.errors);
    }
    const auto machine_file = load_machine_file(name, s.where("machine"));
    if (!machine_file) return tl::unexpected(machine_file.error());
    const Machine machine = read_machine(machine_file->id, machine_file->settings, reading);
    const auto gpu = load_gpu_file(machine.gpu_id);
    if (!gpu) return tl::unexpected(gpu.error());
    const double compute_capability = gpu->compute_capability;
    std::vector<std::string> kinds;
    for (const auto& [kind, bar] : topology_row_bars()) kinds.push_back(kind);
    int number = 0;
    for (const Settings& item : rows ? rows->items() : std::vector<Settings>()) {
      Section row(item, fmt::format("rows.{}", number++), reading);
      const auto kind = row.word("kind", kinds);
      const auto label = row.maybe<std::string>("name");
      row.maybe<std::string>("source");
      const auto left_out = row.maybe<std::string>("left_out").value_or("");
      const File file{path, machine, compute_capability, bytes};
      std::vector<TopologyLine> lines;
      if (item.find("op")) {
        lines = score_collectives(row, kind, file);
      } else {
        lines.push_back(score_copies(row, file));
        lines[0].name = flow_text(item.find("flows"));
      }
      for (TopologyLine& line : lines) {
        line.file = path;
        line.machine = machine.topology_id.empty() ? machine.id : machine.topology_id;
        if (label) line.name = item.find("op") ? *label + ", " + line.name : *label;
        line.kind = kind;
        if (const auto bar = topology_row_bars().find(kind); bar != topology_row_bars().end())
          line.bar = bar->second;
        line.left_out = left_out;
        out.push_back(std::move(line));
      }
    }
    if (rows && rows->is_sequence() && rows->items().empty()) s.error("rows", "there are no rows");
  }
  if (!reading.errors.empty()) return tl::unexpected(reading.errors);
  return out;
}
