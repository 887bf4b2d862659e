#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hardware/collective/pricing.hpp"
#include "models/cost/cost_models.hpp"
#include "sim/step/step_model.hpp"

/// A range in which a build was seen to run slower than any law: told, never modelled.
struct KnownDefect {
  std::optional<std::int64_t> batch_min, batch_max;  // sequences of a decode step
  std::optional<std::int64_t> kv_min, kv_max;        // KV tokens of one sequence
  std::optional<bool> prefill;                       // in prefill only, in decode only, or in both
  std::optional<bool> bf16_activations;              // with A16 only, with A4 only, or with both
  std::string what, source;

  bool covers(bool in_prefill, bool a16, std::int64_t batch, std::int64_t kv) const;
  std::string range() const;  // "decode of 16 sequences and more"
};

/// What one engine image runs on one GPU architecture: which kernels, what graphs may capture, what
/// the host pays per operation. Files in hardware/builds.
struct Build {
  std::string id, name;
  std::string engine;  // sglang, vllm
  std::string version;
  std::string architecture;    // of the GPU, as in its file
  std::string tables;          // folder in hardware/tables with the laws of its kernels
  std::string tables_version;  // of the engine whose tables it takes the nearest of
  BackEnds back_ends;
  bool sparse_attention = false;  // runs the indexer and sparse attention of DSA models
  /// The attention times of its tables hold the write of new keys and values.
  bool attention_writes_kv = false;
  Precision kv = Precision::bf16;              // KV cache type it takes unless told otherwise
  bool bf16_activations = false;               // of the routed experts (A16), unless told otherwise
  std::map<std::string, int> indexer_layers;   // model -> layers that own an indexer; else all
  int prefill_chunk = 0;                       // tokens of a prefill pass; 0: the engine's default
  AllReducePolicy all_reduce;                  // empty: NCCL for everything
  std::optional<Constant<int>> nccl_channels;  // what its NCCL opens; nothing: NCCL's own search
  bool decode_graphs = true;                   // decode may be captured
  bool side_streams = true;      // captured passes overlap the shared expert with the routed ones
  Bytes extra_memory;            // per GPU, beside the checkpoint's weights
  Constant<Duration> dispatch;   // framework time per kernel launch, on top of the driver's
  Constant<Duration> step_host;  // receive, schedule and broadcast, per pass
  Constant<Duration> sequence_host;  // post-processing per running sequence and pass
  Constant<Duration> cold_start;     // what the first request of a server waits besides
  PassResiduals residuals;
  /// How attention is priced, where it is not as its kernels run (AttentionKernel).
  double kv_tail = 1;
  bool sums_prompts = false;
  /// The two numbers of a build that may be fitted on served decode steps (`ceiling fit build`).
  std::optional<Constant<Duration>> small_kernels;   // of one layer, all of them together
  std::optional<Constant<BytesPerSecond>> moe_rate;  // at which weights of touched experts are read
  double fit_error = 0;                              // median of the steps they were fitted on
  std::vector<KnownDefect> known_defects;
  std::string note;  // what the user should know about this build
};

Build read_build(const std::string& id, const Settings& file, Reading& reading);
