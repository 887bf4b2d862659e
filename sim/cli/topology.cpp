#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "hardware/collective/eager.hpp"
#include "hardware/collective/kernels/kernel.hpp"
#include "hardware/collective/staging.hpp"
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
  std::string flows, size, mover;
  std::string collective, sizes, kernel, build;
  std::optional<int> gpus;
};

// An option on the command line as the place of an error.
Location option(const std::string& written) {
  return {std::make_shared<Source>(Source{written, ""}), 0, 0};
}

/// What can be read without the machine; the errors of all of it go together.
struct Asked {
  std::vector<Settings::Entry> edits;  // by name, each with its option as its place
  std::string edits_text;              // as the next command repeats them
  Mover mover = Mover::copy_engine;
  Bytes size{1};
  Collective op = Collective::all_reduce;
  std::vector<Bytes> sizes;
  std::optional<Build> build;
};

bool in(const std::string& word, const std::vector<std::string>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::vector<std::string> all_kernels() {
  auto out = Registry<CollectiveKernelFactory>::names();
  out.emplace_back("nccl");
  return out;
}

// As a shell takes it for one word.
std::string shell_word(const std::string& word) {
  const bool plain = std::all_of(word.begin(), word.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) ||
           std::string_view("_-=./,:").find(c) != std::string_view::npos;
  });
  if (plain) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

void read_edit(const std::string& edit, Asked& asked, Reading& reading) {
  const std::string written = "--edit " + edit;
  const auto change = parse_override(edit);
  if (!change) {
    reading.errors.error(option(written), fmt::format("'{}' is not an edit", edit),
                         "write NAME=VALUE, as p2p=on; ceiling list shows the machine edits");
    return;
  }
  auto value = parse_yaml(written, change->value);
  if (!value) return reading.errors.append(value.error());
  if (value->is_scalar()) value = Settings::scalar(value->text(), option(written));
  // "insert_switch.gpus=4" is a part of one edit.
  Settings all = Settings::map(asked.edits, option("--edit"));
  const std::string name = change->path.substr(0, change->path.find('.'));
  const bool fresh = !all.find(name);
  all.set(change->path, std::move(*value));
  asked.edits = all.entries();
  if (fresh) asked.edits.back().where = option(written);
  asked.edits_text += " --edit " + shell_word(edit);
}

// An option that speaks only with another one.
void need(bool given, const char* name, bool with, const char* other, Diagnostics& errors) {
  if (given && !with)
    errors.error(option(name), fmt::format("{} says nothing without {}", name, other),
                 fmt::format("add {}, or leave it out", other));
}

