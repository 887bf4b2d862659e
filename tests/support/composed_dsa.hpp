#pragma once

#include "sim/scenario/scaled_laws.hpp"
#include "tests/support/hardware.hpp"

/// Which measured parts the composed laws of sparse MLA answer from.
enum class Parts { both, h200, b200 };

/// The laws of the RTX PRO 6000 moved to another card.
inline Settings sm120_laws(const GpuSpec& gpu) {
  Settings laws = load_settings("hardware/tables/rtx-pro-6000-server/laws.yaml");
  const GpuSpec home = load_gpu("rtx-pro-6000-server");
  if (gpu.id != home.id) scale_laws(laws, home, gpu);
  return laws;
}

/// The composed laws of sparse MLA, read for any card. With one card's parts in both places the
/// mean is that card's own answer.
inline CostModels composed_dsa(const GpuSpec& gpu, Parts parts = Parts::both,
                               const std::string& indexer = "composed_vllm") {
  Settings laws = sm120_laws(gpu);
  const std::string sections[] = {"indexer." + indexer, "mla_decode.composed_sparse",
                                  "mla_prefill.composed_sparse"};
  for (const auto& section : sections) {
    if (parts == Parts::both) break;
    const bool h200 = parts == Parts::h200;
    const Settings one = *laws.at(section + (h200 ? ".measured.h200" : ".measured.b200"));
    laws.set(section + (h200 ? ".measured.b200" : ".measured.h200"), one);
  }
  BackEnds b;
  b.gemm = "cutlass", b.batched_gemm = "torch_bmm", b.moe = "flashinfer_cutlass";
  b.mla_decode = b.mla_prefill = "composed_sparse";
  b.indexer = indexer, b.elementwise = "sglang";
  Reading reading;
  CostModels costs = read_cost_models({gpu}, b, laws, reading);
  if (!reading.errors.empty()) FAIL(reading.errors.render());
  return costs;
}
