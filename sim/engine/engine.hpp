#pragma once

#include "sim/engine/scheduler.hpp"

/// What an engine needs to know of box and model to size its pools.
struct EngineFacts {
  std::string gpu_name;
  Bytes gpu_memory;            // as nvidia-smi reports it
  Bytes reserved;              // taken before the weights: driver, contexts, NCCL
  Bytes weights;               // per GPU
  BytesPerToken kv_per_token;  // per GPU
  int tensor_parallel = 1;
  std::int64_t context_length = 0;
  bool sparse_model = false;  // has an indexer: SGLang forces pages of 64 tokens
  bool decode_graphs = true;  // the build can capture decode
  int prefill_chunk = 0;      // of the build; 0: the engine's own default
  std::string model_name;
  std::vector<std::pair<std::string, Bytes>> weight_groups;
};

/// The sizes an engine starts with.
struct EngineSizes {
  double mem_fraction_static = 0;
  Bytes kv_bytes;    // of the pool, per GPU
  Tokens kv_tokens;  // of the pool, whole pages
  int page_size = 1;
  int max_running_requests = 0;
  std::int64_t max_request_tokens = 0;  // prompt and output together; longer prompts are rejected
  int chunked_prefill_size = 0;
  std::vector<int> graph_sizes;  // captured decode batch sizes, ascending; empty: eager
  int loop_depth = 2;            // 2: results one step late (asynchronous loop); 1: waits for them

  /// The captured size that a batch is padded to; 0 when it must run eagerly.
  int captured_size(std::int64_t batch) const;
};

/// An engine ready to serve.
struct EngineSetup {
  EngineSizes sizes;
  std::unique_ptr<Scheduler> scheduler;
};

/// An engine kind ("sglang"): reads its own options, sizes its pools, makes its scheduler. A model
/// that does not fit is an error that shows the sum.
struct EngineKind {
  std::string help;
  EngineSetup (*setup)(const EngineFacts& facts, Section& options);
  bool schedules = true;  // false: only workloads that need no scheduler
};

/// "does not fit" with its sum, for any engine kind.
std::string memory_sum(const EngineFacts& facts, Bytes beside_weights);