Asked read_options(const Options& o, Reading& reading) {
  Asked asked;
  Diagnostics& errors = reading.errors;
  if (const std::vector<std::string> formats = {"table", "json", "dot"}; !in(o.format, formats))
    errors.error(option("--format " + o.format), fmt::format("there is no format '{}'", o.format),
                 suggestion(o.format, formats));
  const bool moves = !o.flows.empty(), collects = !o.collective.empty();
  if (static_cast<int>(!o.route.empty()) + moves + collects > 1)
    errors.error(option("--route, --flows, --collective"), "these are three questions",
                 "ask one at a time");
  if (o.format == "dot" && (!o.route.empty() || moves || collects))
    errors.error(option("--format dot"), "dot draws the graph of a machine and nothing else",
                 "leave out --route, --flows and --collective, or write --format json");
  need(o.full, "--full", o.route.empty() && !moves && !collects && o.format == "table",
       "the table of a machine", errors);
  need(!o.size.empty(), "--size", moves, "--flows", errors);
  need(!o.mover.empty(), "--mover", moves, "--flows", errors);
  need(o.gpus.has_value(), "--gpus", collects, "--collective", errors);
  need(!o.sizes.empty(), "--sizes", collects, "--collective", errors);
  need(!o.kernel.empty(), "--kernel", collects, "--collective", errors);
  need(!o.build.empty(), "--engine-build", collects, "--collective", errors);

  for (const auto& edit : o.edits) read_edit(edit, asked, reading);
  if (moves) {
    const std::string size = o.size.empty() ? "256MiB" : o.size;
    const auto sizes = parse_sizes(size, option("--size " + size), errors);
    if (sizes.size() > 1)
      errors.error(option("--size " + size), "all copies have one size", "write --size 256MiB");
    if (!sizes.empty()) asked.size = sizes[0];
    const std::vector<std::string> movers = {"copy_engine", "sm_stores"};
    if (!o.mover.empty() && !in(o.mover, movers))
      errors.error(option("--mover " + o.mover), fmt::format("there is no mover '{}'", o.mover),
                   suggestion(o.mover, movers));
    if (o.mover == "sm_stores") asked.mover = Mover::sm_stores;
  }
  if (collects) {
    if (!parse_collective(o.collective, asked.op))
      errors.error(option("--collective " + o.collective),
                   fmt::format("there is no collective '{}'", o.collective),
                   suggestion(o.collective, collective_names()));
    const std::string sizes = o.sizes.empty() ? "512B..256MiB" : o.sizes;
    asked.sizes = parse_sizes(sizes, option("--sizes " + sizes), errors);
    if (!o.kernel.empty() && !o.build.empty())
      errors.error(option("--kernel " + o.kernel), "a build chooses the kernels itself",
                   "leave out --kernel or --engine-build");
    if (!o.kernel.empty() && !in(o.kernel, all_kernels()))
      errors.error(option("--kernel " + o.kernel), fmt::format("there is no kernel '{}'", o.kernel),
                   suggestion(o.kernel, all_kernels()));
    if (!o.build.empty()) {
      const auto build = load_build(o.build, option("--engine-build " + o.build));
      if (build)
        asked.build = read_build(o.build, build->settings, reading);
      else
        errors.append(build.error());
    }
  }
  return asked;
}

/// A machine as the options make it.
struct Box {
  Machine base, machine;  // before and after edits
  bool edited = false;
  GpuSpec gpu;
  std::string source;
  std::string named;  // as the user named it, for the next command
};

// Nothing after an error.
std::optional<Box> load(const Options& o, const Asked& asked, Reading& reading) {
  Box box;
  const auto file = load_machine_file(o.machine, option("MACHINE"));
  if (!file) return reading.errors.append(file.error()), std::nullopt;
  Reading here;
  box.base = read_machine(file->id, file->settings, here);
  if (const auto gpu = load_gpu_file(box.base.gpu_id); here.errors.empty() && gpu)
    box.gpu = *gpu;
  else if (here.errors.empty())
    here.errors.append(gpu.error());
  if (here.errors.empty())
    box.base.interconnect =
        with_timed_staging(box.base.topology, box.base.interconnect, box.gpu.compute_capability);
  if (const Settings* source = file->settings.find("source"); source && source->is_scalar())
    box.source = source->text();
  if (here.errors.empty() && asked.build && asked.build->architecture != box.gpu.architecture)
    here.errors.error(option("--engine-build " + o.build),
                      fmt::format("the build is for {}, the GPUs are {}", asked.build->architecture,
                                  box.gpu.architecture),
                      "ceiling list names the builds and their GPUs");
  // As a scenario does: what the image sets comes before what a what-if changes.
  if (asked.build && asked.build->nccl_channels) {
    box.base.interconnect.nccl.channels = asked.build->nccl_channels->value;
    box.base.interconnect.nccl.min_nchannels.reset();
  }
  box.machine = box.base;
  box.edited = !asked.edits.empty();
  const Settings edits = Settings::map(asked.edits, option("--edit"));
  if (box.edited && here.errors.empty()) apply_machine_edits(box.machine, edits, here);
  box.named = shell_word(o.machine) + asked.edits_text;
  reading.errors.append(here.errors);
  if (!here.errors.empty()) return std::nullopt;
  return box;
}

