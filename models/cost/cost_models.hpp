#pragma once

#include <map>

#include "models/cost/attention_pass.hpp"
#include "models/cost/cost_model.hpp"

/// Which back end a build runs for each kernel class; each names a section of the GPU's law file.
/// Empty: the build says nothing of models that need the class.
struct BackEnds {
  std::string gemm, batched_gemm, moe, mla_decode, mla_prefill, indexer, attention_decode,
      attention_prefill, attention_mixed, elementwise;
};

BackEnds read_back_ends(Section& section);

/// One cost model per kernel class, as a build on a GPU needs them; null where it names no back
/// end.
struct CostModels {
  std::unique_ptr<CostModel<GemmShape>> gemm;
  std::unique_ptr<CostModel<BatchedGemmShape>> batched_gemm;
  std::unique_ptr<CostModel<MoeShape>> moe;
  std::unique_ptr<CostModel<MlaDecodeShape>> mla_decode;
  std::unique_ptr<CostModel<MlaPrefillShape>> mla_prefill;
  std::unique_ptr<CostModel<IndexerShape>> indexer;
  std::unique_ptr<CostModel<GqaDecodeShape>> attention_decode;
  std::unique_ptr<CostModel<GqaPrefillShape>> attention_prefill;
  std::unique_ptr<CostModel<GqaMixedShape>> attention_mixed;  // null: the kernel's own law
  std::unique_ptr<CostModel<ElementwiseShape>> elementwise;
  std::map<std::string, std::string> sources;  // kernel class -> where its coefficients come from
  std::map<std::string, std::string> tables;   // kernel class -> the fitted sets it answers from
};

/// Reads the laws of one GPU (hardware/tables/<gpu>/laws.yaml) for the chosen back ends. A back end
/// without a law is an error that lists the known ones.
CostModels read_cost_models(const CostContext& context, const BackEnds& back_ends,
                            const Settings& laws, Reading& reading);
