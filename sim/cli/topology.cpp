#include <fmt/format.h>

#include "hardware/collective/eager.hpp"
#include "hardware/collective/kernels/kernel.hpp"
#include "sim/cli/command.hpp"
#include "sim/report/topology_report.hpp"
#include "sim/report/transfer_report.hpp"
#include "sim/scenario/build_file.hpp"
#include "sim/scenario/collective_files.hpp"
#include "sim/scenario/kernel_files.hpp"
#include "sim/scenario/machine_file.hpp"
#include "sim/scenario/transfer_text.hpp"
#include "sim/scenario/yaml.hpp"
#include "sim/step/build.hpp"

namespace {

struct Options {
  std::string machine, format = "table";
  std::vector<std::string> edits;
  bool full = false;
  std::string route;
  std::string flows, size = "256MiB", mover = "copy_engine";
  std::string collective, sizes = "512B..256MiB", kernel, build;
  int gpus = 0;
};

// An option on the command line as the place of an error.
Location option(const std::string& written) {
  return {std::make_shared<Source>(Source{written, ""}), 0, 0};
}

/// A machine as the options make it.
struct Loaded {
  Machine base, machine;  // before and after edits
  bool edited = false;
  GpuSpec gpu;
  std::string source;
  std::string named;  // as the user named it, for the next command
  std::optional<Build> build;
};

void apply_edits(const Options& o, Loaded& box, Reading& reading) {
  std::vector<Settings::Entry> none;
  Settings edits = Settings::map(none, option("--edit"));
  for (const auto& edit : o.edits) {
    const std::string written = "--edit " + edit;
    const auto change = parse_override(edit);
    if (!change) {
      reading.errors.error(option(written), fmt::format("'{}' is not an edit", edit),
                           "write NAME=VALUE, as p2p=on; ceiling list shows the machine edits");
      continue;
    }
    auto value = parse_yaml(written, change->value);
    if (!value) {
      reading.errors.append(value.error());
      continue;
    }
    if (value->is_scalar()) value = Settings::scalar(value->text(), option(written));
    // Edits are applied by their names; the place of a name is the option that has it.
    Settings one = Settings::map({}, option(written));
    one.set(change->path, std::move(*value));
    std::vector<Settings::Entry> entries = one.entries();
    for (auto& entry : entries) entry.where = option(written);
    edits.merge(Settings::map(std::move(entries), option(written)));
    box.named += fmt::format(
        " --edit {}", edit.find_first_of(" {}'\"") == std::string::npos ? edit : "'" + edit + "'");
  }
  box.edited = !edits.entries().empty();
  if (box.edited && reading.errors.empty()) apply_machine_edits(box.machine, edits, reading);
}

Expected<Loaded> load(const Options& o) {
  Loaded box;
  Reading reading;
  const auto file = load_machine_file(o.machine, {});
  if (!file) return tl::unexpected(file.error());
  box.named = o.machine;
  box.base = read_machine(file->id, file->settings, reading);
  if (const Settings* source = file->settings.find("source"); source && source->is_scalar())
    box.source = source->text();
  if (!reading.errors.empty()) return tl::unexpected(reading.errors);
  if (const auto gpu = load_gpu_file(box.base.gpu_id))
    box.gpu = *gpu;
  else
    reading.errors.append(gpu.error());
  if (!o.build.empty()) {
    const auto build = load_build(o.build, option("--engine-build " + o.build));
    if (build)
      box.build = read_build(o.build, build->settings, reading);
    else
      reading.errors.append(build.error());
    // As a scenario does: what the image sets comes before what a what-if changes.
    if (box.build && box.build->nccl_channels) {
      box.base.interconnect.nccl.channels = box.build->nccl_channels->value;
      box.base.interconnect.nccl.min_nchannels.reset();
    }
  }
  box.machine = box.base;
  apply_edits(o, box, reading);
  if (!reading.errors.empty()) return tl::unexpected(reading.errors);
  return box;
}

Expected<std::unique_ptr<CollectivePricer>> make_pricer(const Loaded& box, int ranks) {
  return make_collective_pricer(box.machine, box.edited ? box.base : box.machine, box.gpu, ranks,
                                box.build ? box.build->all_reduce : AllReducePolicy());
}

Exit overview(const Options& o, const Loaded& box) {
  if (o.format == "dot") return print_result(topology_to_dot(box.machine)), Exit::fine;
  std::unique_ptr<CollectivePricer> pricer;
  if (box.machine.gpu_count() > 1) {
    auto made = make_pricer(box, box.machine.gpu_count());
    if (!made) return report_errors(made.error());
    pricer = std::move(*made);
  }
  const TopologyView view =
      view_topology(box.named, box.machine, box.gpu.name, box.source, pricer.get());
  print_result(o.format == "json" ? topology_to_json(view) : render_topology(view, o.full));
  return Exit::fine;
}

Exit route(const Options& o, const Loaded& box) {
  Diagnostics errors;
  const Location where = option("--route " + o.route);
  const Topology& t = box.machine.topology;
  const auto comma = o.route.find(',');
  if (comma == std::string::npos || o.route.find(',', comma + 1) != std::string::npos) {
    errors.error(where, "a route has two ends", "write --route gpu0,gpu5 or --route gpu0,host");
    return report_errors(errors);
  }
  const auto from = parse_end(o.route.substr(0, comma), t, where, errors);
  const auto to = parse_end(o.route.substr(comma + 1), t, where, errors);
  if (from && to && *from == *to)
    errors.error(where, "both ends are the same", "name two different ends");
  if (errors.empty() && !has_way(t, {*from, *to, Bytes(1)}, copy_options(box.machine)))
    errors.error(where, "the way leads through host memory and the machine has none",
                 "add a host_memory to its devices");
  if (!errors.empty()) return report_errors(errors);
  const RouteReport report{box.named, box.machine, *from, *to};
  print_result(o.format == "json" ? route_to_json(report) : render_route(report));
  return Exit::fine;
}

Exit flows(const Options& o, const Loaded& box) {
  Diagnostics errors;
  FlowsReport report;
  report.named = box.named;
  report.machine = box.machine;
  report.mover = o.mover == "sm_stores" ? Mover::sm_stores : Mover::copy_engine;
  const auto sizes = parse_sizes(o.size, option("--size " + o.size), errors);
  if (sizes.size() > 1)
    errors.error(option("--size " + o.size), "all copies have one size", "write --size 256MiB");
  const Location where = option("--flows " + o.flows);
  report.copies = parse_copies(o.flows, box.machine.gpu_count(),
                               sizes.empty() ? Bytes(1) : sizes[0], where, errors);
  const CopyOptions options = copy_options(box.machine, report.mover);
  for (const Copy& copy : report.copies)
    if (!has_way(box.machine.topology, copy, options)) {
      errors.error(where, "a copy goes through host memory and the machine has none",
                   "add a host_memory to its devices");
      break;
    }
  if (!errors.empty()) return report_errors(errors);
  report.outcome = run_copies(box.machine.topology, report.copies, options);
  print_result(o.format == "json" ? flows_to_json(report) : render_flows(report));
  return Exit::fine;
}

// The kernels that this box lets run a collective.
std::vector<std::string> kernels_that_run(Collective op, const CollectiveBox& box) {
  std::vector<std::string> out = {"nccl"};
  for (const auto& [name, factory] : Registry<CollectiveKernelFactory>::entries())
    if (factory().supports(op, box)) out.push_back(name);
  return out;
}

Exit collective(const Options& o, const Loaded& box) {
  Diagnostics errors;
  CollectiveReport report;
  report.named = box.named;
  report.machine = box.machine;
  report.gpus = o.gpus == 0 ? box.machine.gpu_count() : o.gpus;
  report.build = o.build;
  if (!parse_collective(o.collective, report.op))
    errors.error(option("--collective " + o.collective),
                 fmt::format("there is no collective '{}'", o.collective),
                 suggestion(o.collective, collective_names()));
  const auto sizes = parse_sizes(o.sizes, option("--sizes " + o.sizes), errors);
  const std::string kernel = o.kernel.empty() ? "nccl" : o.kernel;
  auto kernels = Registry<CollectiveKernelFactory>::names();
  kernels.emplace_back("nccl");
  const bool known = std::find(kernels.begin(), kernels.end(), kernel) != kernels.end();
  if (!known)
    errors.error(option("--kernel " + kernel), fmt::format("there is no kernel '{}'", kernel),
                 suggestion(kernel, kernels));
  if (box.machine.gpu_count() < 2)
    errors.error(option("--collective " + o.collective),
                 "the machine has one GPU: a collective needs two",
                 "try --edit gpus=8, or another machine: ceiling list");
  else if (report.gpus < 2 || report.gpus > box.machine.gpu_count())
    errors.error(
        option(fmt::format("--gpus {}", o.gpus)),
        fmt::format("the machine has {} GPUs and a collective needs two", box.machine.gpu_count()),
        fmt::format("write --gpus 2 to --gpus {}", box.machine.gpu_count()));
  if (!errors.empty()) return report_errors(errors);
  const auto pricer = make_pricer(box, report.gpus);
  if (!pricer) return report_errors(pricer.error());
  const auto running = kernels_that_run(report.op, (*pricer)->box());
  if (std::find(running.begin(), running.end(), kernel) == running.end()) {
    errors.error(option("--kernel " + kernel),
                 fmt::format("{} does not run {} of {} GPUs on this machine", kernel,
                             name(report.op), report.gpus),
                 fmt::format("what runs: {}", fmt::join(running, ", ")));
    return report_errors(errors);
  }
  for (const Bytes size : sizes) {
    const CollectivePrice price = box.build ? (*pricer)->price(report.op, size)
                                            : (*pricer)->price_by(kernel, report.op, size);
    report.rows.push_back({size, price, eager_time(price, size)});
  }
  print_result(o.format == "json" ? collective_to_json(report) : render_collective(report));
  return Exit::fine;
}

Exit topology(const Options& o) {
  const auto box = load(o);
  if (!box) return report_errors(box.error());
  const bool graph_only = o.route.empty() && o.flows.empty() && o.collective.empty();
  if (o.format == "dot" && !graph_only) {
    Diagnostics errors;
    errors.error(option("--format dot"), "dot draws the graph of a machine and nothing else",
                 "leave out --route, --flows and --collective, or write --format json");
    return report_errors(errors);
  }
  if (!o.route.empty()) return route(o, *box);
  if (!o.flows.empty()) return flows(o, *box);
  if (!o.collective.empty()) return collective(o, *box);
  return overview(o, *box);
}

std::function<Exit()> setup(CLI::App& app) {
  const auto o = std::make_shared<Options>();
  app.add_option("MACHINE", o->machine, "a name, a topology id (T04) or a path")->required();
  app.add_option("--edit", o->edits, "a machine edit: p2p=on (repeatable)")
      ->allow_extra_args(false);
  app.add_option("--format", o->format, "table, json or dot")
      ->check(CLI::IsMember({"table", "json", "dot"}));
  app.add_flag("--full", o->full, "the bandwidths of every pair of GPUs");
  auto* route_option = app.add_option("--route", o->route, "the hops from A to B: gpu0,gpu5");
  auto* flows_option = app.add_option(
      "--flows", o->flows, "copies together: '0>4,1>5', '0..3>4..7', all-to-all, '0>host'");
  app.add_option("--size", o->size, "of each copy")->needs(flows_option);
  app.add_option("--mover", o->mover, "copy_engine or sm_stores")
      ->check(CLI::IsMember({"copy_engine", "sm_stores"}))
      ->needs(flows_option);
  auto* op =
      app.add_option("--collective", o->collective, "a table as nccl-tests: all_reduce, ...");
  app.add_option("--gpus", o->gpus, "of the collective; else all")->needs(op);
  app.add_option("--sizes", o->sizes, "512B..256MiB or 4KiB,64KiB")->needs(op);
  auto* kernel = app.add_option("--kernel", o->kernel, "nccl, one_shot, two_shot, custom, ...");
  kernel->needs(op);
  app.add_option("--engine-build", o->build, "kernels as this build chooses them")
      ->needs(op)
      ->excludes(kernel);
  route_option->excludes(flows_option)->excludes(op);
  flows_option->excludes(op);
  return [o] { return topology(*o); };
}

const Registered<Command> me("topology", {5, "what talks to what in a machine, and how fast",
                                          "ceiling topology T04", setup});

}  // namespace
