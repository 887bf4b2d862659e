#include "sim/scenario/experiment.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "hardware/collective/staging.hpp"
#include "sim/base/assert.hpp"
#include "sim/base/versions.hpp"
#include "sim/scenario/box_tables.hpp"
#include "sim/scenario/build_file.hpp"
#include "sim/scenario/collective_files.hpp"
#include "sim/scenario/data.hpp"
#include "sim/scenario/kernel_files.hpp"
#include "sim/scenario/machine_file.hpp"
#include "sim/scenario/scaled_laws.hpp"
#include "sim/scenario/yaml.hpp"

Settings* Inputs::tree(const std::string& root) {
  if (root == "machine") return &machine;
  if (root == "gpu") return &gpu;
  if (root == "model") return &model;
  if (root == "build") return &build;
  if (root == "laws") return &laws;
  return nullptr;
}

namespace {

void hash_into(std::uint64_t& hash, const std::string& text) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  hash = (hash ^ 0xffU) * 0x100000001b3ULL;
}

void hash_into(std::uint64_t& hash, const Settings& s) {
  hash_into(hash, s.text());
  for (const auto& item : s.items()) hash_into(hash, item);
  for (const auto& entry : s.entries()) {
    if (entry.key == "source" || entry.key == "note") continue;
    hash_into(hash, entry.key);
    hash_into(hash, entry.value);
  }
}

// Loads one file that the scenario or another file names.
Settings load(const std::string& folder, const std::string& name, const Location& wanted_by,
              Inputs& inputs, Diagnostics& errors) {
  auto path = find_data_file(folder, name, wanted_by);
  if (!path) {
    errors.append(path.error());
    return {};
  }
  auto file = load_yaml(*path, wanted_by);
  if (!file) {
    errors.append(file.error());
    return {};
  }
  inputs.files.push_back(*path);
  return *file;
}

std::string text_of(const Settings* node) {
  return node && node->is_scalar() ? node->text() : std::string();
}

// The kernel classes that a model needs beside those of every model.
std::vector<std::string> needed_back_ends(const ModelSpec& m) {
  std::vector<std::string> needed =
      m.mla() ? std::vector<std::string>{"batched_gemm", "mla_decode", "mla_prefill"}
              : std::vector<std::string>{"attention_decode", "attention_prefill"};
  if (m.indexer) needed.push_back("indexer");
  if (m.moe) needed.push_back("moe");
  return needed;
}

// All that it runs; `attention_mixed` where the build has such a kernel.
std::vector<std::string> kernels_run(const ModelSpec& m) {
  auto kernels = needed_back_ends(m);
  kernels.insert(kernels.end(), {"gemm", "elementwise"});
  if (!m.mla()) kernels.push_back("attention_mixed");
  return kernels;
}

// Those of the needed that a build names no back end for.
std::vector<std::string> unnamed_back_ends(const Settings& build, const ModelSpec& m) {
  auto needed = needed_back_ends(m);
  std::erase_if(needed, [&](const auto& kernel) { return build.at("back_ends." + kernel); });
  return needed;
}

// Whether laws name every back end that a build runs for a model.
bool prices(const Settings& laws, const Settings& build, const ModelSpec& m) {
  const auto kernels = kernels_run(m);
  return std::all_of(kernels.begin(), kernels.end(), [&](const std::string& kernel) {
    const Settings* back_end = build.at("back_ends." + kernel);
    return !back_end || laws.at(kernel + "." + text_of(back_end));
  });
}

// The laws of a card that was measured itself; nothing of another.
std::optional<Settings> own_laws(const std::string& gpu) {
  const std::string folder = "hardware/tables/" + gpu;
  if (data_names(folder).empty()) return std::nullopt;
  const auto path = find_data_file(folder, "laws", {});
  if (!path) return std::nullopt;
  const auto laws = load_yaml(*path, {});
  return laws ? std::optional(*laws) : std::nullopt;  // what is wrong with it, resolve() says
}

