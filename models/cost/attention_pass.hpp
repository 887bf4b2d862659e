#pragma once

#include <cstdint>
#include <vector>

#include "models/cost/attention_tail.hpp"
#include "models/cost/cost_model.hpp"

/// Heads of one layer on one GPU, and how its KV is stored.
struct AttentionHeads {
  int query = 0, kv = 0, dim = 128;
  Precision stored = Precision::bf16;
  double kv_bytes_per_token() const { return 2 * dim * bytes_per_element(stored); }  // one KV head
};

/// A prompt, or the part of it that this pass computes.
struct PromptPart {
  std::int64_t tokens = 0;  // new
  std::int64_t past = 0;    // already in the KV cache
};

/// The attention of one layer in one forward pass.
struct AttentionPass {
  KvLengths decodes;              // one new token each, itself counted
  std::int64_t padded_batch = 0;  // as launched; at least decodes.count
  std::vector<PromptPart> prompts;
  AttentionHeads heads;
};

/// Decode attention with grouped queries, all sequences equally long.
struct GqaDecodeShape {
  std::int64_t sequences = 0;
  double kv_tokens_each = 0;
  AttentionHeads heads;
};

/// Prefill attention of one prompt part with grouped queries.
struct GqaPrefillShape {
  PromptPart prompt;
  AttentionHeads heads;
};

/// One launch over a prompt part and decodes, all decodes equally long.
struct GqaMixedShape {
  PromptPart prompt;
  std::int64_t sequences = 0;
  double kv_tokens_each = 0;
  AttentionHeads heads;
};

/// How the attention kernels of an architecture run a pass.
struct AttentionKernel {
  /// `added`: decodes and prompts cost what they cost alone (FlashAttention-3 and the kernels of
  /// Blackwell data centre cards). `mixed`: one FlashAttention-2 launch for all of a pass.
  enum class Prompts { added, mixed } prompts = Prompts::added;
  bool walks_unsplit = false;     // decode follows splits_kv(); else it always splits
  double bandwidth_share = 1;     // of the line rate, as decode reaches it
  double block_bytes_per_us = 0;  // the most one decode block reads
  // of the mixed kernel, 128-wide heads
  double walk_us_per_token = 0;  // a block (64 queries of one head) along the KV, alone on its SM
  double block_us = 0;           // start and end of a block
  double empty_block_us = 0;     // a block without queries
  double passes_apart = 0;       // see mixed_us() in attention_pass.cpp
  Provenance provenance = Provenance::assumed;
  double error = 0;       // median of the mixed kernel
  double tail_error = 0;  // of the ratio of unequal to equal KV lengths
  // What a build may do otherwise, to follow the rules of another simulator.
  double kv_tail = 1;         // share of what unequal KV lengths add that passes pay
  bool sums_prompts = false;  // all prompt parts of a pass are priced as one of their summed sizes
};

/// What vLLM's FlashAttention back end is on a GPU: version 2, mixed, on sm120 and sm89 (fitted)
/// and sm80 (borrowed from them); else version 3, which adds its parts. Other back ends
/// (FlashInfer, Triton, TensorRT-LLM) were not measured with mixed passes: a default
/// AttentionKernel.
AttentionKernel flash_attention(const GpuSpec& gpu);

/// Time of the attention of one layer, from models of decodes and of prompts alone (tables, laws).
/// Decodes alone: the decode model times the KV tail. With prompts: parts added, or for the mixed
/// kernel the longest-running prompt plus what the decodes add inside its launch, the other prompts
/// added. Never less than the larger of the parts. `mixed` (optional): the launch as measured; the
/// kernel's law then says only what unequal lengths add. Scope and limitations:
/// docs/models/attention.md.
Prediction attention_pass(const AttentionPass& pass, const GpuSpec& gpu,
                          const AttentionKernel& kernel, const CostModel<GqaDecodeShape>& decode,
                          const CostModel<GqaPrefillShape>& prefill,
                          const CostModel<GqaMixedShape>* mixed = nullptr);

/// Start-free time in us of one FlashAttention-2 launch over `prompt` and decodes; either may be
/// empty. Use differences of it: what decodes add to a prompt.
double mixed_us(const PromptPart& prompt, const KvLengths& decodes, const AttentionHeads& heads,
                const GpuSpec& gpu, const AttentionKernel& kernel);
