#pragma once

#include <cstdint>
#include <span>

/// How long the KV of the sequences of a decode batch is, in tokens. `each` may stay empty: then
/// one sequence is `max` long and the others share the rest equally, which has the longest tail
/// that count, sum and max allow.
struct KvLengths {
  std::int64_t count = 0, sum = 0, max = 0;
  std::span<const std::int64_t> each{};

  static KvLengths of(std::span<const std::int64_t> lengths);
  double mean() const {
    return count > 0 ? static_cast<double>(sum) / static_cast<double>(count) : 0;
  }
};

/// How a GPU runs a decode kernel whose blocks each walk the KV of one sequence and KV head.
/// Tokens are of one KV head.
struct KvWalk {
  int sms = 0;
  double bandwidth_tokens_per_us = 0;  // of the whole GPU, as the kernel reaches it
  double block_tokens_per_us = 0;      // the most that one block gets; 0: no such limit
};

/// Whether FlashAttention-2 gives several blocks to the KV of one sequence: only while one block
/// each would fill less than 0.8 of two blocks per SM (up to 37 sequences of 8 KV heads on 188 SMs,
/// 25 on 128). The batch is the one that is launched: a CUDA graph's padded size. Inferred from
/// vLLM 0.19's served runs and its kernel profile, not read from a trace.
bool splits_kv(std::int64_t padded_batch, int kv_heads, int sms);

/// Time of a decode kernel that does not split KV over its time at equal lengths of the same sum,
/// at least 1; multiplies what a table of equal lengths says. Blocks (sequences x KV heads, heads
/// outermost) go to the SMs in turn, those that run share the bandwidth, and each is capped: once
/// the last long ones are alone, the bandwidth is idle. Instead of the order of the sequences,
/// which an engine shuffles, it takes each in the middle of its head; a list schedule of random
/// orders differs by 1 to 2 % (by 5 to 30 % where the blocks are just more than a multiple of the
/// SMs). Leaves out: start-up (the ratio is applied to it too), what waves do to equal lengths (the
/// table has it), kernels that split unevenly. Pure; partial sort of the batch, nothing to
/// remember.
double kv_tail_ratio(const KvLengths& lengths, int kv_heads, const KvWalk& walk);