// The build when the scenario names none: of this engine on this GPU with kernels for this model
// and laws of the card for them, in the nearest version where the scenario states one, else the
// first by name, those before others that are no variation (`like`).
std::string choose_build(const std::string& engine, const std::string& version, const Settings& gpu,
                         Inputs& inputs) {
  const std::string architecture = text_of(gpu.find("architecture"));
  Reading ignored;  // make() reads the model again and says what is wrong with it
  const ModelSpec model = read_model(inputs.model_id, inputs.model, ignored);
  const auto laws = own_laws(inputs.gpu_id);
  std::string best;
  double distance = 0;
  for (const auto& name : builds_naming(architecture)) {
    const auto file = load_build(name, {});
    if (!file || text_of(file->settings.find("engine")) != engine ||
        text_of(file->settings.find("architecture")) != architecture)
      continue;
    if (ignored.errors.empty() && !unnamed_back_ends(file->settings, model).empty()) continue;
    if (ignored.errors.empty() && laws && !prices(*laws, file->settings, model)) continue;
    const double away = version.empty()
                            ? (file->files.size() > 1 ? 1 : 0)
                            : version_distance(version, text_of(file->settings.find("version")));
    if (!best.empty() && away >= distance) continue;
    best = name;
    distance = away;
  }
  if (!best.empty())
    inputs.build_chosen_because = fmt::format(
        "the scenario names no build; {} is the {} for {} on {}", best,
        version.empty() ? "first" : "nearest to version " + version, engine, architecture);
  return best;
}

// The back ends of a build without those that this model runs no kernel of.
BackEnds back_ends_for(const ModelSpec& model, BackEnds b) {
  const auto run = kernels_run(model);
  const auto keep = [&](const char* kernel, std::string& back_end) {
    if (std::find(run.begin(), run.end(), kernel) == run.end()) back_end.clear();
  };
  keep("batched_gemm", b.batched_gemm);
  keep("moe", b.moe);
  keep("mla_decode", b.mla_decode);
  keep("mla_prefill", b.mla_prefill);
  keep("indexer", b.indexer);
  keep("attention_decode", b.attention_decode);
  keep("attention_prefill", b.attention_prefill);
  keep("attention_mixed", b.attention_mixed);
  return b;
}

// The classes of fitted tables that back ends answer from.
std::vector<std::string> table_classes(const BackEnds& b, const Settings& laws) {
  struct Tabled {
    const char* kernel;
    const std::string& back_end;
    const char* table;
  };
  const Tabled all[] = {{"gemm", b.gemm, "gemm"},
                        {"batched_gemm", b.batched_gemm, "mla_bmm"},
                        {"moe", b.moe, "moe"},
                        {"mla_decode", b.mla_decode, "generation_mla"},
                        {"mla_prefill", b.mla_prefill, "context_mla"},
                        {"attention_decode", b.attention_decode, "generation_attention"},
                        {"attention_prefill", b.attention_prefill, "context_attention"},
                        {"attention_mixed", b.attention_mixed, "mixed_attention"}};
  std::vector<std::string> out;
  for (const auto& [kernel, back_end, table] : all)
    if (text_of(laws.at(fmt::format("{}.{}.model", kernel, back_end))).ends_with("table"))
      out.push_back(table);
  return out;
}

// Every tensor parallel size that this model and this machine allow, for people.
std::string sizes_that_fit(const ModelSpec& model, const Machine& machine) {
  std::vector<int> sizes;
  for (int tp = 1; tp <= machine.gpu_count(); ++tp)
    if (tensor_parallel_obstacle(model, tp).empty()) sizes.push_back(tp);
  return fmt::format("possible here: {}", fmt::join(sizes, ", "));
}

void collect_uncertain(const Settings& node, const std::string& path, std::vector<Uncertain>& out) {
  if (node.is_map() && node.find("value") && node.find("spread")) {
    const auto spread = parse<double>(text_of(node.find("spread")));
    if (!spread || *spread <= 1) return;
    const std::string label = text_of(node.find("label"));
    out.push_back({path, label.empty() ? path : label, *spread});
    return;
  }
  for (const auto& entry : node.entries())
    collect_uncertain(entry.value, path + "." + entry.key, out);
  for (std::size_t i = 0; i < node.items().size(); ++i)
    collect_uncertain(node.items()[i], fmt::format("{}.{}", path, i), out);
}

}  // namespace

