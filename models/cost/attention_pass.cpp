// FlashAttention-2 launches a grid of (query tiles of 64) x sequences x query heads. A decode in
// such a launch with a prompt is a tile of its own for every query head: its KV is neither shared
// by the query heads of a group nor split, and one SM computes 64 rows for the one that counts. So
// a block costs time per token that it walks, whatever it is for, and the launch is a list
// schedule.

#include "models/cost/attention_pass.hpp"

#include <algorithm>
#include <cmath>

#include "models/cost/kernel_class.hpp"
#include "sim/base/assert.hpp"

namespace {

constexpr double tile = 64;          // queries of a block, head width 128, sm8x and sm12x
constexpr double blocks_per_sm = 2;  // resident; they share the SM and are no faster together

// Worse of two: what was assumed or least known decides.
void worsen(Prediction& p, Provenance provenance, double error) {
  p.provenance = std::max(p.provenance, provenance);
  p.error = std::max(p.error, error);
}

Prediction zero() { return {Duration(), Duration(), Duration(), Provenance::exact, 0}; }

void add(Prediction& sum, const Prediction& part) {
  sum.time += part.time;
  sum.arithmetic += part.arithmetic;
  sum.memory += part.memory;
  worsen(sum, part.provenance, part.error);
}

PromptPart summed(const std::vector<PromptPart>& prompts) {
  PromptPart sum;
  for (const PromptPart& p : prompts) {
    sum.tokens += p.tokens;
    sum.past += p.past;
  }
  return sum;
}

}  // namespace

AttentionKernel flash_attention(const GpuSpec& gpu) {
  AttentionKernel k;
  const bool sm120 = gpu.architecture == "sm120";
  if (!sm120 && gpu.architecture != "sm89" && gpu.architecture != "sm80") return k;
  // r of the tail: 60 tokens (of 512 B) per us on RTX PRO 6000 and 40 on RTX 4090, fitted by the
  // modelling study on LLMServingSim's sweep of unequal lengths. Bandwidth: its largest decodes of
  // equal length. All others fitted here on its mixed grid (vLLM 0.19): the walk is the slope
  // at one decode; the blocks' costs are the floor at 16 tokens of KV.
  k.prompts = AttentionKernel::Prompts::mixed;
  k.walks_unsplit = true;
  k.bandwidth_share = sm120 ? 0.85 : 0.95;
  k.block_bytes_per_us = (sm120 ? 60 : 40) * 512;
  k.walk_us_per_token = sm120 ? 0.0219 : 0.0313;
  k.block_us = 4;
  k.empty_block_us = 0.33;
  k.passes_apart = 2.6;
  k.provenance = Provenance::fitted;
  k.error = sm120 ? 0.05 : 0.06;
  k.tail_error = sm120 ? 0.012 : 0.018;  // of the study
  if (gpu.architecture == "sm80") {      // nobody measured it: the 4090's numbers stand in
    k.provenance = Provenance::assumed;
    k.error = 0.3;
    k.tail_error = 0.1;
  }
  return k;
}

double mixed_us(const PromptPart& prompt, const KvLengths& decodes, const AttentionHeads& heads,
                const GpuSpec& gpu, const AttentionKernel& kernel) {
  const double sms = gpu.sm_count;
  const double walk = kernel.walk_us_per_token * heads.dim / 128;
  const double tiles = std::ceil(static_cast<double>(prompt.tokens) / tile);
  const auto past = static_cast<double>(prompt.past);
  const auto count = static_cast<double>(decodes.count);
  const double blocks = heads.query * (tiles + count);
  if (blocks <= 0) return 0;

  // Shares of all SMs together.
  const double prompt_us =
      heads.query * tiles * (kernel.block_us + walk * (past + (tiles + 1) / 2 * tile)) / sms;
  const double prompt_block_us =
      tiles > 0 ? kernel.block_us + walk * (past + static_cast<double>(prompt.tokens)) : 0;
  if (count <= 0) return std::max(prompt_us, prompt_block_us);
  const double decode_block_us = kernel.block_us + walk * decodes.mean();
  const double longest_us = kernel.block_us + walk * static_cast<double>(decodes.max);
  const double empty_us =
      heads.query * count * std::max(0.0, tiles - 1) * kernel.empty_block_us / sms;

  // DRAM. The query heads of a group walk the same KV. Their blocks find it in the L2 if that of
  // one KV head over all sequences fits, or if they run side by side; of the heads in flight
  // (blocks in flight / sequences) about one in `passes_apart` reads for itself.
  const double bytes = static_cast<double>(decodes.sum) * heads.kv_bytes_per_token();
  const double fits = 0.9 * static_cast<double>(gpu.l2.count());
  const double outside = std::clamp(bytes / fits - 1, 0.0, 1.0);
  const double apart = std::min(1.0, kernel.passes_apart * count / (blocks_per_sm * sms));
  const double group = std::max(1.0, static_cast<double>(heads.query) / heads.kv * apart);
  const double memory_us = bytes * heads.kv * (1 + (group - 1) * outside) /
                           (gpu.memory_bandwidth.count() * 1e-6 * kernel.bandwidth_share);

  const double all_us =
      prompt_us + empty_us + overlapped(heads.query * count * decode_block_us / sms, memory_us);
  // whole waves: of the decodes, and of the shortest blocks of all
  const double waves_us = std::ceil(heads.query * count / sms) * decode_block_us;
  const double shortest_us =
      tiles > 0 ? std::min(decode_block_us, kernel.block_us + walk * (past + tile)) : 0;
  const double all_waves_us = std::ceil(blocks / sms) * shortest_us;
  // The last head's blocks start when the others leave room, and the longest of them ends it.
  const double last_start_us = std::max(0.0, 1 - blocks_per_sm * sms / blocks) * all_us;
  return std::max(
      {all_us, waves_us, all_waves_us, last_start_us + std::max(longest_us, prompt_block_us)});
}

