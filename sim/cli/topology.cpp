#include <sstream>

#include <fmt/format.h>

#include "hardware/collective/kernels/kernel.hpp"
#include "sim/cli/command.hpp"
#include "sim/report/topology_report.hpp"
#include "sim/scenario/collective_files.hpp"
#include "sim/scenario/kernel_files.hpp"
#include "sim/scenario/machine_file.hpp"
#include "sim/scenario/topology_rows.hpp"
#include "sim/scenario/yaml.hpp"

namespace {

struct Options {
  std::string machine, format = "table";
  std::vector<std::string> edits;
  bool full = false;
  std::string route, flows, bytes = "256MiB", mover = "copy_engine";
  std::string collective, sizes = "512B..512MiB", kernel = "nccl";
  int gpus = 0;
};

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) out.push_back(part);
  return out;
}

// "512B..512MiB": powers of two from the first to the last; "4KiB,64KiB": these.
std::vector<Bytes> parse_sizes(const std::string& text, Diagnostics& errors) {
  std::vector<Bytes> out;
  const auto one = [&](const std::string& word) {
    const auto size = parse<Bytes>(word);
    if (size && *size > Bytes(0)) return *size;
    errors.error({}, fmt::format("--sizes: '{}' is not a size", word),
                 "write 512B..512MiB or 4KiB,64KiB");
    return Bytes(0);
  };
  if (const auto dots = text.find(".."); dots != std::string::npos) {
    const Bytes first = one(text.substr(0, dots)), last = one(text.substr(dots + 2));
    if (first > last) errors.error({}, "--sizes: the first size is larger than the last");
    for (std::int64_t at = first.count(); at > 0 && at <= last.count() && at < (1LL << 50); at *= 2)
      out.emplace_back(at);
    return out;
  }
  for (const auto& word : split(text, ',')) out.push_back(one(word));
  return out;
}

struct Loaded {
  Machine machine, base;
  GpuSpec gpu;
};

// The machine with its edits; `+p2p=on` and `machine_edits.p2p=on` mean the same.
Loaded load(const Options& o, Diagnostics& errors) {
  Loaded out;
  const auto file = load_machine_file(o.machine, {});
  if (!file) return errors.append(file.error()), out;
  Reading reading;
  out.machine = read_machine(file->id, file->settings, reading);
  if (!reading.errors.empty()) return errors.append(reading.errors), out;
  out.base = out.machine;
  const auto gpu = load_gpu_file(out.machine.gpu_id);
  if (!gpu) return errors.append(gpu.error()), out;
  out.gpu = *gpu;
  if (o.edits.empty()) return out;
  Settings edits = *parse_yaml("--edit", "{}");
  for (const auto& text : o.edits) {
    const auto change = parse_override(text);
    const auto value = change ? parse_yaml("--edit", change->value) : parse_yaml("--edit", "");
    if (!change || !value) {
      errors.error({}, fmt::format("--edit: '{}' is not an edit", text),
                   "write KEY=VALUE, as p2p=on or 'insert_switch={gpus: 4}'");
      continue;
    }
    const std::string prefix = "machine_edits.";
    edits.set(change->path.starts_with(prefix) ? change->path.substr(prefix.size()) : change->path,
              *value);
  }
  apply_machine_edits(out.machine, edits, reading);
  errors.append(reading.errors);
  return out;
}

Exit show_flows(const Options& o, const Machine& m, Diagnostics& errors) {
  const auto bytes = parse<Bytes>(o.bytes);
  if (!bytes || *bytes <= Bytes(0))
    errors.error({}, fmt::format("--size: '{}' is not a size", o.bytes), "write 256MiB");
  std::vector<Copy> copies;
  const std::string all = fmt::format("0..{}>0..{}", m.gpu_count() - 1, m.gpu_count() - 1);
  for (const auto& flow : split(o.flows == "all-to-all" ? all : o.flows, ',')) {
    const auto parsed = parse_flows(flow, m.gpu_count(), bytes.value_or(Bytes(1)), {}, errors);
    copies.insert(copies.end(), parsed.begin(), parsed.end());
  }
  const Mover mover = o.mover == "sm_stores" ? Mover::sm_stores : Mover::copy_engine;
  const CopyOptions options = copy_options(m, mover);
  for (const Copy& c : copies)
    if (!has_way(m.topology, c, options))
      errors.error({}, fmt::format("--flows: {} > {} has no way", c.from, c.to));
  if (!errors.empty()) return report_errors(errors);
  const CopiesOutcome outcome = run_copies(m.topology, copies, options);
  print_result(o.format == "json" ? copies_to_json(m, copies, outcome)
                                  : render_copies(m, copies, outcome));
  return Exit::fine;
}