std::uint64_t Inputs::hash() const {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const Settings* tree : {&scenario, &machine, &gpu, &model, &build, &laws})
    hash_into(hash, *tree);
  return hash;
}

Expected<Inputs> resolve(const Scenario& scenario) {
  Inputs in;
  in.scenario = scenario.tree;
  Reading reading;
  Diagnostics& errors = reading.errors;
  const auto named = [&](const char* key) {
    const Settings* node = in.scenario.find(key);
    if (!node || !node->is_scalar()) {
      errors.error(node ? node->where() : in.scenario.where(),
                   fmt::format("the scenario needs '{}'", key),
                   fmt::format("write '{}: NAME'; ceiling list shows the names", key));
      return std::string();
    }
    return node->text();
  };
  const auto place = [&](const char* path) {
    const Settings* node = in.scenario.at(path);
    return node ? node->where() : in.scenario.where();
  };
  in.machine_id = named("machine");
  in.model_id = named("model");
  if (!in.machine_id.empty()) {
    auto machine = load_machine_file(in.machine_id, place("machine"));
    if (!machine) {
      errors.append(machine.error());
    } else {
      in.machine_id = machine->id;
      in.machine = std::move(machine->settings);
      in.files.insert(in.files.end(), machine->files.begin(), machine->files.end());
    }
  }
  if (!in.model_id.empty()) in.model = load("models/zoo", in.model_id, place("model"), in, errors);
  in.gpu_id = machine_gpu(in.machine);
  if (!in.gpu_id.empty())
    in.gpu = load("hardware/gpus", in.gpu_id, in.machine.find("gpu")->where(), in, errors);

  const Settings* engine = in.scenario.find("engine");
  if (!engine || !engine->is_map()) {
    errors.error(place("engine"), "the scenario needs 'engine'",
                 "write 'engine: {kind: sglang, ...}'");
  } else if (!in.gpu.is_null()) {
    const std::string kind = text_of(engine->find("kind"));
    in.build_id = text_of(engine->find("build"));
    if (in.build_id.empty() && !kind.empty())
      in.build_id = choose_build(kind, text_of(engine->find("version")), in.gpu, in);
    if (!in.build_id.empty()) {
      const Settings* named_build = engine->find("build");
      auto build = load_build(in.build_id, named_build ? named_build->where() : engine->where());
      if (!build) {
        errors.append(build.error());
      } else {
        in.build = std::move(build->settings);
        in.build_filled = std::move(build->filled);
        in.files.insert(in.files.end(), build->files.begin(), build->files.end());
      }
      if (const Settings* tables = in.build.find("tables")) {
        // a card that was measured itself is priced from its own tables
        in.tables_id =
            data_names("hardware/tables/" + in.gpu_id).empty() ? tables->text() : in.gpu_id;
        in.laws = load("hardware/tables/" + in.tables_id, "laws", tables->where(), in, errors);
        if (in.tables_id != in.gpu_id && !in.laws.is_null()) {
          const auto measured = load_gpu_file(in.tables_id);
          Reading ignored;  // make() reads the card again and says what is wrong with it
          if (measured)
            scale_laws(in.laws, *measured, read_gpu(in.gpu_id, in.gpu, ignored));
          else
            errors.append(measured.error());
        }
        if (const Settings* folder = engine->find("kernel_tables"); folder && !in.laws.is_null()) {
          Reading ignored;  // as above
          use_box_tables(*folder, read_gpu(in.gpu_id, in.gpu, ignored), in.build, in.laws, in.files,
                         errors);
        }
      }
    } else if (!kind.empty()) {
      errors.error(engine->where(),
                   fmt::format("no build of '{}' for {} GPUs has kernels for this model", kind,
                               text_of(in.gpu.find("architecture"))),
                   fmt::format("builds: {}", fmt::join(data_names("hardware/builds"), ", ")));
    }
  }
  if (!in.scenario.find("workload"))
    errors.error(in.scenario.where(), "the scenario needs 'workload'");
  if (const Settings* schema = in.scenario.find("schema"); !schema || schema->text() != "1")
    errors.error(place("schema"), "the scenario needs 'schema: 1'",
                 "it is the version of the format; this ceiling reads 1");

  if (const Settings* constants = in.scenario.find("constants")) {
    if (!constants->is_map() && !constants->is_null())
      errors.error(constants->where(), "constants must map paths to values",
                   "write for example 'machine.host.kernel_launch: 3 us'");
    for (const auto& entry : constants->entries()) {
      const auto dot = entry.key.find('.');
      Settings* tree = in.tree(entry.key.substr(0, dot));
      std::string path = dot == std::string::npos ? "" : entry.key.substr(dot + 1);
      const Settings* old = tree && !path.empty() ? tree->at(path) : nullptr;
      if (!old) {
        errors.error(
            entry.where, fmt::format("there is no constant '{}'", entry.key),
            "paths start with machine., gpu., model., build. or laws.; --dry-run lists them");
        continue;
      }
      if (old->is_map() && old->find("value") && entry.value.is_scalar()) path += ".value";
      tree->set(path, entry.value);
    }
  }
  if (!errors.empty()) return tl::unexpected(errors);
  return in;
}

