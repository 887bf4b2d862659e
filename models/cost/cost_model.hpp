#pragma once

#include <memory>
#include <string>
#include <type_traits>

#include "hardware/gpu.hpp"
#include "sim/base/registry.hpp"
#include "sim/base/settings.hpp"

/// The predicted time of one kernel on one GPU, graph-replayed and back to back: no launch gap, no
/// host time. `arithmetic` and `memory` are its two rooflines: what it would take if only the one
/// counted. `time` is never below either.
struct Prediction {
  Duration time;
  Duration arithmetic;
  Duration memory;
  Provenance provenance = Provenance::roofline;
  double error = 0;  // median relative error of the model on measured points
};

/// C[m,n] = A[m,k] W[n,k]^T with weights of `precision`; activations and result are bf16.
struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;
  Precision precision = Precision::bf16;
};

/// `batch` independent GEMMs of m x n x k, one per head (absorbed MLA projections).
struct BatchedGemmShape {
  std::int64_t batch = 0, m = 0, n = 0, k = 0;
};

/// The routed experts of one layer on one GPU: top-k select, quantise, both GEMMs, combine.
struct MoeShape {
  std::int64_t tokens = 0;
  int hidden = 0;
  int inter = 0;  // of one expert on this GPU
  int experts_per_token = 0;
  int experts = 0;              // of the model
  int ways = 1;                 // tensor-parallel split of one expert
  double distinct_experts = 0;  // how many experts the tokens touch
  Precision precision = Precision::nvfp4;
  bool bf16_activations = false;  // the kernel unpacks the weights instead (A16)
};

/// Absorbed MLA decode: each of `sequences` reads its latent KV once for `heads` heads.
struct MlaDecodeShape {
  std::int64_t sequences = 0;
  std::int64_t kv_tokens = 0;  // summed over the sequences
  int heads = 0, kv_lora = 0, rope = 0;
  Precision kv = Precision::bf16;
};

/// Absorbed MLA prefill.
struct MlaPrefillShape {
  std::int64_t sequences = 0;
  std::int64_t tokens = 0;      // new tokens, summed
  std::int64_t tokens_max = 0;  // of the longest sequence
  std::int64_t pairs = 0;       // (query, key) pairs under the causal mask, summed
  int heads = 0, kv_lora = 0, rope = 0;
  Precision kv = Precision::bf16;
};

/// The lightning indexer of sparse MLA: logits of new tokens against all keys, then top-k.
struct IndexerShape {
  std::int64_t sequences = 0;
  std::int64_t pairs = 0;   // (query, key) pairs, summed
  std::int64_t kv_max = 0;  // of the longest sequence
  int heads = 0, dim = 0, top_k = 0;
  bool extend = false;  // many queries a sequence: other kernels than for decode
};

/// A memory-bound kernel: norms, rope, activations, quantisation, KV writes, sampling.
struct ElementwiseShape {
  std::int64_t bytes = 0;  // read and written
  bool in_place = false;   // writes where it has read: half as much memory is touched
};

/// Time of one kernel class. Pure: same shape, same answer.
template <class Shape>
class CostModel {
 public:
  virtual ~CostModel() = default;
  virtual Prediction predict(const Shape& shape) const = 0;
  /// Which measurements it answers from, for people; empty: what its section says.
  virtual std::string rests_on() const { return {}; }
};

class KernelTables;

/// What a cost model is made from besides its own coefficients.
struct CostContext {
  const GpuSpec& gpu;
  const KernelTables* tables =
      nullptr;                      // fitted sets of this GPU (or of the one it is scaled from)
  std::string engine{}, version{};  // that the build runs
  bool scaled = false;              // the tables were measured on another GPU
  int head_dim = 128;               // of the model, for attention with grouped queries
};

/// Makes a cost model from its coefficients (one section of a GPU's law file).
template <class Shape>
using CostModelFactory = std::unique_ptr<CostModel<Shape>> (*)(const CostContext&, Section&);

/// `const Registered<CostModelFactory<GemmShape>> me("wave_k", make<WaveK, GemmShape>);`
template <class Model, class Shape>
std::unique_ptr<CostModel<Shape>> make_cost_model(const CostContext& context,
                                                  Section& coefficients) {
  if constexpr (std::is_constructible_v<Model, const CostContext&, Section&>)
    return std::make_unique<Model>(context, coefficients);
  else
    return std::make_unique<Model>(context.gpu, coefficients);
}

/// The part that all models share: provenance, error and a scale that stands for a systematic error
/// of the model on a box (1 unless someone varies it).
struct ModelQuality {
  Provenance provenance = Provenance::fitted;
  double error = 0;
  double scale = 1;
};
ModelQuality read_quality(Section& section);

/// Puts a modelled time and its rooflines together; the result is never below its roofline.
Prediction predicted(double time_us, Duration arithmetic, Duration memory,
                     const ModelQuality& quality);
