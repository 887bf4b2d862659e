// The command line of an inference server, as settings of a scenario. Flags are those of SGLang
// 0.5.9 to 0.5.14 (docs/advanced_features/server_arguments.md, read 2026-12) and vLLM V1 (engine
// arguments of 2026-05). Leaves out: files named by --config, command substitution, loops.

#include "sim/scenario/launch_command.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hardware/collective/nccl/environment.hpp"
#include "sim/base/units.hpp"

namespace {

// ---- the shell ----

struct Word {
  std::string text;
  std::vector<std::size_t> at;  // where each character stands in the whole text
  std::size_t begin = 0;
  std::string unset;  // a variable in it that the text does not set
};
using Command = std::vector<Word>;

bool is_name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// "NAME=value": the length of the name; 0 when it is none.
std::size_t assignment(const std::string& word) {
  std::size_t n = 0;
  while (n < word.size() && is_name_char(word[n])) ++n;
  const bool named = n > 0 && !std::isdigit(static_cast<unsigned char>(word[0]));
  return named && n < word.size() && word[n] == '=' ? n : 0;
}

/// Splits text into commands of words, as a shell does.
class Shell {
 public:
  Shell(std::string text, std::vector<std::size_t> at) : text_(std::move(text)), at_(at) {}

  std::vector<Command> commands(std::map<std::string, std::string>& variables) {
    variables_ = &variables;
    while (i_ < text_.size()) step();
    end_command();
    return std::move(commands_);
  }
  /// Where a quote opens that does not close.
  std::optional<std::size_t> open_quote() const { return open_quote_; }

 private:
  char peek(std::size_t ahead) const {
    return i_ + ahead < text_.size() ? text_[i_ + ahead] : '\0';
  }
  void step() {
    const char c = text_[i_];
    if (c == '\\') {
      if (peek(1) == '\n') return void(i_ += 2);
      if (peek(1) == '\r' && peek(2) == '\n') return void(i_ += 3);
      if (i_ + 1 < text_.size()) ++i_;
      return put(text_[i_], i_), void(++i_);
    }
    if (c == '\'' || c == '"') return quoted(c);
    if (c == '$') return variable();
    if (c == '#' && !in_word_) {
      while (i_ < text_.size() && text_[i_] != '\n') ++i_;
      return;
    }
    if (c == '\n' || c == ';' || c == '|' || (c == '&' && peek(1) != '>')) {
      ++i_;
      return end_command();
    }
    if (c == '>' || c == '<' || c == '&') return redirection();
    ++i_;
    if (std::isspace(static_cast<unsigned char>(c))) return end_word();
    put(c, i_ - 1);
  }
  void quoted(char quote) {
    const std::size_t opened = at_[i_++];
    begin_word(opened);
    while (i_ < text_.size() && text_[i_] != quote) {
      if (quote == '"' && text_[i_] == '$') {
        variable();
        continue;
      }
      if (quote == '"' && text_[i_] == '\\' && i_ + 1 < text_.size()) {
        const char next = text_[i_ + 1];
        if (next == '\n') {
          i_ += 2;
          continue;
        }
        if (next == '"' || next == '\\' || next == '$' || next == '`') ++i_;
      }
      put(text_[i_], i_), ++i_;
    }
    if (i_ == text_.size() && !open_quote_) open_quote_ = opened;
    if (i_ < text_.size()) ++i_;
  }
  // $NAME, ${NAME}, ${NAME:-value}; anything else stays as it stands.
  void variable() {
    const std::size_t from = i_;
    const bool braces = peek(1) == '{';
    std::size_t end = i_ + (braces ? 2 : 1);
    const std::size_t name_at = end;
    while (end < text_.size() && is_name_char(text_[end])) ++end;
    const std::string name = text_.substr(name_at, end - name_at);
    std::optional<std::string> value;
    if (braces) {
      const std::size_t close = text_.find('}', end);
      if (name.empty() || close == std::string::npos) return put('$', i_), void(++i_);
      if (text_.compare(end, 2, ":-") == 0 || text_.compare(end, 2, ":=") == 0)
        value = text_.substr(end + 2, close - end - 2);
      end = close + 1;
    }
    if (name.empty()) return put('$', i_), void(++i_);
    if (const auto it = variables_->find(name); it != variables_->end()) value = it->second;
    begin_word(at_[from]);
    if (!value) word_.unset = name;
    for (const char c : value ? *value : text_.substr(from, end - from)) put(c, from);
    i_ = end;
  }
  void redirection() {
    if (std::all_of(word_.text.begin(), word_.text.end(),
                    [](char c) { return c >= '0' && c <= '9'; }))
      word_ = {}, in_word_ = false;  // "2>"
    end_word();
    while (i_ < text_.size() && (text_[i_] == '>' || text_[i_] == '<' || text_[i_] == '&')) ++i_;
    skip_word_ = true;  // its file
  }
  void begin_word(std::size_t at) {
    if (!in_word_) word_.begin = at;
    in_word_ = true;
  }
  void put(char c, std::size_t at) {
    begin_word(at_[at]);
    word_.text += c;
    word_.at.push_back(at_[at]);
  }
  void end_word() {
    if (!in_word_) return;
    if (!skip_word_) {
      // Assignments count from here on, for the words behind them.
      const auto n = assignment(word_.text);
      if (n > 0 && word_.unset.empty())
        variables_->insert_or_assign(word_.text.substr(0, n), word_.text.substr(n + 1));
      command_.push_back(std::move(word_));
    }
    skip_word_ = in_word_ = false;
    word_ = {};
  }
  void end_command() {
    end_word();
    skip_word_ = false;
    if (!command_.empty()) commands_.push_back(std::move(command_));
    command_ = {};
  }

