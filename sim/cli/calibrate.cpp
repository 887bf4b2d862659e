// ceiling calibrate: what a box is, what to measure on it, the measurements, and tables from them.

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "calibrate/measure/box_fit.hpp"
#include "calibrate/measure/nccl_topology.hpp"
#include "calibrate/measure/probe.hpp"
#include "calibrate/measure/ranks.hpp"
#include "calibrate/measure/verify.hpp"
#include "sim/base/version.hpp"
#include "sim/cli/command.hpp"
#include "sim/scenario/box_tables.hpp"
#include "sim/scenario/data.hpp"
#include "sim/scenario/kernel_files.hpp"
#include "sim/scenario/yaml.hpp"

namespace {

namespace fs = std::filesystem;

/// One word below the command. `setup` declares its options and returns what to do.
struct CalibrateCommand {
  std::string help, example;
  std::function<Exit()> (*setup)(CommandLine& line);
};

Exit refuse(std::string message, std::string hint = {}) {
  Diagnostics errors;
  errors.error({}, std::move(message), std::move(hint));
  return report_errors(errors);
}

Exit say_no_gpu(const std::string& why) {
  fmt::print(stderr, "no GPU: {}; use calibrate plan, run --backend replay, or ceiling import\n",
             why);
  return Exit::no_gpu;
}

// ---- probe ----

struct ProbeOptions {
  std::string root = "/", gpu = "rtx-pro-6000-server", output, nccl_topology;
};

Exit dump_topology(std::size_t gpus, const std::string& file) {
  if (const auto why = dump_nccl_topology(static_cast<int>(gpus), file); !why.empty())
    return refuse(why, "probe without --nccl-topology needs no NCCL");
  print_result(
      fmt::format("NCCL's view of {} GPUs: {}; ceiling import topology reads it\n", gpus, file));
  return Exit::fine;
}

Exit probe(const ProbeOptions& o) {
  const bool here = o.root == "/", wants_nccl = !o.nccl_topology.empty();
  BoxFacts box = read_box(o.root, here ? cpu_hypervisor() : "");
  std::string no_facts, no_gpu;
  if (here) {
    if (auto said = ask_nvml("libnvidia-ml.so.1"))
      box.driver = std::move(*said);
    else
      no_facts = said.error();
  }
  if (here || wants_nccl) {
    if (auto found = find_gpus("libcuda.so.1"))
      box.cuda = std::move(*found);
    else
      no_gpu = found.error();
  }
  if (box.gpus.empty())
    return say_no_gpu(fmt::format("no NVIDIA device in {}", (fs::path(o.root) / "sys").string()));
  if (!o.output.empty() && !write_whole(o.output, machine_file_draft(box, o.gpu)))
    return refuse(fmt::format("'{}' cannot be written", o.output));
  print_result(render_box(box));
  if (!no_gpu.empty()) return say_no_gpu(no_gpu);
  if (!no_facts.empty())
    fmt::print(stderr, "note: clocks, power and peer access are not known: {}\n", no_facts);
  if (const auto gpu = load_gpu_file(o.gpu))
    if (const auto note = line_rate_note(box, *gpu); !note.empty())
      fmt::print(stderr, "note: {}\n", note);
  return wants_nccl ? dump_topology(box.cuda.size(), o.nccl_topology) : Exit::fine;
}

std::function<Exit()> setup_probe(CommandLine& line) {
  const auto o = std::make_shared<ProbeOptions>();
  line.add("--root", o->root, "folder that holds sys/ (/)");
  line.add("--gpu", o->gpu, "the card's file in hardware/gpus, for the machine file");
  line.add("-o,--output", o->output, "write a draft of a machine file");
  line.add("--nccl-topology", o->nccl_topology,
           "have NCCL write its view of the box to this file too, for ceiling import topology");
  return [o] { return probe(*o); };
}

// ---- plan and run ----

struct PlanArguments {
  std::string model = "glm-5-nvfp4", gpu, profile = "quick", kv = "bf16";
  int tensor_parallel = 8;
};

void add_plan_options(CommandLine& line, PlanArguments& p) {
  line.add("--gpu", p.gpu, "the card, a file of hardware/gpus").required();
  line.add("--model", p.model, "a file of models/zoo (glm-5-nvfp4)");
  line.add("--tensor-parallel", p.tensor_parallel, "GPUs that share a layer (8)");
  line.add("--profile", p.profile, "smoke (at most a minute), quick (three) or full (fifteen)")
      .one_of(plan_profiles());
  line.add("--kv-cache-dtype", p.kv, "bf16 or fp8").one_of({"bf16", "fp8"});
}

struct Planned {
  GpuSpec gpu;
  CalibrationPlan plan;
};

Expected<Planned> make(const PlanArguments& p) {
  Reading reading;
  Diagnostics& errors = reading.errors;
  auto gpu = load_gpu_file(p.gpu);
  if (!gpu) errors.append(gpu.error());
  ModelSpec model;
  if (const auto path = find_data_file("models/zoo", p.model, {}); !path)
    errors.append(path.error());
  else if (const auto file = load_yaml(*path, {}); !file)
    errors.append(file.error());
  else
    model = read_model(fs::path(*path).stem().string(), *file, reading);
  if (p.tensor_parallel < 1)
    errors.error({}, fmt::format("--tensor-parallel {} must be at least 1", p.tensor_parallel));
  else if (errors.empty())
    if (const auto obstacle = tensor_parallel_obstacle(model, p.tensor_parallel); !obstacle.empty())
      errors.error({}, fmt::format("--tensor-parallel {}: {}", p.tensor_parallel, obstacle));
  if (!errors.empty()) return tl::unexpected(errors);
  PlanOptions options;
  options.profile = p.profile;
  options.tensor_parallel = p.tensor_parallel;
  options.kv = p.kv == "fp8" ? Precision::fp8 : Precision::bf16;
  return Planned{*gpu, make_plan(model, *gpu, options)};
}

std::function<Exit()> setup_plan(CommandLine& line) {
  const auto p = std::make_shared<PlanArguments>();
  const auto format = std::make_shared<std::string>("table");
  add_plan_options(line, *p);
  line.add("--format", *format, "table or json").one_of({"table", "json"});
  return [p, format] {
    const auto planned = make(*p);
    if (!planned) return report_errors(planned.error());
    print_result(*format == "json" ? plan_to_json(planned->plan) : render_plan(planned->plan));
    return Exit::fine;
  };
}

struct RunArguments {
  PlanArguments plan;
  std::string backend = "cuda", output;
  bool accept_changes = false, again = false;
  BackEndOptions back_end;
};

// What stands in the file already; a half line at its end is taken off. Nothing when it is new.
Expected<std::optional<RawFile>> resume(const std::string& path) {
  std::error_code code;
  if (!fs::exists(path, code)) return std::nullopt;
  std::ifstream in(path, std::ios::binary);
  std::string first;
  if (std::getline(in, first); in.eof()) return std::nullopt;  // killed in its first line
  auto file = read_raw(path);
  if (!file) return tl::unexpected(file.error());
  if (file->cut_off) {
    fmt::print(stderr, "note: {} ends within a line; that point is measured again\n", path);
    fs::resize_file(path, file->whole_bytes, code);
    if (code) {
      Diagnostics errors;
      errors.error({}, fmt::format("'{}' cannot be written: {}", path, code.message()));
      return tl::unexpected(errors);
    }
  }
  return std::move(*file);
}

// The plan and the back end that a command asks for; the exit code when either is impossible.
struct Opened {
  Planned planned;
  BackEndOptions options;
  std::unique_ptr<MeasuringBackEnd> back_end;
};
tl::expected<Opened, Exit> open(const RunArguments& o) {
  const auto planned = make(o.plan);
  if (!planned) return tl::unexpected(report_errors(planned.error()));
  const auto* kind = Registry<MeasuringBackEndKind>::find(o.backend);
  if (!kind)
    return tl::unexpected(refuse(fmt::format("there is no back end '{}'", o.backend),
                                 suggestion(o.backend, Registry<MeasuringBackEndKind>::names())));
  if (const auto& name = o.back_end.unverified; !name.empty() && !KernelClasses::find(name))
    return tl::unexpected(refuse(fmt::format("--unverified: there is no kernel class '{}'", name),
                                 suggestion(name, KernelClasses::names())));
  Opened out{*planned, o.back_end, nullptr};
  out.options.gpu = planned->gpu;
  auto back_end = kind->open(out.options);
  if (!back_end) {
    const auto& refusal = back_end.error();
    return tl::unexpected(refusal.no_gpu ? say_no_gpu(refusal.errors.list().front().message)
                                         : report_errors(refusal.errors));
  }
  out.back_end = std::move(*back_end);
  return out;
}

Exit run(const RunArguments& o) {
  const auto opened = open(o);
  if (!opened) return opened.error();
  const CalibrationPlan& plan = opened->planned.plan;
  const BackEndOptions& options = opened->options;
  MeasuringBackEnd& back_end = *opened->back_end;
  const DeviceFacts device = back_end.device();
  if (device.gpu != plan.gpu && !o.accept_changes)
    return refuse(fmt::format("the plan is for {}, the back end measures {}", plan.gpu, device.gpu),
                  "name the card with --gpu, or --accept-changes");

  const std::string path = o.output.empty() ? plan.gpu + ".jsonl" : o.output;
  const auto before = resume(path);
  if (!before) return report_errors(before.error());
  if (*before && !o.accept_changes)
    if (const auto changes = device_changes((*before)->header.device, device); !changes.empty())
      return refuse(fmt::format("{} was measured elsewhere: {}", path, fmt::join(changes, "; ")),
                    "write to another file with -o, or --accept-changes");

  std::FILE* file = std::fopen(path.c_str(), *before ? "ab" : "wb");
  bool written = file != nullptr;
  const auto write = [&](std::string_view line) {
    written = written && std::fwrite(line.data(), 1, line.size(), file) == line.size() &&
              std::fflush(file) == 0;
  };
  if (file && !*before) {
    RawHeader header;
    header.back_end = o.backend;
    header.device = device;
    header.version = version();
    header.command = fmt::format(
        "ceiling calibrate run --backend {} --gpu {} --model {} --tensor-parallel {} --profile {} "
        "--kv-cache-dtype {} --seed {}",
        o.backend, plan.gpu, plan.model, plan.tensor_parallel, plan.profile, o.plan.kv,
        options.seed);
    header.model = plan.model;
    header.profile = plan.profile;
    header.tensor_parallel = plan.tensor_parallel;
    header.plan = fmt::format("{:016x}", plan.hash());
    write(to_line(header));
  }
  std::map<std::string, PointState> have;
  if (*before)
    for (const auto& p : (*before)->points) have[p.key] = p.state;
  const auto done = [&](const std::string& key) {
    const auto it = have.find(key);
    if (it == have.end()) return false;
    return !o.again || fittable(it->second) || it->second == PointState::unsupported;
  };
  const auto go_on = [&](std::size_t i, const std::string& key) {
    progress(fmt::format("{}/{} {}", i + 1, plan.points.size(), key));
    return written && !interrupted();
  };
  RunCounts counts;
  if (written) counts = run_plan(plan, back_end, done, go_on, write);
  progress("");
  if (file && std::fclose(file) != 0) written = false;
  if (!written)
    return refuse(fmt::format("'{}' cannot be written", path),
                  "name a file in a folder that exists and has room; what it holds is kept");

  for (const auto& [what, keys] : counts.problems) {
    constexpr std::size_t shown = 3;
    fmt::print(stderr, "warning: {} point{} {}\n", keys.size(), keys.size() == 1 ? "" : "s", what);
    for (std::size_t i = 0; i < std::min(shown, keys.size()); ++i)
      fmt::print(stderr, "  {}\n", keys[i]);
    if (keys.size() > shown) fmt::print(stderr, "  and {} more\n", keys.size() - shown);
  }
  if (std::any_of(counts.states.begin(), counts.states.end(), [](const auto& state) {
        return !fittable(state.first) && state.first != PointState::unsupported;
      }))
    fmt::print(stderr, "note: --again measures anew what was disturbed, failed or unverified\n");
  std::string text = fmt::format("{}:", path);
  for (const auto& [state, count] : counts.states)
    text += fmt::format(" {} {},", count, name(state));
  text += fmt::format(" {} already there, {} left\n", counts.already, counts.left);
  print_result(text);
  return counts.left > 0 ? Exit::interrupted : Exit::fine;
}

Exit verify(const RunArguments& o) {
  const auto opened = open(o);
  if (!opened) return opened.error();
  const auto verdicts = verify_plan(opened->planned.plan, *opened->back_end);
  print_result(render_verdicts(verdicts));
  const auto bad = [](const Verdict& v) {
    return v.state != PointState::ok && v.state != PointState::unsupported;
  };
  return std::any_of(verdicts.begin(), verdicts.end(), bad) ? Exit::expectation_failed : Exit::fine;
}

void add_back_end_options(CommandLine& line, RunArguments& o) {
  add_plan_options(line, o.plan);
  line.add("--backend", o.backend, "cuda, synthetic or replay (cuda)");
  line.add("--recording", o.back_end.recording, "replay: the raw file to play");
  line.add("--unverified", o.back_end.unverified, "synthetic: a kernel class that fails its check");
}

std::function<Exit()> setup_verify(CommandLine& line) {
  const auto o = std::make_shared<RunArguments>();
  add_back_end_options(line, *o);
  return [o] { return verify(*o); };
}

std::function<Exit()> setup_run(CommandLine& line) {
  const auto o = std::make_shared<RunArguments>();
  add_back_end_options(line, *o);
  line.add("-o,--output", o->output, "raw file, continued when it exists (GPU.jsonl)");
  line.add("--seed", o->back_end.seed, "synthetic: of the noise (1)");
  line.add("--noise", o->back_end.noise, "synthetic: of one sample, relative (0.01)")
      .range(0.0, 0.5);
  line.add("--again", o->again, "measure again what failed or was disturbed");
  line.add("--accept-changes", o->accept_changes, "continue a file of another device or driver");
  return [o] { return run(*o); };
}

// ---- fit and compare ----

struct FitArguments {
  std::vector<std::string> files;
  std::string output;
  bool accept_changes = false;
};

Exit fit(const FitArguments& o) {
  Diagnostics errors;
  std::vector<RawFile> files;
  for (const auto& path : o.files) {
    auto file = read_raw(path);
    if (!file) {
      errors.append(file.error());
      continue;
    }
    if (file->cut_off) fmt::print(stderr, "note: {} ends within a line, left out\n", path);
    if (!files.empty() && !o.accept_changes)
      for (const auto& change : device_changes(files[0].header.device, file->header.device))
        errors.error({}, fmt::format("{} and {}: {}", path, o.files[0], change),
                     "fit them apart, or --accept-changes");
    files.push_back(std::move(*file));
  }
  if (!errors.empty()) return report_errors(errors);
  const auto gpu = load_gpu_file(files[0].header.device.gpu);
  if (!gpu) return report_errors(gpu.error());
  const auto fitted = fit_raw(files, *gpu);
  if (!fitted) return report_errors(fitted.error());
  std::error_code code;
  fs::create_directories(o.output, code);
  for (const auto& [kernel_class, sets] : fitted->sets) {
    const auto path = fs::path(o.output) / (kernel_class + ".table");
    if (!write_whole(path.string(), write_kernel_sets(gpu->id, sets)))
      return refuse(fmt::format("'{}' cannot be written", path.string()));
  }
  if (const auto path = fs::path(o.output) / box_collectives;
      !fitted->collectives.empty() &&
      !write_whole(path.string(),
                   collectives_text(fitted->collectives,
                                    "# Written by 'ceiling calibrate fit'. Sizes are those of the "
                                    "whole vector; medians of graph replays.\n")))
    return refuse(fmt::format("'{}' cannot be written", path.string()));
  print_result(
      render_fit(*fitted) +
      fmt::format("  use them: ceiling run SCENARIO --set engine.kernel_tables={}\n", o.output));
  return Exit::fine;
}

std::function<Exit()> setup_fit(CommandLine& line) {
  const auto o = std::make_shared<FitArguments>();
  line.add("FILE", o->files, "raw files of one box").required();
  line.add("-o,--output", o->output, "folder for its tables").required();
  line.add("--accept-changes", o->accept_changes, "fit files of several devices or drivers");
  return [o] { return fit(*o); };
}

std::function<Exit()> setup_compare(CommandLine& line) {
  const auto paths = std::make_shared<std::array<std::string, 2>>();
  const auto format = std::make_shared<std::string>("table");
  line.add("BEFORE", (*paths)[0], "raw file").required();
  line.add("AFTER", (*paths)[1], "raw file").required();
  line.add("--format", *format, "table or json").one_of({"table", "json"});
  return [paths, format] {
    Diagnostics errors;
    const auto before = read_raw((*paths)[0]), after = read_raw((*paths)[1]);
    if (!before) errors.append(before.error());
    if (!after) errors.append(after.error());
    if (!errors.empty()) return report_errors(errors);
    const auto c = compare_raw(*before, *after);
    print_result(*format == "json" ? comparison_to_json(c) : render_comparison(*before, *after, c));
    return Exit::fine;
  };
}

// ---- worker ----

// One rank of a RankTeam, which starts it and speaks to it.
std::function<Exit()> setup_worker(CommandLine& line) {
  const auto plugin = std::make_shared<std::string>();
  const auto device = std::make_shared<int>(0);
  line.add("--plugin", *plugin, "its file").required();
  line.add("--device", *device, "index of the GPU");
  return [plugin, device] {
    serve_rank(*plugin, *device, 0, 1);
    return Exit::fine;
  };
}

const Registered<CalibrateCommand> words[] = {
    {"probe",
     {"what the box is, as far as it can be seen without measuring",
      "ceiling calibrate probe -o my-box.yaml", setup_probe}},
    {"plan",
     {"the points to measure for a model, their bytes and seconds; needs no GPU",
      "ceiling calibrate plan --gpu rtx-pro-6000-server --profile full", setup_plan}},
    {"run",
     {"measures the plan into a raw file, or what of it is missing there",
      "ceiling calibrate run --backend synthetic --gpu rtx-pro-6000-server -o raw.jsonl",
      setup_run}},
    {"verify",
     {"compares every kernel of the plan with its CPU reference and measures nothing",
      "ceiling calibrate verify --gpu rtx-pro-6000-server", setup_verify}},
    {"fit",
     {"kernel tables from raw files", "ceiling calibrate fit raw.jsonl -o my-tables", setup_fit}},
    {"compare",
     {"what moved beyond noise between two raw files",
      "ceiling calibrate compare before.jsonl after.jsonl", setup_compare}},
    {"worker", {"", "", setup_worker}}};

const Registered<Command> me("calibrate",
                             {7,
                              "kernel times of a box: what to measure, measuring, tables from it",
                              "ceiling calibrate run --backend synthetic --gpu rtx-pro-6000-server",
                              choose<CalibrateCommand>});

}  // namespace
