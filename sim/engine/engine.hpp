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
  std::string version;        // of the engine, as the scenario or its build states it
  int prefill_chunk = 0;      // of the build; 0: the engine's own default
  std::string model_name;
  std::vector<std::pair<std::string, Bytes>> weight_groups;
};

/// What differs between the loops of engines beside the scheduler.
struct LoopRules {
  /// Nobody is scheduled beyond their last allowed token; else a request whose end is not known yet
  /// takes part in one more pass, whose token is dropped.
  bool skips_finished = false;
  /// A request that loses its pages keeps the token that is being computed for it.
  bool keeps_token_in_flight = false;
  /// It queues again at the head of the queue, not at its tail.
  bool retracted_first = false;
  /// What it had computed stays in the prefix cache.
  bool caches_retracted = false;
  /// A prompt's pages may be shared from its admission on, not only when it is computed.
  bool shares_at_admission = false;
  /// The limit on new tokens is cut to what fits the context; else such a request is rejected.
  bool clips_max_new = true;
};

/// The sizes an engine starts with.
struct EngineSizes {
  double mem_fraction_static = 0;
  Bytes kv_bytes;    // of the pool, per GPU
  Tokens kv_tokens;  // of the pool, whole pages
  PageSize page_size = 1;
  int null_pages = 0;  // of the pool, which no request gets
  int max_running_requests = 0;
  std::int64_t max_request_tokens = 0;  // prompt and output together; longer prompts are rejected
  int chunked_prefill_size = 0;
  std::vector<int> graph_sizes;  // captured decode batch sizes, ascending; empty: eager
  int loop_depth = 2;            // 2: results one step late (asynchronous loop); 1: waits for them
  /// The engine's option, and its value, that makes the loop asynchronous.
  std::pair<std::string, std::string> makes_asynchronous;
  std::int64_t reserve_clip = 4096;   // of output tokens that count as reserved for one request
  int decode_log_interval = 40;       // decode passes per line of the server's log
  std::string prefix_cache = "none";  // the KvCache kind, its order of eviction
  std::string eviction = "lru";
  LoopRules rules;

  std::int64_t piecewise_tokens = 0;  // passes with prompts up to so many tokens run from graphs

  /// The captured size that a batch is padded to; 0 when it must run eagerly.
  int captured_size(std::int64_t batch) const;
  /// Whether a pass with prompts of so many tokens in all runs from graphs.
  bool captures(std::int64_t tokens) const { return tokens <= piecewise_tokens; }
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
};

/// Fills the KV pool of `sizes` from its `mem_fraction_static` of the GPU's memory less what lies
/// beside the weights; false (and an error) when not one page fits.
bool size_pool(const EngineFacts& facts, Bytes beside_weights, EngineSizes& sizes,
               Section& options);

/// "does not fit" with its sum, for any engine kind.
std::string memory_sum(const EngineFacts& facts, Bytes beside_weights);