  std::string text_;
  std::vector<std::size_t> at_;
  std::map<std::string, std::string>* variables_ = nullptr;
  std::size_t i_ = 0;
  Word word_;
  bool in_word_ = false, skip_word_ = false;
  Command command_;
  std::vector<Command> commands_;
  std::optional<std::size_t> open_quote_;
};

// ---- the flags ----

enum class Takes {
  nothing,
  on_off,   // vLLM's --flag and --no-flag
  integer,  // vLLM's lengths may say 32k
  real,
  word,   // one of `words`
  text,   // one value, whatever it is
  some,   // one or more values
  maybe,  // values or none
};
enum class Fate {
  engine,     // becomes `key`
  model,      // names the model
  quantized,  // the weights' precision: the model file has it
  graphs,     // vLLM's compilation config
  no_effect,
  by_build,
  lacking,  // `note` says what the prediction does without
  config,   // names a file with more flags
};

struct Flag {
  const char* names;  // a trailing * stands for a family
  Takes takes;
  Fate fate;
  /// engine: "key" or "key: value" of a flag that takes nothing. lacking: the reason.
  const char* note = "";
  /// Words: "theirs=ours", "theirs=" (their default, nothing to write), "theirs=?" (not modelled).
  /// Of a flag that is lacking: values that change nothing.
  const char* words = "";
  double least = 0, most = 1e12;
};

constexpr const char* speculation =
    "speculative decoding: steps and accepted tokens are those of "
    "plain decode";
constexpr const char* data_parallel = "data parallelism: one replica is predicted";
constexpr const char* expert_parallel =
    "expert parallelism: experts are cut by tensor parallelism instead, without all-to-all";
constexpr const char* pipeline = "pipeline parallelism: all layers are on every GPU";
constexpr const char* context_parallel =
    "context parallelism: each GPU holds all KV heads it needs";
constexpr const char* offload = "offloading: weights and KV stay on the GPU";
constexpr const char* disaggregated = "disaggregation: prefill and decode share one server";
constexpr const char* lora = "LoRA adapters: their kernels and loads";
constexpr const char* nodes = "several nodes: one box is predicted";
constexpr const char* overlap_batches = "overlap inside a pass: operators run one after another";
constexpr const char* other_fusion = "this choice of kernels or fusions: the build has its own";
constexpr const char* hidden_state = "work per token beside the forward pass";
constexpr const char* priorities = "priorities: requests go in the order of their arrival";

constexpr const char* kv_words =
    "auto= bf16=bf16 bfloat16=bf16 fp8=fp8 fp8_e4m3=fp8 fp8_e5m2=fp8 fp8_inc=? fp8_ds_mla=fp8 "
    "fp4_e2m1=? nvfp4=?";

const Flag sglang_flags[] = {
    // becomes a value
    {"--model-path --model", Takes::text, Fate::model},
    {"--tensor-parallel-size --tp-size --tp", Takes::integer, Fate::engine, "tensor_parallel", "",
     1, 1024},
    {"--kv-cache-dtype", Takes::word, Fate::engine, "kv_cache_dtype", kv_words},
    {"--mem-fraction-static", Takes::real, Fate::engine, "mem_fraction_static", "", 0.01, 0.999},
    {"--max-running-requests", Takes::integer, Fate::engine, "max_running_requests", "", 1, 1e6},
    {"--chunked-prefill-size", Takes::integer, Fate::engine, "chunked_prefill_size", "", -1, 1e7},
    {"--max-prefill-tokens", Takes::integer, Fate::engine, "max_prefill_tokens", "", 1, 1e7},
    {"--prefill-max-requests", Takes::integer, Fate::engine, "prefill_max_requests", "", 0, 1e6},
    {"--schedule-policy", Takes::word, Fate::engine, "schedule_policy",
     "fcfs=fcfs lpm=lpm lof=lof random=random dfs-weight=? priority=? routing-key=? hrrn=?"},
    {"--schedule-conservativeness", Takes::real, Fate::engine, "schedule_conservativeness", "",
     1e-6, 1e6},
    {"--context-length", Takes::integer, Fate::engine, "context_length", "", 1, 1e9},
    {"--page-size", Takes::integer, Fate::engine, "page_size", "", 1, 65536},
    {"--disable-overlap-schedule", Takes::nothing, Fate::engine, "disable_overlap_schedule: on"},
    {"--enable-mixed-chunk", Takes::nothing, Fate::engine, "enable_mixed_chunk: on"},
    {"--disable-radix-cache", Takes::nothing, Fate::engine, "disable_radix_cache: on"},
    {"--radix-eviction-policy", Takes::word, Fate::engine, "radix_eviction_policy",
     "lru=lru lfu=lfu fifo=fifo mru=mru filo=filo priority=priority"},
    {"--decode-log-interval", Takes::integer, Fate::engine, "decode_log_interval", "", 1, 1e6},
    {"--disable-cuda-graph", Takes::nothing, Fate::engine, "cuda_graph: off"},
    {"--cuda-graph-max-bs", Takes::integer, Fate::engine, "cuda_graph_max_bs", "", 1, 65536},
    {"--disable-cuda-graph-padding", Takes::nothing, Fate::engine,
     "disable_cuda_graph_padding: on"},
    {"--enable-piecewise-cuda-graph", Takes::nothing, Fate::engine,
     "enable_piecewise_cuda_graph: on"},
    {"--disable-piecewise-cuda-graph", Takes::nothing, Fate::engine,
     "enable_piecewise_cuda_graph: off"},
    {"--piecewise-cuda-graph-max-tokens", Takes::integer, Fate::engine,
     "piecewise_cuda_graph_max_tokens", "", 1, 1e6},
    {"--quantization", Takes::text, Fate::quantized},
    {"--config", Takes::text, Fate::config},

    // which kernels run
    {"--attention-backend", Takes::text, Fate::by_build},
    {"--prefill-attention-backend --decode-attention-backend", Takes::text, Fate::by_build},
    {"--nsa-prefill-backend --nsa-decode-backend --dsa-prefill-backend --dsa-decode-backend "
     "--nsa-prefill --nsa-decode",
     Takes::text, Fate::by_build},
    {"--moe-runner-backend --fp8-gemm-backend --fp4-gemm-backend --fp8-gemm-runner-backend "
     "--fp4-gemm-runner-backend --sampling-backend --flashinfer-mxfp4-moe-precision",
     Takes::text, Fate::by_build},
    {"--enable-flashinfer-cutlass-moe --enable-flashinfer-cutedsl-moe "
     "--enable-flashinfer-trtllm-moe "
     "--enable-triton-kernel-moe --enable-flashinfer-mxfp4-moe",
     Takes::nothing, Fate::by_build},
    {"--triton-attention-reduce-in-fp32 --flashinfer-mla-disable-ragged "
     "--disable-flashinfer-autotune --disable-shared-experts-fusion --enable-fused-qk-norm-rope",
     Takes::nothing, Fate::by_build},
    {"--triton-attention-num-kv-splits --triton-attention-split-tile-size", Takes::text,
     Fate::by_build},
    {"--disable-custom-all-reduce --enable-mscclpp --enable-torch-symm-mem --enable-symm-mem "
     "--enable-nccl-nvls --enable-flashinfer-allreduce-fusion --enable-aiter-allreduce-fusion",
     Takes::nothing, Fate::by_build},
    {"--dtype", Takes::word, Fate::lacking, "this type: weights are those of the model file",
     "auto bfloat16 half float16 float float32"},

    // moves timing, not modelled
    {"--speculative-*", Takes::maybe, Fate::lacking, speculation},
    {"--enable-multi-layer-eagle", Takes::nothing, Fate::lacking, speculation},
    {"--data-parallel-size --dp-size --dp", Takes::integer, Fate::lacking, data_parallel, "1", 1,
     1e4},
    {"--enable-dp-attention --enable-dp-lm-head", Takes::nothing, Fate::lacking, data_parallel},
    {"--expert-parallel-size --ep-size --ep", Takes::integer, Fate::lacking, expert_parallel, "1",
     1, 1e4},
    {"--moe-a2a-backend", Takes::text, Fate::lacking, expert_parallel, "none"},
    {"--enable-ep-moe --enable-deepep-moe --enable-eplb --enable-deepep-waterfill", Takes::nothing,
     Fate::lacking, expert_parallel},
    {"--ep-* --eplb-* --deepep-* --elastic-ep-* --init-expert-location", Takes::maybe,
     Fate::lacking, expert_parallel},
    {"--moe-dense-tp-size --moe-data-parallel-size --moe-dp-size", Takes::integer, Fate::lacking,
     expert_parallel, "", 1, 1e4},
    {"--pipeline-parallel-size --pp-size --pp", Takes::integer, Fate::lacking, pipeline, "1", 1,
     1e4},
    {"--pp-max-micro-batch-size --pp-async-batch-depth", Takes::integer, Fate::lacking, pipeline,
     "0", 0, 1e6},
    {"--enable-dynamic-chunking", Takes::nothing, Fate::lacking, pipeline},
    {"--attention-context-parallel-size --attn-cp-size", Takes::integer, Fate::lacking,
     context_parallel, "1", 1, 1e4},
    {"--enable-nsa-prefill-context-parallel --enable-dsa-prefill-context-parallel", Takes::nothing,
     Fate::lacking, context_parallel},
    {"--nsa-prefill-cp-mode --dsa-prefill-cp-mode", Takes::text, Fate::lacking, context_parallel},
    {"--nnodes", Takes::integer, Fate::lacking, nodes, "1", 1, 1e4},
    {"--max-total-tokens", Takes::integer, Fate::lacking,
     "a limit of the KV pool: it is sized from memory", "", 1, 1e10},
    {"--cuda-graph-bs --piecewise-cuda-graph-tokens", Takes::some, Fate::lacking,
     "a list of captured sizes: the sizes are the server's own"},
    {"--torch-compile-max-bs", Takes::integer, Fate::lacking, other_fusion, "", 1, 1e6},
    {"--enable-torch-compile --enable-deterministic-inference --enable-fp32-lm-head "
     "--enable-attn-tp-input-scattered --disable-chunked-prefix-cache "
     "--enforce-piecewise-cuda-graph --enable-fused-grouped-gemm-combine "
     "--disable-flashinfer-cutlass-moe-fp4-allgather --enable-quant-communications",
     Takes::nothing, Fate::lacking, other_fusion},
    {"--torchao-config --modelopt-quant", Takes::text, Fate::lacking, other_fusion},
    {"--quantize-and-serve", Takes::nothing, Fate::lacking, other_fusion},
    {"--enable-two-batch-overlap --enable-single-batch-overlap", Takes::nothing, Fate::lacking,
     overlap_batches},
    {"--tbo-token-distribution-threshold", Takes::real, Fate::lacking, overlap_batches},
    {"--stream-interval", Takes::integer, Fate::lacking,
     "chunks of several tokens: each token arrives alone", "1", 1, 1e6},
    {"--scheduler-recv-interval", Takes::integer, Fate::lacking,
     "rarer polling: requests are seen before every pass", "1", 1, 1e6},
    {"--enable-priority-scheduling --schedule-low-priority-values-first", Takes::nothing,
     Fate::lacking, priorities},
    {"--priority-scheduling-preemption-threshold", Takes::integer, Fate::lacking, priorities},
    {"--max-queued-requests", Takes::integer, Fate::lacking,
     "a limit of the queue: nobody is turned away", "", 0, 1e9},
    {"--enable-prefill-delayer", Takes::nothing, Fate::lacking,
     "delayed prefill: prompts go as soon as they fit"},
    {"--prefill-delayer-*", Takes::maybe, Fate::lacking,
     "delayed prefill: prompts go as soon as they fit"},
    {"--swa-full-tokens-ratio", Takes::real, Fate::lacking,
     "sliding windows: every layer holds all tokens"},
    {"--disable-hybrid-swa-memory", Takes::nothing, Fate::no_effect},
    {"--mamba-* --max-mamba-cache-size", Takes::maybe, Fate::lacking, "state-space layers"},
    {"--enable-hierarchical-cache --enable-lmcache", Takes::nothing, Fate::lacking,
     "a KV cache in host memory: what the GPU evicts is computed again"},
    {"--hicache-*", Takes::maybe, Fate::lacking,
     "a KV cache in host memory: what the GPU evicts is computed again"},
    {"--cpu-offload-gb", Takes::real, Fate::lacking, offload, "0"},
    {"--offload-* --kt-*", Takes::maybe, Fate::lacking, offload},
    {"--disaggregation-mode", Takes::text, Fate::lacking, disaggregated, "null"},
    {"--disaggregation-* --encoder-* --pdmux-* --sm-group-num", Takes::maybe, Fate::lacking,
     disaggregated},
    {"--enable-pdmux --language-only", Takes::nothing, Fate::lacking, disaggregated},
    {"--num-reserved-decode-tokens", Takes::integer, Fate::lacking, disaggregated},
    {"--enable-lora --enable-lora-overlap-loading", Takes::nothing, Fate::lacking, lora},
    {"--lora-* --max-lora-* --max-loras-per-batch --max-loaded-loras", Takes::maybe, Fate::lacking,
     lora},
    {"--dllm-*", Takes::maybe, Fate::lacking, "diffusion language models"},
    {"--is-embedding --enable-return-hidden-states --enable-return-routed-experts "
     "--enable-custom-logit-processor --enable-nan-detection",
     Takes::nothing, Fate::lacking, hidden_state},
    {"--forward-hooks --debug-tensor-*", Takes::maybe, Fate::lacking, hidden_state},
    {"--json-model-override-args", Takes::text, Fate::lacking,
     "a changed model: it is the file of models/zoo"},

    // does not move timing
    {"--host --port --fastapi-root-path --nccl-port --api-key --admin-api-key --served-model-name "
     "--weight-version --chat-template --hf-chat-template-name --completion-template "
     "--file-storage-path --reasoning-parser --tool-call-parser --tool-server --sampling-defaults "
     "--tokenizer-path --tokenizer-mode --tokenizer-worker-num --load-format "
     "--model-loader-extra-config --revision --model-impl --download-dir --warmups",
     Takes::text, Fate::no_effect},
    {"--log-level --log-level-http --log-requests-level --log-requests-format --crash-dump-folder "
     "--tokenizer-metrics-custom-labels-header --gc-warning-threshold-secs --kv-events-config "
     "--otlp-traces-endpoint --export-metrics-to-file-dir --random-seed --device "
     "--watchdog-timeout "
     "--soft-watchdog-timeout --dist-timeout --base-gpu-id --gpu-id-step --dist-init-addr "
     "--nccl-init-addr --node-rank --load-balance-method --grammar-backend "
     "--constrained-json-whitespace-pattern --quantization-param-path --load-watch-interval "
     "--custom-sigquit-handler --preferred-sampling-params --multi-item-scoring-delimiter "
     "--num-continuous-decode-steps --dynamic-batch-tokenizer-batch-size "
     "--dynamic-batch-tokenizer-batch-timeout --expert-distribution-recorder-mode "
     "--expert-distribution-recorder-buffer-size --piecewise-cuda-graph-compiler "
     "--mooncake-ib-device --decrypted-config-file --mm-attention-backend",
     Takes::text, Fate::no_effect},
    {"--trust-remote-code --skip-tokenizer-init --enable-multimodal --grpc-mode "
     "--skip-server-warmup --checkpoint-engine-wait-weights-before-ready "
     "--incremental-streaming-output "
     "--stream-output --constrained-json-disable-any-whitespace --sleep-on-idle --log-requests "
     "--show-time-cost --enable-metrics --enable-mfu-metrics --enable-metrics-for-all-schedulers "
     "--collect-tokens-histogram --enable-request-time-stats-logging --enable-trace "
     "--export-metrics-to-file --enable-cache-report --enable-expert-distribution-metrics "
     "--enable-profile-cuda-graph --enable-cudagraph-gc --enable-layerwise-nvtx-marker "
     "--enable-tokenizer-batch-encode --disable-tokenizer-batch-decode "
     "--disable-outlines-disk-cache --enable-p2p-check --delete-ckpt-after-loading "
     "--enable-memory-saver --enable-weights-cpu-backup --enable-draft-weights-cpu-backup "
     "--allow-auto-truncate --disable-fast-image-processor --keep-mm-feature-on-device "
     "--enable-dynamic-batch-tokenizer --enable-torch-compile-debug-mode "
     "--abort-on-priority-when-disabled --weight-loader-disable-mmap "
     "--weight-loader-prefetch-checkpoints --enable-precise-embedding-interpolation",
     Takes::nothing, Fate::no_effect},
    {"--model-checksum --log-requests-target --bucket-* --prompt-tokens-buckets "
     "--generation-tokens-buckets --uvicorn-* --tokenizer-metrics-allowed-custom-labels "
     "--custom-weight-loader --remote-instance-* --mm-* --limit-mm-* --numa-node "
     "--weight-loader-* --modelopt-checkpoint-* --msprobe-* --rl-* --enable-mm-*",
     Takes::maybe, Fate::no_effect},
};

const Flag vllm_flags[] = {
    // becomes a value
    {"--model", Takes::text, Fate::model},
    {"--tensor-parallel-size -tp", Takes::integer, Fate::engine, "tensor_parallel", "", 1, 1024},
    {"--kv-cache-dtype", Takes::word, Fate::engine, "kv_cache_dtype", kv_words},
    {"--gpu-memory-utilization", Takes::real, Fate::engine, "gpu_memory_utilization", "", 0.01,
     0.999},
    {"--max-num-seqs", Takes::integer, Fate::engine, "max_num_seqs", "", 1, 1e6},
    {"--max-num-batched-tokens", Takes::integer, Fate::engine, "max_num_batched_tokens", "", 1,
     1e7},
    {"--max-model-len", Takes::integer, Fate::engine, "max_model_len", "auto= -1=", 1, 1e9},
    {"--block-size", Takes::integer, Fate::engine, "block_size", "", 1, 65536},
    {"--long-prefill-token-threshold", Takes::integer, Fate::engine, "long_prefill_token_threshold",
     "", 0, 1e7},
    {"--num-gpu-blocks-override", Takes::integer, Fate::engine, "num_gpu_blocks_override", "", 1,
     1e9},
    {"--enable-chunked-prefill", Takes::on_off, Fate::engine, "enable_chunked_prefill"},
    {"--enable-prefix-caching", Takes::on_off, Fate::engine, "enable_prefix_caching"},
    {"--async-scheduling", Takes::on_off, Fate::engine, "async_scheduling"},
    {"--scheduler-reserve-full-isl", Takes::on_off, Fate::engine, "scheduler_reserve_full_isl"},
    {"--enforce-eager", Takes::on_off, Fate::engine, "enforce_eager"},
    {"--max-cudagraph-capture-size", Takes::integer, Fate::engine, "max_cudagraph_capture_size", "",
     1, 65536},
    {"--compilation-config -cc", Takes::text, Fate::graphs},
    {"--quantization -q", Takes::text, Fate::quantized},
    {"--config", Takes::text, Fate::config},

    // which kernels run
    {"--attention-backend --moe-backend --linear-backend --all2all-backend --attention-config "
     "--kernel-config -ac",
     Takes::text, Fate::by_build},
    {"--disable-custom-all-reduce --disable-cascade-attn", Takes::on_off, Fate::by_build},
    {"--dtype", Takes::word, Fate::lacking, "this type: weights are those of the model file",
     "auto bfloat16 half float16 float float32"},

    // moves timing, not modelled
    {"--speculative-* -sc", Takes::maybe, Fate::lacking, speculation},
    {"--data-parallel-size -dp", Takes::integer, Fate::lacking, data_parallel, "1", 1, 1e4},
    {"--data-parallel-* --api-server-count -asc -dpl -dpa -dpp -dpb", Takes::maybe, Fate::lacking,
     data_parallel},
    {"--enable-expert-parallel -ep", Takes::on_off, Fate::lacking, expert_parallel},
    {"--enable-eplb", Takes::on_off, Fate::lacking, expert_parallel},
    {"--eplb-* --expert-placement-strategy", Takes::maybe, Fate::lacking, expert_parallel},
    {"--pipeline-parallel-size -pp", Takes::integer, Fate::lacking, pipeline, "1", 1, 1e4},
    {"--decode-context-parallel-size -dcp --prefill-context-parallel-size -pcp", Takes::integer,
     Fate::lacking, context_parallel, "1", 1, 1e4},
    {"--dcp-*", Takes::maybe, Fate::lacking, context_parallel},
    {"--nnodes", Takes::integer, Fate::lacking, nodes, "1", 1, 1e4},
    {"--cudagraph-capture-sizes --cuda-graph-sizes", Takes::some, Fate::lacking,
     "a list of captured sizes: the sizes are the server's own"},
    {"--optimization-level -O", Takes::text, Fate::lacking,
     "this optimisation level: passes are captured as by default", "2 3"},
    {"--max-num-partial-prefills --max-long-partial-prefills", Takes::integer, Fate::lacking,
     "several prompts in chunks at a time", "1", 1, 1e4},
    {"--scheduling-policy", Takes::word, Fate::lacking, priorities, "fcfs priority"},
    {"--stream-interval", Takes::integer, Fate::lacking,
     "chunks of several tokens: each token arrives alone", "1", 1, 1e6},
    {"--performance-mode", Takes::word, Fate::lacking, "this mode: sizes are those of 'balanced'",
     "balanced throughput interactivity"},
    {"--kv-cache-memory-bytes", Takes::text, Fate::lacking,
     "a given size of the KV pool: it is sized from memory"},
    {"--cpu-offload-gb --swap-space", Takes::real, Fate::lacking, offload, "0"},
    {"--offload-* --kv-offloading-*", Takes::maybe, Fate::lacking, offload},
    {"--kv-transfer-config --ec-transfer-config", Takes::text, Fate::lacking, disaggregated},
    {"--enable-lora --fully-sharded-loras", Takes::on_off, Fate::lacking, lora},
    {"--lora-* --max-lora* --max-cpu-loras --default-mm-loras", Takes::maybe, Fate::lacking, lora},
    {"--enable-dbo", Takes::on_off, Fate::lacking, overlap_batches},
    {"--dbo-* --ubatch-size", Takes::maybe, Fate::lacking, overlap_batches},
    {"--enable-return-routed-experts --calculate-kv-scales", Takes::on_off, Fate::lacking,
     hidden_state},
    {"--hf-overrides", Takes::text, Fate::lacking, "a changed model: it is the file of models/zoo"},
    {"--additional-config --scheduler-cls --worker-cls --worker-extension-cls --logits-processors",
     Takes::some, Fate::lacking, "code of your own"},
    {"--disable-hybrid-kv-cache-manager", Takes::on_off, Fate::no_effect},
    {"--mamba-*", Takes::maybe, Fate::lacking, "state-space layers"},

    // does not move timing
    {"--host --port --uds --root-path --api-key --served-model-name --chat-template "
     "--chat-template-content-format --response-role --reasoning-parser --tool-call-parser "
     "--tool-parser-plugin --reasoning-parser-plugin --tool-server --tokenizer --tokenizer-mode "
     "--revision --code-revision --tokenizer-revision --load-format --download-dir --config-format "
     "--hf-config-path --hf-token --model-impl --runner --convert --task --seed --max-logprobs "
     "--logprobs-mode --uvicorn-log-level --ssl-keyfile --ssl-certfile --ssl-ca-certs "
     "--ssl-cert-reqs --allowed-origins --allowed-methods --allowed-headers "
     "--distributed-executor-backend --node-rank --master-addr --master-port "
     "--generation-config --override-generation-config --default-chat-template-kwargs "
     "--guided-decoding-backend --structured-outputs-config --prefix-caching-hash-algo "
     "--model-loader-extra-config --otlp-traces-endpoint --collect-detailed-traces "
     "--max-log-len --log-config-file --kv-events-config --profiler-config --device "
     "--distributed-timeout-seconds --middleware --max-parallel-loading-workers "
     "--show-hidden-metrics-for-version --cudagraph-metrics --weight-transfer-config "
     "--renderer-num-workers --use-gpu-for-pooling-score",
     Takes::text, Fate::no_effect},
    {"--trust-remote-code --skip-tokenizer-init --disable-log-stats --disable-log-requests "
     "--enable-log-requests --enable-log-outputs --disable-uvicorn-access-log "
     "--enable-auto-tool-choice --headless --disable-fastapi-docs --enable-prompt-tokens-details "
     "--enable-server-load-tracking --enable-force-include-usage --enable-request-id-headers "
     "--return-tokens-as-token-ids --allow-credentials --enable-ssl-refresh --use-tqdm-on-load "
     "--enable-sleep-mode --enable-prompt-embeds --enable-mfu-metrics "
     "--enable-layerwise-nvtx-tracing --kv-cache-metrics --language-model-only "
     "--exclude-tools-when-tool-choice-none --log-error-stack --tokens-only "
     "--aggregate-engine-logging --disable-nccl-for-dp-synchronization "
     "--disable-frontend-multiprocessing --disable-sliding-window --disable-chunked-mm-input "
     "--disable-access-log-for-endpoints",
     Takes::on_off, Fate::no_effect},
    {"--mm-* --limit-mm-* --media-io-kwargs --allowed-* --enable-mm-* --disable-mm-* --skip-mm-* "
     "--interleave-mm-* --video-pruning-rate --pooler-* --lora-modules --h11-* --ssl-* --otlp-* "
     "--ignore-patterns --safetensors-load-strategy --pt-load-map-location --ray-*",
     Takes::maybe, Fate::no_effect},
};

// ---- variables of the environment ----

struct Variable {
  const char* name;  // a trailing * stands for a family
  Fate fate;
  const char* note = "";
};

const Variable variables[] = {
    {"NCCL_DEBUG*", Fate::no_effect},
    {"NCCL_IB_*", Fate::no_effect},
    {"NCCL_SOCKET_*", Fate::no_effect},
    {"NCCL_NET*", Fate::no_effect},
    {"NCCL_CUMEM_*", Fate::no_effect},
    {"NCCL_ALGO", Fate::lacking, "this choice of algorithms: NCCL's own is taken"},
    {"NCCL_TOPO_FILE", Fate::lacking, "another picture of the box: the machine file has its own"},
    {"NCCL_GRAPH_FILE", Fate::lacking, "given rings and trees: NCCL's own search is taken"},
    {"NCCL_*", Fate::lacking, "this setting of NCCL"},
    {"VLLM_ATTENTION_BACKEND", Fate::by_build},
    {"VLLM_USE_FLASHINFER*", Fate::by_build},
    {"VLLM_FLASHINFER_*", Fate::by_build},
    {"VLLM_USE_DEEP_GEMM*", Fate::by_build},
    {"VLLM_*MOE*", Fate::by_build},
    {"VLLM_LOGGING_*", Fate::no_effect},
    {"VLLM_API_KEY", Fate::no_effect},
    {"VLLM_HOST_IP", Fate::no_effect},
    {"VLLM_PORT", Fate::no_effect},
    {"VLLM_CACHE_ROOT", Fate::no_effect},
    {"VLLM_ALLOW_LONG_MAX_MODEL_LEN", Fate::no_effect},
    {"VLLM_WORKER_MULTIPROC_METHOD", Fate::no_effect},
    {"VLLM_*", Fate::lacking, "this switch of vLLM"},
    {"SGLANG_ENABLE_SPEC_V2", Fate::lacking, speculation},
    {"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN", Fate::no_effect},
    {"SGLANG_USE_MODELSCOPE", Fate::no_effect},
    {"SGLANG_TORCH_PROFILER_DIR", Fate::no_effect},
    {"SGLANG_HOST_IP", Fate::no_effect},
    {"SGLANG_*", Fate::lacking, "this switch of SGLang"},
    {"SGL_*", Fate::lacking, "this switch of SGLang"},
    {"FLASHINFER_*", Fate::by_build},
    {"TRTLLM_*", Fate::by_build},
    {"CUDA_LAUNCH_BLOCKING", Fate::lacking, "launches that wait: they run ahead of the GPU"},
    {"CUDA_DEVICE_MAX_CONNECTIONS", Fate::lacking, "fewer queues of work: streams do not wait"},
};

bool fits(std::string_view pattern, std::string_view name) {
  const auto star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  const auto head = pattern.substr(0, star);
  if (!name.starts_with(head)) return false;
  const auto rest = pattern.substr(star + 1);
  if (rest.empty()) return true;
  for (std::size_t i = head.size(); i <= name.size(); ++i)
    if (fits(rest, name.substr(i))) return true;
  return false;
}

std::vector<std::string> split(std::string_view text, char at = ' ') {
  std::vector<std::string> out;
  while (!text.empty()) {
    const auto end = text.find(at);
    if (end != 0) out.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return out;
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// ---- the model ----

/// The file of models/zoo that a path means, by one of its folders ("nvidia/GLM-5-NVFP4",
/// "models--Qwen--Qwen3-14B/snapshots/..."). Tuned versions of a model have its shapes.
std::string zoo_model(const std::string& path, bool nvfp4, const std::vector<std::string>& zoo) {
  std::vector<std::string> parts = split(path, '/');
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    std::string name = lower(*part);
    std::replace(name.begin(), name.end(), '_', '-');
    if (const auto hub = name.rfind("--"); hub != std::string::npos) name = name.substr(hub + 2);
    if (name.starts_with("meta-")) name = name.substr(5);
    for (bool cut = true; cut;) {
      cut = false;
      for (const char* tail : {"-instruct", "-thinking", "-chat", "-base", "-hf", "-it", "-mtp"})
        if (name.ends_with(tail)) name.resize(name.size() - std::string(tail).size()), cut = true;
      // releases by month: "-2507"
      if (name.size() > 5 && name[name.size() - 5] == '-' &&
          std::all_of(name.end() - 4, name.end(), [](char c) { return c >= '0' && c <= '9'; }))
        name.resize(name.size() - 5), cut = true;
    }
    for (const std::string& id : zoo)
      if (id == name || (nvfp4 && id == name + "-nvfp4")) return id;
  }
  return {};
}

// ---- the reader ----

class Launch {
 public:
  Launch(std::string_view text, const std::string& name, const std::vector<std::string>& zoo)
      : source_(std::make_shared<Source>(Source{name, std::string(text)})), zoo_(zoo) {}

  Expected<LaunchBlock> read() {
    std::vector<std::size_t> at(source_->text.size());
    for (std::size_t i = 0; i < at.size(); ++i) at[i] = i;
    look_for_server(source_->text, at, 0);
    if (!server_ && errors_.empty())
      errors_.error(place(0), "there is no launch of a server here",
                    "known: python -m sglang.launch_server, sglang serve, vllm serve, python -m "
                    "vllm.entrypoints.openai.api_server, docker run ... vllm/vllm-openai");
    if (server_) {
      for (const auto& [variable, word] : environment_) read_variable(variable, word);
      read_flags();
      finish();
    }
    if (!errors_.empty()) return tl::unexpected(errors_);
    return out_;
  }

 private:
  struct Server {
    std::string kind;
    Command words;          // of the whole command
    std::size_t first = 0;  // of its flags
    bool takes_model = false;
  };

  Location place(std::size_t offset) const {
    Location where{source_, 1, 1};
    for (std::size_t i = 0; i < offset && i < source_->text.size(); ++i)
      if (source_->text[i] == '\n')
        ++where.line, where.column = 1;
      else
        ++where.column;
    return where;
  }

  // -- which command starts the server --

  void look_for_server(const std::string& text, const std::vector<std::size_t>& at, int depth) {
    Shell shell(text, at);
    const auto commands = shell.commands(set_);
    if (const auto open = shell.open_quote())
      errors_.error(place(*open), "this quote does not close");
    for (const Command& words : commands) {
      auto found = server_in(words);
      if (found && server_) {
        errors_.error(place(words[found->first - 1].begin), "a second server starts here",
                      "give one launch at a time");
        continue;
      }
      const std::size_t before = found ? found->first : words.size();
      if (!server_)
        for (std::size_t i = 0; i < before; ++i) note_before(words[i]);
      if (found) {
        server_ = std::move(found);
        continue;
      }
      // bash -c '...'
      for (const Word& word : words)
        if (depth < 3 && word.text.find(' ') != std::string::npos && word.unset.empty() &&
            (word.text.find("launch_server") != std::string::npos ||
             word.text.find("serve ") != std::string::npos ||
             word.text.find("api_server") != std::string::npos))
          look_for_server(word.text, word.at, depth + 1);
    }
  }

  static std::optional<Server> server_in(const Command& words) {
    const auto base = [](const std::string& text) {
      const auto slash = text.rfind('/');
      return slash == std::string::npos ? text : text.substr(slash + 1);
    };
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string& word = words[i].text;
      const std::string next = i + 1 < words.size() ? words[i + 1].text : "";
      if (base(word) == "sglang" && next == "serve") return Server{"sglang", words, i + 2, true};
      if (base(word) == "vllm" && next == "serve") return Server{"vllm", words, i + 2, true};
      if (word == "-m" && next == "sglang.launch_server")
        return Server{"sglang", words, i + 2, false};
      if (word == "-m" &&
          (next == "vllm.entrypoints.openai.api_server" || next == "vllm.entrypoints.api_server"))
        return Server{"vllm", words, i + 2, false};
      if (word.ends_with("sglang/launch_server.py")) return Server{"sglang", words, i + 1, false};
    }
    // An image whose entry point is the server.
    for (std::size_t i = 0; i < words.size(); ++i)
      if (words[i].text.find("vllm/vllm-openai") != std::string::npos)
        return Server{"vllm", words, i + 1, true};
    return std::nullopt;
  }

  // -- variables --

  // A word in front of the server: an assignment (also behind docker's -e), or its image.
  void note_before(Word word) {
    find_version(word.text);
    for (const std::string option : {"--env=", "-e="})
      if (word.text.starts_with(option)) word.text = word.text.substr(option.size());
    if (const auto n = assignment(word.text))
      environment_.insert_or_assign(word.text.substr(0, n), std::move(word));
  }

  // "lmsysorg/sglang:v0.5.9-cu129", "vllm/vllm-openai:v0.19.0"
  void find_version(const std::string& word) {
    for (const char* image : {"vllm-openai:", "/sglang:"})
      if (const auto found = word.find(image); found != std::string::npos) {
        std::string tag = word.substr(found + std::string(image).size());
        if (tag.starts_with('v')) tag = tag.substr(1);
        std::size_t n = 0;
        while (n < tag.size() &&
               (std::isdigit(static_cast<unsigned char>(tag[n])) || tag[n] == '.'))
          ++n;
        while (n > 0 && tag[n - 1] == '.') --n;
        if (n > 0 && n < 20 && std::isdigit(static_cast<unsigned char>(tag[0])))
          out_.version = tag.substr(0, n);
      }
  }

  void read_variable(const std::string& name, const Word& word) {
    const std::string value = word.text.substr(name.size() + 1);
    const std::string from = name + "=" + value;
    const auto edit = [&](const char* key, std::string ours) {
      out_.edits.push_back({key, std::move(ours), from});
    };
    const auto wrong = [&](std::string hint) {
      errors_.error(place(word.begin), fmt::format("{} cannot be '{}'", name, value),
                    std::move(hint));
    };
    if (name == "NCCL_PROTO") {
      if (lower(value) == "ll") return edit("nccl_proto", "LL");
      if (lower(value) == "simple") return edit("nccl_proto", "Simple");
      return out_.lacking.push_back({from, "this choice of protocols: NCCL's own is taken"});
    }
    if (name == "NCCL_P2P_LEVEL") {
      const auto levels = p2p_levels();
      if (std::find(levels.begin(), levels.end(), value) == levels.end())
        return wrong(fmt::format("known: {}", fmt::join(levels, ", ")));
      return edit("nccl_p2p_level", value);
    }
    if (name == "NCCL_P2P_DISABLE") {
      if (value != "0" && value != "1") return wrong("0 or 1");
      return edit("nccl_p2p_disable", value == "1" ? "on" : "off");
    }
    if (name == "NCCL_MIN_NCHANNELS") {
      const auto n = parse<int>(value);
      if (!n || *n < 1 || *n > 64) return wrong("a number from 1 to 64");
      return edit("nccl_min_nchannels", value);
    }
    for (const Variable& row : variables)
      if (fits(row.name, name)) {
        remark(row.fate, {row.fate == Fate::no_effect ? name : from, row.note});
        return;
      }
    out_.no_effect.push_back({name, ""});
  }

  void remark(Fate fate, LaunchBlock::Remark remark) {
    auto& list = fate == Fate::no_effect  ? out_.no_effect
                 : fate == Fate::by_build ? out_.by_build
                                          : out_.lacking;
    for (const auto& known : list)
      if (known.from == remark.from) return;
    list.push_back(std::move(remark));
  }

  // -- flags --

  struct Found {
    const Flag* flag = nullptr;
    bool negated = false;
    std::string name;  // as in the table
  };

  template <class Visit>
  void each_flag(Visit visit) const {
    if (server_->kind == "sglang")
      for (const Flag& flag : sglang_flags) visit(flag);
    else
      for (const Flag& flag : vllm_flags) visit(flag);
  }

  std::vector<std::string> all_names() const {
    std::vector<std::string> out;
    each_flag([&](const Flag& flag) {
      for (const auto& name : split(flag.names))
        if (!name.ends_with('*')) out.push_back(name);
    });
    return out;
  }

  Found find_flag(const std::string& name) const {
    Found exact, family, abbreviated;
    std::set<std::string> begins_so;
    each_flag([&](const Flag& flag) {
      for (const auto& known : split(flag.names)) {
        if (known == name) exact = {&flag, false, known};
        if (flag.takes == Takes::on_off && known.starts_with("--") &&
            "--no-" + known.substr(2) == name)
          exact = {&flag, true, known};
        if (known.ends_with('*') && !family.flag && fits(known, name))
          family = {&flag, false, name};
        // argparse takes what begins one flag only
        if (name.size() > 4 && known.starts_with(name) && !known.ends_with('*')) {
          abbreviated = {&flag, false, known};
          begins_so.insert(known);
        }
      }
    });
    if (exact.flag) return exact;
    if (begins_so.size() == 1) return abbreviated;
    return family;
  }

  static bool is_flag(const std::string& word) {
    if (word.size() < 2 || word[0] != '-') return false;
    const char c = word[1];
    return c == '-' ? word.size() > 2 && std::isalpha(static_cast<unsigned char>(word[2]))
                    : std::isalpha(static_cast<unsigned char>(c));
  }

  void read_flags() {
    out_.kind = server_->kind;
    const Command& words = server_->words;
    for (std::size_t i = server_->first; i < words.size();) {
      const Word& word = words[i++];
      if (!is_flag(word.text)) {
        if (word.text.empty() || word.text == "--") continue;
        if (server_->takes_model && out_.model_path.empty()) {
          out_.model_path = word.text;
        } else {
          errors_.error(place(word.begin), fmt::format("no flag takes '{}'", word.text),
                        "quote values with spaces");
        }
        continue;
      }
      std::string name = word.text;
      std::vector<Word> values;
      bool joined = false;
      if (const auto equals = name.find('='); equals != std::string::npos) {
        joined = true;
        Word value = word;
        value.text = name.substr(equals + 1);
        value.begin = word.at[equals];
        name.resize(equals);
        values.push_back(std::move(value));
      }
      std::replace(name.begin() + 1, name.end(), '_', '-');
      std::string sub;  // vLLM: --compilation-config.cudagraph_mode
      if (const auto dot = name.find('.'); dot != std::string::npos && server_->kind == "vllm") {
        sub = word.text.substr(dot + 1, name.size() - dot - 1);
        name.resize(dot);
      }
      // vLLM: -O3
      if (server_->kind == "vllm" && name.size() == 3 && name.starts_with("-O") && !joined) {
        Word value = word;
        value.text = name.substr(2);
        values.push_back(std::move(value));
        name = "-O";
        joined = true;
      }
      const Found found = find_flag(name);
      const auto collect = [&](bool all) {
        while (i < words.size() && !is_flag(words[i].text)) {
          values.push_back(words[i++]);
          if (!all) break;
        }
      };
      if (!found.flag) {
        errors_.error(
            place(word.begin),
            fmt::format("{} has no flag '{}'", server_->kind == "sglang" ? "SGLang" : "vLLM", name),
            suggest(name));
        if (!joined) collect(true);
        continue;
      }
      const Takes takes = found.flag->takes;
      const bool plain = takes == Takes::nothing || takes == Takes::on_off;
      if (plain && joined) {
        errors_.error(place(word.begin), fmt::format("{} takes no value", found.name),
                      fmt::format("write {}", found.name));
        continue;
      }
      if (!plain && !joined) collect(takes == Takes::some || takes == Takes::maybe);
      if (!plain && takes != Takes::maybe && values.empty()) {
        errors_.error(place(word.begin), fmt::format("{} needs a value", found.name));
        continue;
      }
      if (!sub.empty() && !values.empty()) {
        const std::string text = values[0].text;
        // a word is a string, everything else is JSON already
        const bool json = nlohmann::json::accept(text);
        values[0].text =
            fmt::format("{{\"{}\": {}}}", sub,
                        json ? text
                             : nlohmann::json(text).dump(-1, ' ', false,
                                                         nlohmann::json::error_handler_t::replace));
      }
      use(found, word, values);
    }
  }

  std::string suggest(const std::string& name) const {
    const auto names = all_names();
    const auto near = nearest(name, names);
    if (!near.empty()) return fmt::format("did you mean '{}'?", near);
    return "leave it out if it does not move timing";
  }

  void use(const Found& found, const Word& word, const std::vector<Word>& values) {
    const Flag& flag = *found.flag;
    const std::string value = values.empty() ? "" : values[0].text;
    std::string from = found.negated ? "--no-" + found.name.substr(2) : found.name;
    std::string full = from;
    for (const Word& v : values) full += " " + v.text;
    const Location where = values.empty() ? place(word.begin) : place(values[0].begin);
    switch (flag.fate) {
      case Fate::model:
        out_.model_path = value;
        return;
      case Fate::quantized:
        quantization_ = value;
        return;
      case Fate::config:
        out_.lacking.push_back({full, "the flags in that file, which was not read"});
        return;
      case Fate::no_effect:
        return remark(flag.fate, {from, ""});
      case Fate::by_build:
        return remark(flag.fate, {full, ""});
      case Fate::graphs:
        return use_compilation(full, value, where);
      case Fate::lacking:
        return use_lacking(found, full, values, where);
      case Fate::engine:
        break;
    }
    std::string key = flag.note, ours;
    if (flag.takes == Takes::nothing) {
      const auto colon = key.find(": ");
      ours = key.substr(colon + 2);
      key.resize(colon);
    } else if (flag.takes == Takes::on_off) {
      ours = found.negated ? "off" : "on";
    } else {
      bool known = false;
      for (const auto& pair : split(flag.words)) {
        const auto equals = pair.find('=');
        if (pair.substr(0, equals) != value) continue;
        known = true;
        ours = pair.substr(equals + 1);
      }
      if (known && ours.empty()) return remark(Fate::no_effect, {full, "the default"});
      if (known && ours == "?")
        return remark(Fate::lacking, {full, "this value: the default is taken"});
      if (!known && flag.takes == Takes::word) return bad_word(found, flag.words, values[0], where);
      if (!known) {
        const auto number = read_number(found, values[0], where);
        if (!number) return;
        ours = *number;
      }
    }
    // argparse keeps what comes last
    std::erase_if(out_.engine, [&](const LaunchBlock::Value& v) { return v.key == key; });
    out_.engine.push_back({key, ours, full});
  }

  void bad_word(const Found& found, const char* words, const Word& value, const Location& where) {
    if (unset(found, value, where)) return;
    std::vector<std::string> known;
    for (const auto& pair : split(words)) known.push_back(pair.substr(0, pair.find('=')));
    errors_.error(where, fmt::format("{} cannot be '{}'", found.name, value.text),
                  suggestion(value.text, known));
  }

  bool unset(const Found& found, const Word& value, const Location& where) {
    if (value.unset.empty()) return false;
    errors_.error(
        where,
        fmt::format("{} needs a value, and this text does not set {}", found.name, value.unset),
        "write the value itself");
    return true;
  }

  /// The number as settings write it.
  std::optional<std::string> read_number(const Found& found, const Word& value,
                                         const Location& where) {
    const Flag& flag = *found.flag;
    if (unset(found, value, where)) return std::nullopt;
    double number = 0;
    std::string written;
    if (flag.takes == Takes::real) {
      const auto parsed = parse<double>(value.text);
      if (!parsed) {
        errors_.error(where, fmt::format("{} needs a number, not '{}'", found.name, value.text));
        return std::nullopt;
      }
      number = *parsed;
      written = value.text;
    } else {
      std::string digits = value.text;
      std::int64_t times = 1;
      // vLLM: 32k is 32,000 and 32K is 32,768
      if (server_->kind == "vllm" && digits.size() > 1)
        for (const auto& [letter, factor] : {std::pair{'k', std::int64_t{1000}},
                                             {'K', std::int64_t{1024}},
                                             {'m', std::int64_t{1000000}},
                                             {'M', std::int64_t{1} << 20}})
          if (digits.back() == letter && times == 1) times = factor, digits.pop_back();
      const auto parsed = parse<std::int64_t>(digits);
      if (!parsed || std::abs(static_cast<double>(*parsed)) * static_cast<double>(times) > 1e15) {
        errors_.error(where,
                      fmt::format("{} needs a whole number, not '{}'", found.name, value.text));
        return std::nullopt;
      }
      number = static_cast<double>(*parsed * times);
      written = std::to_string(*parsed * times);
    }
    if (!(number >= flag.least && number <= flag.most)) {
      errors_.error(where, fmt::format("{} must lie between {} and {}, not {}", found.name,
                                       flag.least, flag.most, value.text));
      return std::nullopt;
    }
    return written;
  }

  void use_lacking(const Found& found, const std::string& full, const std::vector<Word>& values,
                   const Location& where) {
    const Flag& flag = *found.flag;
    if (found.negated) return remark(Fate::no_effect, {full, "the default"});
    std::string value = values.empty() ? "" : values[0].text;
    if (flag.takes == Takes::integer || flag.takes == Takes::real) {
      const auto number = read_number(found, values[0], where);
      if (!number) return;
    }
    const auto words = split(flag.words);
    if (flag.takes == Takes::word) {
      if (std::find(words.begin(), words.end(), value) == words.end())
        return bad_word(found, flag.words, values[0], where);
      // the first is the default; the types of 16 bits cost the same
      const bool default_value =
          value == words[0] || value == "bfloat16" || value == "half" || value == "float16";
      return default_value ? remark(Fate::no_effect, {full, ""})
                           : remark(Fate::lacking, {full, flag.note});
    }
    if (!values.empty() && std::find(words.begin(), words.end(), value) != words.end())
      return remark(Fate::no_effect, {full, "the default"});
    remark(Fate::lacking, {full, flag.note});
  }

  // vLLM: --compilation-config '{"cudagraph_mode": "FULL_DECODE_ONLY"}'
  void use_compilation(const std::string& full, const std::string& value, const Location& where) {
    const auto json = nlohmann::json::parse(value, nullptr, false);
    if (json.is_number_integer()) return remark(Fate::lacking, {full, "this compilation level"});
    if (!json.is_object())
      return errors_.error(where, "the compilation config is no JSON object",
                           "quote it: --compilation-config '{\"cudagraph_mode\": \"FULL\"}'");
    for (const auto& [key, v] : json.items()) {
      const std::string from = "compilation config " + key;
      if (key == "cudagraph_mode" && v.is_string()) {
        const std::string mode = lower(v.get<std::string>());
        const std::vector<std::string> modes = {"none", "piecewise", "full", "full_decode_only",
                                                "full_and_piecewise"};
        if (std::find(modes.begin(), modes.end(), mode) == modes.end()) {
          errors_.error(where, fmt::format("cudagraph_mode cannot be '{}'", mode),
                        suggestion(mode, modes));
          continue;
        }
        std::erase_if(out_.engine,
                      [](const LaunchBlock::Value& e) { return e.key == "cudagraph_mode"; });
        out_.engine.push_back({"cudagraph_mode", mode, from});
      } else if (key == "max_cudagraph_capture_size" && v.is_number_integer() &&
                 v.get<std::int64_t>() >= 1 && v.get<std::int64_t>() <= 65536) {
        std::erase_if(out_.engine, [](const LaunchBlock::Value& e) {
          return e.key == "max_cudagraph_capture_size";
        });
        out_.engine.push_back(
            {"max_cudagraph_capture_size", std::to_string(v.get<std::int64_t>()), from});
      } else if (key == "mode" || key == "level" || key == "cache_dir" ||
                 key.starts_with("inductor") || key == "debug_dump_path") {
        remark(Fate::no_effect, {from, ""});
      } else {
        remark(Fate::lacking, {from, other_fusion});
      }
    }
  }

  void finish() {
    const std::string method = lower(quantization_);
    const bool nvfp4 = method == "modelopt_fp4" || method == "modelopt" || method == "petit_nvfp4";
    out_.model = zoo_model(out_.model_path, nvfp4, zoo_);
    if (!quantization_.empty()) {
      const std::string from = "--quantization " + quantization_;
      if (nvfp4 && out_.model.find("nvfp4") != std::string::npos)
        out_.no_effect.push_back({from, "the model file has these weights"});
      else
        out_.lacking.push_back({from, "this quantisation: weights are those of the model file"});
    }
    if (out_.model_path.empty() && errors_.empty()) {
      const bool in_file = std::any_of(out_.lacking.begin(), out_.lacking.end(), [](const auto& r) {
        return r.from.starts_with("--config");
      });
      if (!in_file)
        errors_.error(place(server_->words[server_->first - 1].begin), "the command names no model",
                      server_->takes_model ? "write it behind 'serve'" : "add --model PATH");
    }
    // Read only where piecewise graphs are on.
    const auto find = [&](const char* key) {
      return std::find_if(out_.engine.begin(), out_.engine.end(),
                          [&](const auto& v) { return v.key == key; });
    };
    const auto piecewise = find("enable_piecewise_cuda_graph");
    const bool on = piecewise != out_.engine.end() && piecewise->value == "on";
    if (const auto limit = find("piecewise_cuda_graph_max_tokens");
        limit != out_.engine.end() && !on) {
      out_.no_effect.push_back({limit->from, "without --enable-piecewise-cuda-graph"});
      out_.engine.erase(limit);
    }
    // tensor_parallel first, the rest in the order of the command
    std::stable_partition(out_.engine.begin(), out_.engine.end(),
                          [](const auto& v) { return v.key == "tensor_parallel"; });
  }

  std::shared_ptr<const Source> source_;
  const std::vector<std::string>& zoo_;
  std::map<std::string, std::string> set_;
  std::map<std::string, Word> environment_;
  std::optional<Server> server_;
  std::string quantization_;
  LaunchBlock out_;
  Diagnostics errors_;
};

/// Text on one line of plain characters, for comments.
std::string one_line(const std::string& text) {
  std::string out;
  for (const char c : text) out += c < ' ' || c > '~' ? '?' : c;
  return out;
}

}  // namespace

