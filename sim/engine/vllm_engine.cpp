// vLLM's server so far: its sizes, for workloads that follow by themselves. Names are its own
// flags. Leaves out: the scheduler, speculation, the profiling run that sizes the KV pool (a
// reserve stands in for it).

#include <fmt/format.h>

#include "sim/engine/engine.hpp"

namespace {

// Activations, captured graphs and workspaces that the profiling run finds; assumed.
constexpr double activations = 4.0 * 1073741824.0;

EngineSetup setup(const EngineFacts& f, Section& s) {
  EngineSetup out;
  EngineSizes& sizes = out.sizes;
  const int chunk = f.prefill_chunk > 0 ? f.prefill_chunk : 8192;
  sizes.chunked_prefill_size =
      s.optional<int>("max_num_batched_tokens", chunk, between(1, 1 << 24));
  sizes.max_running_requests = s.optional<int>("max_num_seqs", 256, between(1, 1 << 20));
  sizes.max_request_tokens =
      s.optional<std::int64_t>("max_model_len", f.context_length, positive<std::int64_t>());
  sizes.mem_fraction_static =
      s.optional<double>("gpu_memory_utilization", 0.92, between(0.01, 0.999));
  sizes.page_size = s.optional<int>("block_size", f.sparse_model ? 64 : 16, between(1, 1 << 16));
  const bool graphs = s.optional("cuda_graph", f.decode_graphs);
  if (graphs && !f.decode_graphs)
    s.error("cuda_graph", "this build cannot capture decode",
            "choose another build or cuda_graph: off");
  const int largest = s.optional<int>("max_cudagraph_capture_size", 512, between(1, 1 << 16));
  if (graphs) {
    for (const int b : {1, 2, 4})
      if (b <= largest) sizes.graph_sizes.push_back(b);
    for (int b = 8; b <= largest; b += b < 256 ? 8 : 16) sizes.graph_sizes.push_back(b);
  }
  const double pool = f.gpu_memory.real() * sizes.mem_fraction_static - f.reserved.real() -
                      f.weights.real() - activations;
  const std::int64_t page_bytes = f.kv_per_token.count() * sizes.page_size;
  if (pool < static_cast<double>(page_bytes)) {
    s.error("tensor_parallel",
            fmt::format("{} does not fit on {}x {} at TP{}\n{}", f.model_name, f.tensor_parallel,
                        f.gpu_name, f.tensor_parallel,
                        memory_sum(f, Bytes(static_cast<std::int64_t>(
                                          f.reserved.real() + activations +
                                          f.gpu_memory.real() * (1 - sizes.mem_fraction_static))))),
            "try more GPUs, a larger gpu_memory_utilization, or a smaller checkpoint");
    return out;
  }
  const auto pages = static_cast<std::int64_t>(pool) / page_bytes;
  sizes.kv_tokens = Tokens(pages * sizes.page_size);
  sizes.kv_bytes = Bytes(pages * page_bytes);
  return out;
}

const Registered<EngineKind> me("vllm", {"vLLM: sizes only, no scheduler yet", setup, false});

}  // namespace