Exit show_collective(const Options& o, const Loaded& loaded, Diagnostics& errors) {
  const Machine& m = loaded.machine;
  Collective op = Collective::all_reduce;
  if (!parse_collective(o.collective, op))
    errors.error({}, fmt::format("--collective: '{}' is not a collective", o.collective),
                 suggestion(o.collective, collective_names()));
  const auto sizes = parse_sizes(o.sizes, errors);
  const int gpus = o.gpus > 0 ? o.gpus : m.gpu_count();
  if (gpus < 2 || gpus > m.gpu_count())
    errors.error({}, fmt::format("--gpus: {} of {} GPUs cannot talk", gpus, m.gpu_count()),
                 "2 to as many as the machine has; --edit gpus=16 adds some");
  if (o.kernel != "nccl") {
    const auto* kernel = Registry<CollectiveKernelFactory>::find(o.kernel);
    if (!kernel)
      errors.error({}, fmt::format("--kernel: there is no kernel '{}'", o.kernel),
                   suggestion(o.kernel, Registry<CollectiveKernelFactory>::names()));
    else if (errors.empty() &&
             !(*kernel)().supports(op, CollectiveBox(m.topology, m.interconnect, gpus,
                                                     loaded.gpu.compute_capability)))
      errors.error({},
                   fmt::format("--kernel: {} does not run {} on {} GPUs of this box", o.kernel,
                               o.collective, gpus),
                   "most need P2P: try --edit p2p=on, or leave --kernel out for NCCL");
  }
  if (!errors.empty()) return report_errors(errors);
  const auto pricer =
      make_collective_pricer(m, o.edits.empty() ? m : loaded.base, loaded.gpu, gpus, {});
  if (!pricer) return report_errors(pricer.error());
  std::vector<CollectiveRow> rows;
  for (const Bytes size : sizes)
    rows.push_back({op, gpus, size, (*pricer)->price_by(o.kernel, op, size)});
  print_result(o.format == "json" ? collective_to_json(m, rows) : render_collective(m, rows));
  return Exit::fine;
}

Exit show_route(const Options& o, const Machine& m, Diagnostics& errors) {
  std::vector<std::string> names;
  for (const Device& d : m.topology.devices()) names.push_back(d.name);
  std::vector<DeviceId> ends;
  for (const auto& name : split(o.route, ',')) {
    ends.push_back(m.topology.find(name));
    if (ends.back() < 0)
      errors.error({}, fmt::format("--route: there is no device '{}'", name),
                   suggestion(name, names));
  }
  if (errors.empty() && (ends.size() != 2 || ends[0] == ends[1]))
    errors.error({}, "--route: a route has two different ends", "write --route gpu0,gpu5");
  if (!errors.empty()) return report_errors(errors);
  print_result(render_route(m, ends[0], ends[1]));
  return Exit::fine;
}

Exit topology(const Options& o) {
  Diagnostics errors;
  if ((!o.route.empty()) + (!o.flows.empty()) + (!o.collective.empty()) > 1)
    errors.error({}, "--route, --flows and --collective are three questions", "ask one at a time");
  if (o.format == "dot" && (!o.route.empty() || !o.flows.empty() || !o.collective.empty()))
    errors.error({}, "--format dot draws the graph", "leave out the other options");
  const Loaded loaded = load(o, errors);
  if (!errors.empty()) return report_errors(errors);
  const Machine& m = loaded.machine;
  if (!o.route.empty()) return show_route(o, m, errors);
  if (!o.flows.empty()) return show_flows(o, m, errors);
  if (!o.collective.empty()) return show_collective(o, loaded, errors);
  const auto pricer =
      make_collective_pricer(m, o.edits.empty() ? m : loaded.base, loaded.gpu, m.gpu_count(), {});
  if (!pricer) return report_errors(pricer.error());
  print_result(o.format == "json"  ? topology_to_json(m, **pricer)
               : o.format == "dot" ? topology_to_dot(m)
                                   : render_topology(m, **pricer, o.full));
  return Exit::fine;
}

std::function<Exit()> setup(CLI::App& app) {
  const auto o = std::make_shared<Options>();
  app.add_option("MACHINE", o->machine, "a machine by name, topology id (T04) or path")->required();
  app.add_option("--edit", o->edits, "a what-if, as in machine_edits: p2p=on")
      ->take_all()
      ->allow_extra_args(false);
  app.add_flag("--full", o->full, "matrices of every pair instead of a line per kind");
  app.add_option("--route", o->route, "two devices: the links between them, as gpu0,gpu5");
  app.add_option("--flows", o->flows,
                 "copies that start together: '0>4,1>5', '0<>1', 'host>0..7', '0..3>4..7' (each to "
                 "each), all-to-all");
  app.add_option("--size", o->bytes, "of each copy");
  app.add_option("--mover", o->mover, "who copies")
      ->check(CLI::IsMember({"copy_engine", "sm_stores"}));
  app.add_option("--collective", o->collective,
                 "all_reduce, all_gather, reduce_scatter, all_to_all, broadcast or send_recv");
  app.add_option("--gpus", o->gpus, "how many take part (the first); all without it");
  app.add_option("--sizes", o->sizes, "512B..512MiB in powers of two, or a list 4KiB,64KiB");
  app.add_option("--kernel", o->kernel, "nccl, or a kernel that engines bring");
  app.add_option("--format", o->format, "table, json or dot")
      ->check(CLI::IsMember({"table", "json", "dot"}));
  return [o] { return topology(*o); };
}

const Registered<Command> me("topology", {5, "what talks to what in a box, how fast",
                                          "ceiling topology 8x-rtx-pro-6000-kvm", setup});

}  // namespace