std::vector<Uncertain> uncertain_constants(const Inputs& in) {
  std::vector<Uncertain> out;
  collect_uncertain(in.machine, "machine", out);
  collect_uncertain(in.build, "build", out);
  // Of the laws, only those of the back ends that the build runs for this model.
  Reading ignored;  // Experiment::make() reads the model too and says what is wrong with it
  const ModelSpec model = read_model(in.model_id, in.model, ignored);
  const auto kernels = kernels_run(model);
  for (const auto& kernel : in.laws.entries()) {
    if (std::find(kernels.begin(), kernels.end(), kernel.key) == kernels.end()) continue;
    const std::string back_end = text_of(in.build.at("back_ends." + kernel.key));
    if (const Settings* law = kernel.value.find(back_end))
      collect_uncertain(*law, "laws." + kernel.key + "." + back_end, out);
  }
  // A fitted rate has its own spread; what is left of the law is the arithmetic of large passes.
  constexpr double arithmetic_spread = 1.1;
  const bool fitted = text_of(in.scenario.at("engine.fitted_constants")) != "off";
  if (in.build.at("fitted.moe_rate") && fitted)
    for (Uncertain& u : out)
      if (u.path.starts_with("laws.moe.")) u.spread = std::min(u.spread, arithmetic_spread);
  return out;
}

Inputs scaled(const Inputs& inputs, const std::string& path, double factor) {
  Inputs out = inputs;
  const auto dot = path.find('.');
  Settings* tree = out.tree(path.substr(0, dot));
  SIM_ASSERT(tree != nullptr);
  const std::string value_path = path.substr(dot + 1) + ".value";
  const Settings* value = tree->at(value_path);
  SIM_ASSERT(value != nullptr);
  tree->set(value_path, Settings::scalar(scale_text(value->text(), factor), value->where()));
  return out;
}

Expected<std::unique_ptr<Experiment>> Experiment::make(const Inputs& inputs,
                                                       std::vector<ResolvedValue>* values) {
  return make(inputs, values, nullptr);
}

Expected<std::unique_ptr<Experiment>> Experiment::remake(const Inputs& changed) const {
  const auto same = [&](Settings Inputs::*tree) {
    return (changed.*tree).shares_all_with(inputs_.*tree);
  };
  if (!same(&Inputs::scenario) || !same(&Inputs::machine) || !same(&Inputs::gpu) ||
      !same(&Inputs::model) || !same(&Inputs::build))
    return make(changed, nullptr, this);
  std::unique_ptr<Experiment> e(new Experiment(*this));
  e->inputs_ = changed;
  Reading reading;
  reading.wants_values = false;
  e->read_laws(reading);
  if (!reading.errors.empty()) return tl::unexpected(reading.errors);
  e->step_ = std::make_shared<const StepModel>(e->make_step(Only::everything));
  return e;
}