Expected<std::unique_ptr<CollectivePricer>> make_pricer(const Box& box, const Asked& asked,
                                                        int ranks) {
  return make_collective_pricer(box.machine, box.edited ? box.base : box.machine, box.gpu, ranks,
                                asked.build ? asked.build->all_reduce : AllReducePolicy());
}

constexpr const char* no_memory = "the way leads through host memory and the machine has none";

RouteReport read_route(const Options& o, const Box& box, Diagnostics& errors) {
  RouteReport report{box.named, box.machine, 0, 0};
  const Location where = option("--route " + o.route);
  const Topology& t = box.machine.topology;
  const auto comma = o.route.find(',');
  if (comma == std::string::npos || o.route.find(',', comma + 1) != std::string::npos) {
    errors.error(where, "a route has two ends", "write --route gpu0,gpu5 or --route gpu0,host");
    return report;
  }
  const auto from = parse_end(o.route.substr(0, comma), t, where, errors);
  const auto to = parse_end(o.route.substr(comma + 1), t, where, errors);
  if (!from || !to) return report;
  report.from = *from, report.to = *to;
  if (*from == *to)
    errors.error(where, "both ends are the same", "name two different ends");
  else if (!has_way(t, {*from, *to, Bytes(1)}, copy_options(box.machine)))
    errors.error(where, no_memory, "add a host_memory to its devices");
  return report;
}

FlowsReport read_flows(const Options& o, const Asked& asked, const Box& box, Diagnostics& errors) {
  FlowsReport report;
  report.named = box.named;
  report.machine = box.machine;
  report.flows = o.flows;
  report.mover = asked.mover;
  const Location where = option("--flows " + o.flows);
  report.copies = parse_copies(o.flows, box.machine.gpu_count(), asked.size, where, errors);
  const CopyOptions options = copy_options(box.machine, asked.mover);
  if (!std::all_of(report.copies.begin(), report.copies.end(),
                   [&](const Copy& copy) { return has_way(box.machine.topology, copy, options); }))
    errors.error(where, no_memory, "add a host_memory to its devices");
  return report;
}

// The kernels that this box lets run a collective.
std::vector<std::string> kernels_that_run(Collective op, const CollectiveBox& box) {
  std::vector<std::string> out;
  for (const auto& [name, factory] : Registry<CollectiveKernelFactory>::entries())
    if (factory().supports(op, box)) out.push_back(name);
  out.emplace_back("nccl");
  return out;
}

void check_gpus(const Options& o, const Box& box, Diagnostics& errors) {
  const int there = box.machine.gpu_count();
  if (there < 2)
    errors.error(option("--collective " + o.collective),
                 "the machine has one GPU: a collective needs two",
                 "try --edit gpus=8, or another machine: ceiling list");
  else if (const int gpus = o.gpus.value_or(there); gpus < 2 || gpus > there)
    errors.error(
        option(fmt::format("--gpus {}", gpus)),
        fmt::format("a collective here has 2 to {} GPUs", there),
        gpus < 2 ? "write --gpus 2 or more" : fmt::format("more of them: --edit gpus={}", gpus));
}

CollectiveReport price(const Options& o, const Asked& asked, const Box& box, Diagnostics& errors) {
  CollectiveReport report;
  report.named = box.named;
  report.machine = box.machine;
  report.op = asked.op;
  report.gpus = o.gpus.value_or(box.machine.gpu_count());
  report.build = o.build;
  report.kernel = o.kernel.empty() ? "nccl" : o.kernel;
  const auto pricer = make_pricer(box, asked, report.gpus);
  if (!pricer) return errors.append(pricer.error()), report;
  const auto running = kernels_that_run(report.op, (*pricer)->box());
  if (!in(report.kernel, running))
    errors.error(option("--kernel " + o.kernel),
                 fmt::format("{} does not run {} of {} GPUs on this machine", o.kernel,
                             name(report.op), report.gpus),
                 fmt::format("what runs: {}", fmt::join(running, ", ")));
  if (!errors.empty()) return report;
  for (const auto& kernel : running)
    if (kernel != report.kernel) report.others.push_back(kernel);
  for (const Bytes size : asked.sizes) {
    const CollectivePrice price = asked.build ? (*pricer)->price(report.op, size)
                                              : (*pricer)->price_by(report.kernel, report.op, size);
    report.rows.push_back({size, price, eager_time(price, size)});
  }
  return report;
}

