#pragma once

#include <string>

#include "models/cost/cost_models.hpp"

/// What one engine image runs on one GPU architecture: which kernels, what graphs may capture, what
/// the host pays per operation. Files in hardware/builds.
struct Build {
  std::string id, name;
  std::string engine;  // sglang, vllm
  std::string version;
  std::string architecture;  // of the GPU, as in its file
  std::string tables;        // folder in hardware/tables with the laws of its kernels
  BackEnds back_ends;
  bool sparse_attention = false;   // runs the indexer and sparse attention of DSA models
  Precision kv = Precision::bf16;  // KV cache type it takes unless told otherwise
  bool decode_graphs = true;       // decode may be captured
  bool side_streams = true;        // captured passes overlap the shared expert with the routed ones
  Bytes extra_memory;              // per GPU, beside the checkpoint's weights
  Constant<Duration> dispatch;     // framework time per kernel launch, on top of the driver's
  Constant<Duration> step_host;    // receive, schedule and broadcast, per pass
  Constant<Duration> sequence_host;  // post-processing per running sequence and pass
  std::string note;                  // what the user should know about this build
};

Build read_build(const std::string& id, const Settings& file, Reading& reading);