Expected<LaunchBlock> read_launch_command(std::string_view text, const std::string& name,
                                          const std::vector<std::string>& zoo) {
  return Launch(text, name, zoo).read();
}

std::string launch_yaml(const LaunchBlock& b) {
  std::string out;
  if (!b.model.empty())
    out += fmt::format("model: {}  # {}\n", b.model, one_line(b.model_path));
  else if (!b.model_path.empty())
    out += fmt::format("# model: a file for '{}' (models/zoo has none)\n", one_line(b.model_path));
  out += fmt::format("engine:\n  kind: {}\n", b.kind);
  if (!b.version.empty()) out += fmt::format("  version: {}  # of the image\n", b.version);
  for (const auto& v : b.engine)
    out += fmt::format("  {}: {}  # {}\n", v.key, v.value, one_line(v.from));
  if (!b.edits.empty()) out += "machine_edits:\n";
  for (const auto& v : b.edits)
    out += fmt::format("  {}: {}  # {}\n", v.key, v.value, one_line(v.from));
  const auto list = [&](const char* title, const std::vector<LaunchBlock::Remark>& remarks) {
    if (remarks.empty()) return;
    out += fmt::format("# {}\n", title);
    for (const auto& r : remarks)
      out += r.why.empty() ? fmt::format("#   {}\n", one_line(r.from))
                           : fmt::format("#   {}: {}\n", one_line(r.from), r.why);
  };
  list("not modelled", b.lacking);
  list("which kernels run is what engine.build says: compare these with it", b.by_build);
  list("does not move timing", b.no_effect);
  return out;
}

std::string launch_json(const LaunchBlock& b) {
  using nlohmann::ordered_json;
  const auto values = [](const std::vector<LaunchBlock::Value>& list) {
    ordered_json out = ordered_json::array();
    for (const auto& v : list)
      out.push_back({{"key", v.key}, {"value", v.value}, {"from", v.from}});
    return out;
  };
  const auto remarks = [](const std::vector<LaunchBlock::Remark>& list) {
    ordered_json out = ordered_json::array();
    for (const auto& r : list) out.push_back({{"from", r.from}, {"why", r.why}});
    return out;
  };
  const ordered_json out = {{"kind", b.kind},
                            {"version", b.version},
                            {"model", b.model},
                            {"model_path", b.model_path},
                            {"engine", values(b.engine)},
                            {"machine_edits", values(b.edits)},
                            {"not_modelled", remarks(b.lacking)},
                            {"decided_by_build", remarks(b.by_build)},
                            {"no_effect", remarks(b.no_effect)}};
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}
