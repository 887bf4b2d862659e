#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "models/cost/kernel_class.hpp"
#include "models/graph/model_spec.hpp"

/// One kernel at one size. `words` are those of its class without `kernel_source`, which is
/// `source`. `x` is in the order of the class's axes.
struct CalibrationPoint {
  std::string kernel_class;
  /// Which kernel answers ("cublaslt"); behind a blank the environment it runs in, each setting in
  /// processes of its own ("nccl NCCL_PROTO=Simple").
  std::string source;
  std::map<std::string, std::string> words;
  Coordinates x{};
  double bytes = 0;        // of weights or KV that one launch reads
  double pool_bytes = 0;   // of the copies that launches rotate over
  double estimate_us = 0;  // of one launch: the class's law with its guesses
  int launches = 1;        // in one sample, which is a graph's replay
  int ranks = 1;           // processes that measure it together, a GPU each
  double seconds = 0;      // expected, with its preparation

  /// "gemm cublaslt gemm_dtype=nvfp4 n=6144 k=2048 m=16": what makes two points the same one.
  std::string key() const;
};

/// What a box measures for one model: no point twice, cheap to expensive classes in the order of
/// the model's operators.
struct CalibrationPlan {
  std::string model, gpu, profile;
  int tensor_parallel = 1;
  Precision kv = Precision::bf16;
  std::vector<CalibrationPoint> points;
  std::map<std::string, std::size_t> left_out;  // reason -> points

  double seconds() const;
  /// FNV-1a over the keys: plans with the same points have the same.
  std::uint64_t hash() const;
};

/// How densely the sizes are sampled, by the name of the profile: "smoke" (at most a minute),
/// "quick" (three), "full" (fifteen). Null for another word.
struct PlanGrid {
  std::vector<double> tokens, context, batch, message_bytes, copy_bytes, launch_count;
  std::vector<double> sparse_batch;  // of sparse attention and its indexer; no sizes: left out
  std::vector<double> small_rows;    // of quantisers, activations and gathers; no sizes: left out
  std::vector<std::string> gemm;     // sources of products
  std::vector<std::string> nccl;     // of collectives: eager or not, settings
};
const PlanGrid* plan_grid(const std::string& profile);
std::vector<std::string> plan_profiles();

struct PlanOptions {
  std::string profile = "quick";
  int tensor_parallel = 1;
  Precision kv = Precision::bf16;
};

/// The points of a model on a GPU. `options.profile` must be one of plan_profiles(), and
/// tensor_parallel_obstacle() must find nothing. Points whose rotated copies need more than four
/// fifths of the memory, or arithmetic the card does not have, are left out and counted.
CalibrationPlan make_plan(const ModelSpec& model, const GpuSpec& gpu, const PlanOptions& options);

/// One line per class, and what was left out.
std::string render_plan(const CalibrationPlan& plan);
/// Every field of every point.
std::string plan_to_json(const CalibrationPlan& plan);