Prediction attention_pass(const AttentionPass& pass, const GpuSpec& gpu,
                          const AttentionKernel& kernel, const CostModel<GqaDecodeShape>& decode,
                          const CostModel<GqaPrefillShape>& prefill,
                          const CostModel<GqaMixedShape>* mixed) {
  SIM_ASSERT(pass.heads.query > 0 && pass.heads.kv > 0 && pass.heads.query >= pass.heads.kv);
  SIM_ASSERT(pass.decodes.count == 0 || pass.padded_batch >= pass.decodes.count);
  if (kernel.sums_prompts && pass.prompts.size() > 1) {
    AttentionPass one = pass;
    one.prompts = {summed(pass.prompts)};
    return attention_pass(one, gpu, kernel, decode, prefill, mixed);
  }
  Prediction decodes = zero();
  if (pass.decodes.count > 0) {
    decodes = decode.predict({pass.decodes.count, pass.decodes.mean(), pass.heads});
    if (kernel.walks_unsplit && !splits_kv(pass.padded_batch, pass.heads.kv, gpu.sm_count)) {
      const double token = pass.heads.kv_bytes_per_token();
      const double tail = kv_tail_ratio(
          pass.decodes, pass.heads.kv,
          {gpu.sm_count, gpu.memory_bandwidth.count() * 1e-6 * kernel.bandwidth_share / token,
           kernel.block_bytes_per_us / token});
      const double ratio = kernel.kv_tail == 1 ? tail : 1 + kernel.kv_tail * (tail - 1);
      decodes.time = decodes.time.scaled(ratio);
      if (ratio > 1) worsen(decodes, kernel.provenance, kernel.tail_error);
    }
  }
  Prediction prompts = zero();
  Duration largest;
  const PromptPart* inside = nullptr;
  for (const PromptPart& prompt : pass.prompts) {
    SIM_ASSERT(prompt.tokens > 0 && prompt.past >= 0);
    const Prediction p = prefill.predict({prompt, pass.heads});
    add(prompts, p);
    if (inside && p.time <= largest) continue;
    largest = p.time;
    inside = &prompt;
  }
  Prediction all = decodes;
  add(all, prompts);
  if (!inside || pass.decodes.count == 0 || kernel.prompts == AttentionKernel::Prompts::added)
    return all;

  const auto longest = static_cast<std::int64_t>(std::ceil(pass.decodes.mean()));
  const KvLengths equal{pass.decodes.count, pass.decodes.sum, longest};
  const double law_us = mixed_us(*inside, pass.decodes, pass.heads, gpu, kernel);
  const double tail_us = std::max(0.0, law_us - mixed_us(*inside, equal, pass.heads, gpu, kernel));
  double added_us = 0;
  if (mixed) {
    const Prediction launch =
        mixed->predict({*inside, pass.decodes.count, pass.decodes.mean(), pass.heads});
    added_us = (launch.time - largest).us() + kernel.kv_tail * tail_us;
    worsen(all, launch.provenance, launch.error);
  } else {
    added_us =
        law_us - mixed_us(*inside, {}, pass.heads, gpu, kernel) + (kernel.kv_tail - 1) * tail_us;
    worsen(all, kernel.provenance, kernel.error);
  }
  all.time = std::max({prompts.time + Duration::from_us(std::max(0.0, added_us)), decodes.time,
                       all.arithmetic, all.memory});
  return all;
}