Expected<std::unique_ptr<Experiment>> Experiment::make(const Inputs& inputs,
                                                       std::vector<ResolvedValue>* values,
                                                       const Experiment* like) {
  std::unique_ptr<Experiment> e(new Experiment);
  e->inputs_ = inputs;
  const Inputs& in = e->inputs_;
  Reading reading;
  reading.wants_values = values != nullptr;
  e->gpu_ = read_gpu(in.gpu_id, in.gpu, reading);
  e->machine_ = read_machine(in.machine_id, in.machine, reading);
  e->build_ = read_build(in.build_id, in.build, reading);
  // What the image sets comes before what a what-if changes.
  if (e->build_.nccl_channels) {
    e->machine_.interconnect.nccl.channels = e->build_.nccl_channels->value;
    e->machine_.interconnect.nccl.min_nchannels.reset();
  }
  if (reading.errors.empty())
    e->machine_.interconnect = with_timed_staging(e->machine_.topology, e->machine_.interconnect,
                                                  e->gpu_.compute_capability);
  if (const Settings* folder = in.scenario.at("engine.kernel_tables")) {
    // measured on this very box: before what its machine file names
    const auto path = box_collectives_of(*folder);
    auto& named = e->machine_.collectives;
    if (!path.empty()) named.insert(named.begin(), {path, folder->where()});
  }
  std::optional<Machine> base;  // before edits, if there are any
  if (const Settings* edits = in.scenario.find("machine_edits")) {
    base = e->machine_;
    apply_machine_edits(e->machine_, *edits, reading);
  }
  e->model_ = read_model(in.model_id, in.model, reading);
  {
    Section w(*in.scenario.find("workload"), "workload", reading);
    const auto kind = w.word("kind", Registry<WorkloadKind>::names());
    if (const auto* workload = Registry<WorkloadKind>::find(kind))
      e->workload_ = workload->plan(w);
    else
      w.ignore_rest();
  }
  {
    Section s(*in.scenario.find("engine"), "engine", reading);
    const auto kind = s.word("kind", Registry<EngineKind>::names());
    s.take("build");
    const Settings* version = s.take("version");  // chose the build
    s.take("kernel_tables");                      // chose its back ends
    e->tensor_parallel_ = s.optional<int>("tensor_parallel", 1, between(1, 1024));
    e->kv_ = parse_precision(s, "kv_cache_dtype", e->build_.kv);
    e->bf16_activations_ = s.word("moe_activations", {"a4", "a16"},
                                  e->build_.bf16_activations ? "a16" : "a4") == "a16";
    e->dense_quantized_ = s.word("dense_quantization", {"none", "mxfp8"}, "none") == "mxfp8";
    if (e->dense_quantized_) e->model_.precision.attention = Precision::fp8;
    e->fitted_ = s.optional("fitted_constants", true);
    e->reference_ = s.word("clock", {"jumps", "reference"}, "jumps") == "reference";
    const bool hardware_read = reading.errors.empty();
    if (hardware_read) {
      const int tp = e->tensor_parallel_;
      if (const auto obstacle = tensor_parallel_obstacle(e->model_, tp); !obstacle.empty())
        s.error("tensor_parallel", fmt::format("tensor_parallel: {}", obstacle),
                sizes_that_fit(e->model_, e->machine_));
      if (tp > e->machine_.gpu_count())
        s.error("tensor_parallel",
                fmt::format("tensor_parallel is {} but the machine has {} GPUs", tp,
                            e->machine_.gpu_count()),
                sizes_that_fit(e->model_, e->machine_));
      if (e->build_.engine != kind && kind != "fcfs")
        s.error("build",
                fmt::format("build '{}' is of engine '{}'", in.build_id, e->build_.engine));
      if (e->build_.architecture != e->gpu_.architecture)
        s.error("build", fmt::format("build '{}' is for {}, the GPUs are {}", in.build_id,
                                     e->build_.architecture, e->gpu_.architecture));
      if (const auto missing = unnamed_back_ends(in.build, e->model_); !missing.empty())
        s.error("build",
                fmt::format("build '{}' names no back end for kernels of this model: {}",
                            in.build_id, fmt::join(missing, ", ")),
                fmt::format("add them to back_ends in hardware/builds/{}.yaml, or take another "
                            "build",
                            in.build_id));
      // MLA without an indexer: the build's kernels are for a model that has one.
      if (e->build_.sparse_attention && e->model_.mla() && !e->model_.indexer)
        s.error("build", fmt::format("build '{}' runs sparse attention, the model has no indexer",
                                     in.build_id));
    }
    const auto* engine = Registry<EngineKind>::find(kind);
    if (!engine) {
      s.ignore_rest();
    } else {
      EngineFacts& f = e->facts_;
      f.gpu_name = e->gpu_.name;
      f.gpu_memory = e->gpu_.memory;
      f.reserved = e->machine_.reserved.value;
      f.model_name = e->model_.name;
      f.tensor_parallel = e->tensor_parallel_;
      f.context_length = e->model_.context_length;
      f.sparse_model = e->model_.indexer.has_value();
      f.version = version && version->is_scalar() ? version->text() : e->build_.version;
      f.decode_graphs = e->build_.decode_graphs;
      f.prefill_chunk = e->build_.prefill_chunk;
      if (reading.errors.empty()) {
        const auto weights = weight_bytes_per_gpu(e->model_, e->tensor_parallel_, false);
        f.weights = weights.total + e->build_.extra_memory;
        f.weight_groups = weights.groups;
        if (e->build_.extra_memory > Bytes(0))
          f.weight_groups.emplace_back("copies", e->build_.extra_memory);
        f.kv_per_token = kv_bytes_per_token(e->model_, e->kv_, e->tensor_parallel_);
      } else {
        // Something is wrong already: read the options for their own errors, with sizes that fit.
        f.gpu_memory = Bytes(std::int64_t{1} << 50);
        f.kv_per_token = BytesPerToken(1);
        f.context_length = 4096;
      }
      e->sizes_ = engine->setup(f, s).sizes;
    }
  }
  if (reading.errors.empty()) e->read_laws(reading);
  if (!reading.errors.empty()) return tl::unexpected(reading.errors);
  if (values) *values = reading.values;

  auto collectives = make_collective_pricer(e->machine_, base ? *base : e->machine_, e->gpu_,
                                            e->tensor_parallel_, e->build_.all_reduce);
  if (!collectives) return tl::unexpected(collectives.error());
  e->collectives_ = std::move(*collectives);
  const MoeSpec moe = e->model_.moe.value_or(MoeSpec{1, 1, 0, 1});
  const double skew = e->workload_.expert_skew;
  if (like && like->popularity_->skew() == skew && in.model.shares_all_with(like->inputs_.model))
    e->popularity_ = like->popularity_;
  else
    e->popularity_.emplace(moe.experts, moe.experts_per_token, skew);
  e->step_ = std::make_shared<const StepModel>(e->make_step(Only::everything));
  return e;
}

