// vLLM V1's server (main of 2026-05-29): default sizes (engine/arg_utils.py), the KV pool
// (v1/worker/gpu_worker.py), captured sizes (config/compilation.py). Names are its own flags.
// Leaves out: speculation, the profiling run that sizes the KV pool (a reserve stands in for it),
// data and pipeline parallelism, decode context parallelism.

#include <algorithm>

#include <fmt/format.h>

#include "sim/base/versions.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/vllm_scheduler.hpp"

namespace {

// Activations, captured graphs and workspaces that the profiling run finds; assumed.
constexpr double activations = 4.0 * 1073741824.0;

EngineSetup setup(const EngineFacts& f, Section& s) {
  EngineSetup out;
  EngineSizes& sizes = out.sizes;
  // Cards of 70 GiB and more, A100 excepted, get the large defaults of the API server.
  const bool large =
      f.gpu_memory.real() >= 70.0 * 1073741824.0 && f.gpu_name.find("A100") == std::string::npos;
  VllmOptions o;
  o.max_num_seqs = s.optional<int>("max_num_seqs", large ? 1024 : 256, between(1, 1 << 20));
  sizes.max_running_requests = o.max_num_seqs;
  const auto context =
      s.optional<std::int64_t>("max_model_len", f.context_length, positive<std::int64_t>());
  const int chunk = f.prefill_chunk > 0 ? f.prefill_chunk : large ? 8192 : 2048;
  o.max_num_batched_tokens = s.optional<int>("max_num_batched_tokens", chunk, between(1, 1 << 24));
  o.enable_chunked_prefill = s.optional("enable_chunked_prefill", true);
  o.long_prefill_token_threshold =
      s.optional<int>("long_prefill_token_threshold", 0, between(0, 1 << 24));
  o.scheduler_reserve_full_isl = s.optional("scheduler_reserve_full_isl", true);
  sizes.chunked_prefill_size = static_cast<int>(o.max_num_batched_tokens);
  if (o.max_num_batched_tokens < o.max_num_seqs) {
    if (s.has("max_num_seqs") || s.has("max_num_batched_tokens"))
      s.error(s.has("max_num_batched_tokens") ? "max_num_batched_tokens" : "max_num_seqs",
              fmt::format("max_num_batched_tokens {} is below max_num_seqs {}: a step could not "
                          "decode everybody",
                          o.max_num_batched_tokens, o.max_num_seqs),
              "vLLM refuses this too; raise the one or lower the other");
    o.max_num_seqs = sizes.max_running_requests = static_cast<int>(o.max_num_batched_tokens);
  }
  if (!o.enable_chunked_prefill && o.max_num_batched_tokens < context)
    s.error(
        "enable_chunked_prefill",
        fmt::format("without chunked prefill a prompt of {} tokens would never fit a step of {}",
                    context, o.max_num_batched_tokens),
        "raise max_num_batched_tokens to max_model_len");
  sizes.mem_fraction_static =
      s.optional<double>("gpu_memory_utilization", 0.92, between(0.01, 0.999));
  sizes.page_size = s.optional<int>("block_size", f.sparse_model ? 64 : 16, between(1, 1 << 16));
  sizes.prefix_cache = s.optional("enable_prefix_caching", true) ? "blocks" : "none";
  // On by default since 0.14 (vllm-project/vllm #27614, release notes of v0.14.0).
  sizes.loop_depth = s.optional("async_scheduling", !older(f.version, "0.14")) ? 2 : 1;
  sizes.makes_asynchronous = {"async_scheduling", "on"};
  sizes.decode_log_interval = 0;  // logs by the clock
  sizes.rules = {.skips_finished = true,
                 .keeps_token_in_flight = true,
                 .retracted_first = true,
                 .caches_retracted = true,
                 .shares_at_admission = true,
                 .clips_max_new = false};
  bool graphs = s.optional("cuda_graph", f.decode_graphs);
  if (s.optional("enforce_eager", false)) graphs = false;
  if (graphs && !f.decode_graphs)
    s.error("cuda_graph", "this build cannot capture decode",
            "choose another build or cuda_graph: off");
  const std::string mode = s.word(
      "cudagraph_mode", {"none", "piecewise", "full", "full_decode_only", "full_and_piecewise"},
      "full_and_piecewise");
  const int largest =
      s.optional<int>("max_cudagraph_capture_size",
                      static_cast<int>(std::min<std::int64_t>(
                          {512, 2 * std::int64_t{o.max_num_seqs}, o.max_num_batched_tokens})),
                      between(1, 1 << 16));
  if (graphs && mode != "none") {
    std::vector<int> captured;
    for (const int b : {1, 2, 4})
      if (b <= largest) captured.push_back(b);
    for (int b = 8; b <= largest; b += b < 256 ? 8 : 16) captured.push_back(b);
    sizes.graph_sizes = captured;
    if (mode == "piecewise" || mode == "full_and_piecewise" || mode == "full")
      sizes.piecewise_tokens = captured.back();
  }
  const Bytes beside(static_cast<std::int64_t>(
      f.reserved.real() + activations + f.gpu_memory.real() * (1 - sizes.mem_fraction_static)));
  const auto blocks = s.maybe<std::int64_t>("num_gpu_blocks_override",
                                            between<std::int64_t>(1, std::int64_t{1} << 40));
  if (!size_pool(f, beside, sizes, s)) return out;
  if (blocks) {
    sizes.kv_tokens = Tokens(*blocks * sizes.page_size);
    sizes.kv_bytes = Bytes(sizes.kv_tokens.count() * f.kv_per_token.count());
  }
  // v1/core/block_pool.py takes one block out as the null block. The KV use that a served run of
  // 2,588 blocks logged is in whole 2,587ths (docs/models/dense.md).
  sizes.null_pages = 1;
  sizes.max_request_tokens =
      std::min(context, sizes.kv_tokens.count() - sizes.null_pages * sizes.page_size) + 1;
  if (sizes.kv_tokens.count() < context) {
    if (s.has("max_model_len") || s.has("num_gpu_blocks_override"))
      s.error(s.has("max_model_len") ? "max_model_len" : "num_gpu_blocks_override",
              fmt::format("one request of max_model_len {} does not fit the KV cache of {} tokens",
                          context, sizes.kv_tokens.count()),
              fmt::format("vLLM refuses to start; set max_model_len to {} or less",
                          sizes.kv_tokens.count()));
  }
  out.scheduler = std::make_unique<VllmScheduler>(o);
  return out;
}

const Registered<EngineKind> me("vllm", {"vLLM V1: a budget of tokens, the running first", setup});

}  // namespace