Exit overview(const Options& o, const Asked& asked, const Box& box) {
  if (o.format == "dot") return print_result(topology_to_dot(box.machine)), Exit::fine;
  std::unique_ptr<CollectivePricer> pricer;
  if (box.machine.gpu_count() > 1) {
    auto made = make_pricer(box, asked, box.machine.gpu_count());
    if (!made) return report_errors(made.error());
    pricer = std::move(*made);
  }
  const TopologyView view =
      view_topology(box.named, box.machine, box.gpu.name, box.source, pricer.get());
  print_result(o.format == "json" ? topology_to_json(view) : render_topology(view, o.full));
  return Exit::fine;
}

Exit topology(const Options& o) {
  Reading reading;
  Diagnostics& errors = reading.errors;
  const Asked asked = read_options(o, reading);
  const auto box = load(o, asked, reading);
  const bool json = o.format == "json";
  std::string out;
  if (!box) return report_errors(errors);
  if (!o.route.empty()) {
    const RouteReport report = read_route(o, *box, errors);
    if (errors.empty()) out = json ? route_to_json(report) : render_route(report);
  } else if (!o.flows.empty()) {
    FlowsReport report = read_flows(o, asked, *box, errors);
    if (errors.empty()) {
      report.outcome = run_copies(box->machine.topology, report.copies,
                                  copy_options(box->machine, report.mover));
      out = json ? flows_to_json(report) : render_flows(report);
    }
  } else if (!o.collective.empty()) {
    check_gpus(o, *box, errors);
    if (errors.empty()) {
      const CollectiveReport report = price(o, asked, *box, errors);
      if (errors.empty()) out = json ? collective_to_json(report) : render_collective(report);
    }
  } else if (errors.empty()) {
    return overview(o, asked, *box);
  }
  if (!errors.empty()) return report_errors(errors);
  print_result(out);
  return Exit::fine;
}

std::function<Exit()> setup(CommandLine& line) {
  const auto o = std::make_shared<Options>();
  line.add("MACHINE", o->machine, "a name, a topology id (T04) or a path").required();
  line.add("--edit", o->edits, "a machine edit, NAME=VALUE: p2p=on (repeatable)").one_at_a_time();
  line.add("--format", o->format, "table, json or dot (Graphviz)");
  line.add("--full", o->full, "the bandwidths of every pair of GPUs");
  line.add("--route", o->route, "the hops from one end to the other: gpu0,gpu5");
  line.add("--flows", o->flows, "copies together: '0>4,1>host', '0..3>4..7', all-to-all");
  line.add("--size", o->size, "of each copy: 256MiB");
  line.add("--mover", o->mover, "copy_engine (as cudaMemcpy) or sm_stores (kernels)");
  line.add("--collective", o->collective, "times as nccl-tests prints them: all_reduce");
  line.add("--gpus", o->gpus, "of the collective, the first ones; else all");
  line.add("--sizes", o->sizes, "of the collective: 512B..256MiB or 4KiB,64KiB");
  line.add("--kernel", o->kernel, "nccl, or an engine's own: one_shot, two_shot, custom");
  line.add("--engine-build", o->build, "kernels by size as this build chooses them");
  return [o] { return topology(*o); };
}

const Registered<Command> me("topology", {5, "what talks to what in a machine, and how fast",
                                          "ceiling topology T04", setup});

}  // namespace