void Experiment::read_laws(Reading& reading) {
  const Settings laws = this->laws();
  const BackEnds back_ends = back_ends_for(model_, build_.back_ends);
  if (const auto classes = table_classes(back_ends, laws); !classes.empty()) {
    auto tables = shared_kernel_tables(gpu_, inputs_.tables_id, classes,
                                       text_of(inputs_.scenario.at("engine.kernel_tables")));
    if (!tables) return reading.errors.append(tables.error());
    tables_ = std::move(*tables);
  }
  CostContext context{gpu_, tables_.get(), build_.engine, build_.tables_version,
                      inputs_.tables_id != inputs_.gpu_id};
  if (const GqaSpec* g = model_.gqa()) context.head_dim = g->head_dim;
  costs_ = std::make_shared<const CostModels>(read_cost_models(context, back_ends, laws, reading));
}

// The laws with the build's fitted MoE numbers in place of its back end's own.
Settings Experiment::laws() const {
  Settings laws = inputs_.laws;
  if (!fitted_ || !build_.moe_rate) return laws;
  if (build_.back_ends.moe == box_back_end) return laws;  // timed on the box itself
  const std::string law = "moe." + build_.back_ends.moe;
  if (!laws.at(law)) return laws;  // read_cost_models says so
  const Settings* rate = inputs_.build.at("fitted.moe_rate");
  if (const Settings* value = rate->find("value")) rate = value;
  laws.set(law + ".bandwidth", *rate);
  if (const Settings* start = inputs_.laws.at(law + ".fit_start")) laws.set(law + ".start", *start);
  laws.set(law + ".error", Settings::scalar(text(build_.fit_error), inputs_.build.where()));
  laws.set(law + ".scale.basis",
           Settings::scalar(std::string(name(build_.moe_rate->basis)), inputs_.build.where()));
  return laws;
}

