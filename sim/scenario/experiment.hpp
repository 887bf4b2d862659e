#pragma once

#include <memory>
#include <optional>

#include "hardware/machine.hpp"
#include "models/cost/kernel_tables.hpp"
#include "models/graph/graph.hpp"
#include "sim/metrics/metrics.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/scenario/steady.hpp"
#include "sim/step/build.hpp"
#include "sim/workload/client.hpp"

/// Everything one run reads, as settings: the scenario and the files it names.
struct Inputs {
  std::string machine_id, gpu_id, model_id, build_id;
  std::string tables_id;  // the GPU whose laws and tables are used; another one's are scaled
  Settings scenario, machine, gpu, model, build, laws;
  std::vector<std::string> files;
  std::string build_chosen_because;  // empty when the scenario names its build
  /// What the build left open, by the build that it is like.
  std::vector<std::pair<std::string, std::string>> build_filled;

  /// The tree that a path of `constants:` lives in ("machine.host.kernel_launch").
  Settings* tree(const std::string& root);
  /// FNV-1a over all of it.
  std::uint64_t hash() const;
};

/// Loads the files that a scenario names and applies its `constants:`.
Expected<Inputs> resolve(const Scenario& scenario);

/// A constant with a spread, by its path.
struct Uncertain {
  std::string path, label;
  double spread = 1;
};
std::vector<Uncertain> uncertain_constants(const Inputs& inputs);

/// The inputs with one constant multiplied by a factor.
Inputs scaled(const Inputs& inputs, const std::string& path, double factor);

/// A machine, a model, an engine and a workload put together, ready to run as often as one likes.
class Experiment {
 public:
  /// All errors at once; `values` (optional) receives every value that was used and its origin.
  static Expected<std::unique_ptr<Experiment>> make(const Inputs& inputs,
                                                    std::vector<ResolvedValue>* values = nullptr);
  /// As make(), of inputs that were copied from those of this experiment and changed: what the
  /// change leaves alone is taken over.
  Expected<std::unique_ptr<Experiment>> remake(const Inputs& changed) const;

  /// `requests` (optional) receives a record of each finished request, in the order of their ends;
  /// Keep::gaps with the gaps between its tokens, for which the reference clock runs: it takes no
  /// longer, by order of magnitude, than writing them down.
  RunMetrics run(Only only = Only::everything, std::vector<RequestRecord>* requests = nullptr,
                 Keep keep = Keep::records);
  /// The passes of a workload that needs no scheduler.
  std::vector<SteadyPass> passes(Only only = Only::everything) const;
  /// Where the time of a pass goes.
  Breakdown breakdown(const PassShape& pass, bool captured) const;
  /// The device and host time of a pass.
  Timeline cost(const PassShape& pass, bool captured) const;

  const Machine& machine() const { return machine_; }
  const GpuSpec& gpu() const { return gpu_; }
  const ModelSpec& model() const { return model_; }
  const Build& build() const { return build_; }
  const WorkloadPlan& workload() const { return workload_; }
  const EngineSizes& sizes() const { return sizes_; }
  const CollectivePricer& collectives() const { return *collectives_; }
  const StepModel& step() const { return *step_; }
  const CostModels& costs() const { return *costs_; }
  /// The card whose kernels were measured; another than this one's were scaled.
  const std::string& tables_of() const { return inputs_.tables_id; }
  int tensor_parallel() const { return tensor_parallel_; }
  /// Whether passes run the indexer: the build must, and the model must have one.
  bool sparse_attention() const { return build_.sparse_attention && model_.indexer.has_value(); }
  bool graphs() const { return !sizes_.graph_sizes.empty(); }
  /// False when the build has fitted numbers and the scenario does without them.
  bool fitted() const { return fitted_; }
  bool bf16_activations() const { return bf16_activations_; }
  bool dense_quantized() const { return dense_quantized_; }

 private:
  Experiment() = default;
  Experiment(const Experiment&) = default;  // remake() then replaces what points into the other
  static Expected<std::unique_ptr<Experiment>> make(const Inputs& inputs,
                                                    std::vector<ResolvedValue>* values,
                                                    const Experiment* like);
  // What the kernels cost.
  void read_laws(Reading& reading);
  StepModel make_step(Only only) const;
  HostTimes host_times(Only only) const;
  Settings laws() const;

  Inputs inputs_;
  Machine machine_;
  GpuSpec gpu_;
  ModelSpec model_;
  Build build_;
  std::shared_ptr<const KernelTables> tables_;  // the cost models point into it
  std::shared_ptr<const CostModels> costs_;
  WorkloadPlan workload_;
  EngineSizes sizes_;
  EngineFacts facts_;
  std::shared_ptr<const CollectivePricer> collectives_;
  std::optional<ExpertPopularity> popularity_;
  std::shared_ptr<const StepModel> step_;
  int tensor_parallel_ = 1;
  Precision kv_ = Precision::bf16;
  bool fitted_ = true, bf16_activations_ = false, dense_quantized_ = false, reference_ = false;
};