StepModel Experiment::make_step(Only only) const {
  const HostSpec& host = machine_.host;
  const double slow = host.virtualisation.value;
  LaunchCosts launch;
  launch.per_launch = (host.kernel_launch.value + build_.dispatch.value).scaled(slow);
  launch.graph = host.graph_launch.value.scaled(slow);
  launch.graph_per_node = host.graph_launch_per_node.value.scaled(slow);
  launch.side_streams = build_.side_streams;
  if (fitted_) launch.small_kernels = build_.small_kernels;
  GraphOptions graph;
  graph.tensor_parallel = tensor_parallel_;
  graph.sparse_attention = sparse_attention();
  graph.kv = kv_;
  graph.attention_writes_kv = build_.attention_writes_kv;
  graph.bf16_activations = bf16_activations_;
  if (const auto it = build_.indexer_layers.find(inputs_.model_id);
      it != build_.indexer_layers.end())
    graph.indexer_layers = it->second;
  StepModel step(build_graph(model_, graph), *costs_, *collectives_, *popularity_, launch, only);
  // SGLang's attention (FlashInfer, FlashAttention-3) and FP8 caches were not measured mixed.
  const bool flash = build_.engine == "vllm" && kv_ == Precision::bf16;
  AttentionKernel attention = flash ? flash_attention(gpu_) : AttentionKernel{};
  attention.kv_tail = build_.kv_tail;
  attention.sums_prompts = build_.sums_prompts;
  step.set_attention(gpu_, attention);
  if (fitted_) step.set_residuals(build_.residuals);
  return step;
}

HostTimes Experiment::host_times(Only only) const {
  const double slow = machine_.host.virtualisation.value;
  HostTimes host;
  if (only == Only::everything || only == Only::launch) {
    host.per_step = build_.step_host.value.scaled(slow);
    host.per_sequence = build_.sequence_host.value.scaled(slow);
  }
  host.request_path = machine_.host.request_path.value.scaled(slow);
  host.response_path = machine_.host.response_path.value.scaled(slow);
  if (only == Only::everything) host.cold_start = build_.cold_start.value.scaled(slow);
  return host;
}

std::vector<SteadyPass> Experiment::passes(Only only) const {
  const StepModel step = make_step(only);
  const std::int64_t top_k = sparse_attention() ? model_.indexer->top_k : 0;
  return steady_passes(workload_, {step, sizes_, host_times(only), top_k});
}

RunMetrics Experiment::run(Only only, std::vector<RequestRecord>* requests, Keep keep) {
  if (!requests) keep = Keep::latencies;
  if (!workload_.needs_scheduler()) return steady_metrics(workload_, passes(only));
  // The scheduler has a memory of its own: each run gets a fresh one, from the same options.
  Reading reading;
  EngineSetup setup;
  {
    Section s(*inputs_.scenario.find("engine"), "engine", reading);
    const auto kind = s.word("kind", Registry<EngineKind>::names());
    s.ignore_rest();
    setup = Registry<EngineKind>::find(kind)->setup(facts_, s);
  }
  SIM_ASSERT(reading.errors.empty());
  const StepModel step = make_step(only);
  PriceList prices(step);
  const bool reference = reference_ || keep == Keep::gaps;
  const auto server = (reference ? make_reference_server : make_server)(
      prices, setup, host_times(only), sparse_attention() ? model_.indexer->top_k : 0);
  MetricsCollector metrics(setup.sizes.decode_log_interval, keep);
  metrics.expect(workload_.requests);
  Client client(workload_);
  client.subscribe(metrics);
  server->subscribe(metrics);
  const bool ended = server->run(client);
  RunMetrics out = metrics.summary(server->counts());
  out.overrun = !ended;
  if (requests) *requests = metrics.requests();
  return out;
}

Breakdown Experiment::breakdown(const PassShape& pass, bool captured) const {
  return step_->breakdown(pass, captured);
}

Timeline Experiment::cost(const PassShape& pass, bool captured) const {
  return step_->cost(pass, captured);
}
