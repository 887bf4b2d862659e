// Launch commands as settings: what each flag becomes, and that no text breaks the reader.

#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include "sim/scenario/experiment.hpp"
#include "sim/scenario/launch_command.hpp"
#include "sim/scenario/yaml.hpp"

namespace {

const std::vector<std::string> zoo = {"glm-5-nvfp4", "llama-3.1-8b", "qwen3-14b", "qwen3-30b-a3b"};

LaunchBlock read(const std::string& text) {
  auto block = read_launch_command(text, "command", zoo);
  if (!block) FAIL(text << "\n" << block.error().render());
  return *block;
}

std::string refused(const std::string& text) {
  const auto block = read_launch_command(text, "command", zoo);
  INFO(text);
  REQUIRE_FALSE(block);
  return block.error().render();
}

std::string value(const std::vector<LaunchBlock::Value>& values, const std::string& key) {
  for (const auto& v : values)
    if (v.key == key) return v.value;
  return "";
}

bool holds(const std::vector<LaunchBlock::Remark>& remarks, const std::string& from) {
  for (const auto& r : remarks)
    if (r.from == from) return true;
  return false;
}

void check_holds(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
}

// The scenario of a block on a box of eight cards.
Scenario scenario_of(const LaunchBlock& block) {
  Scenario out;
  out.file = "test.yaml";
  std::string text = "schema: 1\nmachine: 8x-rtx-pro-6000-kvm\n" + launch_yaml(block);
  if (block.model.empty()) text += "model: glm-5-nvfp4\n";
  text += "workload: {kind: llm_decode_bench, concurrency: 1, context: 1024}\n";
  auto tree = parse_yaml("test.yaml", text);
  if (!tree) FAIL(text << tree.error().render());
  out.tree = *tree;
  return out;
}

const std::string home =
    "python -m sglang.launch_server --model-path nvidia/GLM-5-NVFP4 --tp 8 --quantization "
    "modelopt_fp4 --nsa-decode-backend trtllm --nsa-prefill-backend trtllm --disable-cuda-graph";

}  // namespace

TEST_CASE("the command of the home server is its engine block") {
  CHECK(launch_yaml(read(home)) ==
        "model: glm-5-nvfp4  # nvidia/GLM-5-NVFP4\n"
        "engine:\n"
        "  kind: sglang\n"
        "  tensor_parallel: 8  # --tp 8\n"
        "  cuda_graph: off  # --disable-cuda-graph\n"
        "# which kernels run is what engine.build says: compare these with it\n"
        "#   --nsa-decode-backend trtllm\n"
        "#   --nsa-prefill-backend trtllm\n"
        "# does not move timing\n"
        "#   --quantization modelopt_fp4: the model file has these weights\n");
}

TEST_CASE("a server is found whatever stands before it") {
  for (const std::string& text : std::vector<std::string>{
           home, "sudo numactl --cpunodebind=0 " + home, "nohup " + home + " > log.txt 2>&1 &",
           "cd /srv\nexport PATH=/x:$PATH; " + home + " | tee log",
           "docker run --gpus all -p 30000:30000 --ipc=host lmsysorg/sglang:v0.5.9-cu129 " + home,
           "docker run --rm image bash -c '" + home + "'",
           "# the server\npython3 -m sglang.launch_server \\\n  --model-path=nvidia/GLM-5-NVFP4 "
           "\\\r\n  --tp=8 --disable-cuda-graph  # eager",
           std::string("sglang serve --model nvidia/GLM-5-NVFP4 --tensor-parallel-size 8 "
                       "--disable_cuda_graph"),
           std::string("M=nvidia/GLM-5-NVFP4 TP=8; python -m sglang.launch_server --model $M --tp "
                       "\"${TP}\" --disable-cuda-graph --port ${PORT:-30000}")}) {
    INFO(text);
    const LaunchBlock b = read(text);
    CHECK(b.kind == "sglang");
    CHECK(b.model == "glm-5-nvfp4");
    CHECK(value(b.engine, "tensor_parallel") == "8");
    CHECK(value(b.engine, "cuda_graph") == "off");
    CHECK(b.engine.size() == 2);
    CHECK(b.version == (text.find("v0.5.9") != std::string::npos ? "0.5.9" : ""));
  }
}

TEST_CASE("vLLM's forms: serve, the module, the image; lengths in thousands, switches, JSON") {
  const LaunchBlock serve = read(
      "vllm serve meta-llama/Llama-3.1-8B-Instruct -tp 2 --max-model-len 32k --max_num_seqs=128 "
      "--no-enable-prefix-caching --async-scheduling --kv-cache-dtype fp8 "
      "--compilation-config '{\"cudagraph_mode\": \"FULL_DECODE_ONLY\"}'");
  CHECK(serve.kind == "vllm");
  CHECK(serve.model == "llama-3.1-8b");
  CHECK(value(serve.engine, "tensor_parallel") == "2");
  CHECK(value(serve.engine, "max_model_len") == "32000");
  CHECK(value(serve.engine, "max_num_seqs") == "128");
  CHECK(value(serve.engine, "enable_prefix_caching") == "off");
  CHECK(value(serve.engine, "async_scheduling") == "on");
  CHECK(value(serve.engine, "kv_cache_dtype") == "fp8");
  CHECK(value(serve.engine, "cudagraph_mode") == "full_decode_only");
  const LaunchBlock dotted = read(
      "python -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-14B --max-model-len 4K "
      "--compilation-config.cudagraph_mode PIECEWISE -O3 --max-model-len 8K");
  CHECK(value(dotted.engine, "cudagraph_mode") == "piecewise");
  CHECK(value(dotted.engine, "max_model_len") == "8192");  // the last one counts
  CHECK(dotted.lacking.empty());
  const LaunchBlock image = read(
      "docker run -e NCCL_PROTO=LL -e HF_TOKEN=hidden vllm/vllm-openai:v0.19.0 --model "
      "Qwen/Qwen3-30B-A3B-Instruct-2507 --enforce-eager");
  CHECK(image.version == "0.19.0");
  CHECK(image.model == "qwen3-30b-a3b");
  CHECK(value(image.engine, "enforce_eager") == "on");
  CHECK(value(image.edits, "nccl_proto") == "LL");
  CHECK(launch_yaml(image).find("hidden") == std::string::npos);
}

TEST_CASE("what moves timing and is not modelled is told, the default of it is not") {
  const LaunchBlock b =
      read(home +
           " --speculative-algorithm EAGLE --dp-size 1 --pp-size 2 --ep-size 8 --max-total-tokens "
           "100000 --host 0.0.0.0 --api-key secret --schedule-policy dfs-weight --kv-cache-dtype "
           "auto --decode-log-interval 10");
  CHECK(holds(b.lacking, "--speculative-algorithm EAGLE"));
  CHECK(holds(b.lacking, "--pp-size 2"));
  CHECK(holds(b.lacking, "--ep-size 8"));
  CHECK(holds(b.lacking, "--max-total-tokens 100000"));
  CHECK(holds(b.lacking, "--schedule-policy dfs-weight"));
  CHECK(b.lacking.size() == 5);
  CHECK(holds(b.no_effect, "--dp-size 1"));
  CHECK(holds(b.no_effect, "--host"));
  CHECK(value(b.engine, "kv_cache_dtype").empty());
  CHECK(value(b.engine, "decode_log_interval") == "10");
  CHECK(launch_yaml(b).find("secret") == std::string::npos);
  CHECK(launch_json(b).find("secret") == std::string::npos);
}

TEST_CASE("NCCL's variables become edits of the machine") {
  const LaunchBlock b = read(
      "NCCL_P2P_LEVEL=SYS NCCL_P2P_DISABLE=0 NCCL_MIN_NCHANNELS=8 "
      "NCCL_DEBUG=INFO NCCL_ALGO=Ring OMP_NUM_THREADS=8 " +
      home);
  CHECK(value(b.edits, "nccl_p2p_level") == "SYS");
  CHECK(value(b.edits, "nccl_p2p_disable") == "off");
  CHECK(value(b.edits, "nccl_min_nchannels") == "8");
  CHECK(holds(b.lacking, "NCCL_ALGO=Ring"));
  CHECK(holds(b.no_effect, "NCCL_DEBUG"));
  CHECK(holds(b.no_effect, "OMP_NUM_THREADS"));
  check_holds(refused("NCCL_P2P_LEVEL=FAR " + home),
              "command:1:1: error: NCCL_P2P_LEVEL cannot be");
}

TEST_CASE("every error of a command comes at once, with its place") {
  const std::string errors = refused(
      "vllm serve Qwen/Qwen3-14B \\\n  --max-modl-len 32k --block-size x -tp 0 \\\n  "
      "--max-num-seqs");
  check_holds(errors, "command:2:3: error: vLLM has no flag '--max-modl-len'");
  check_holds(errors, "did you mean '--max-model-len'?");
  check_holds(errors, "command:2:35: error: --block-size needs a whole number, not 'x'");
  check_holds(errors, "command:2:41: error: -tp must lie between 1 and 1024");
  check_holds(errors, "command:3:3: error: --max-num-seqs needs a value");
  check_holds(refused("ls -l"), "there is no launch of a server here");
  check_holds(refused(""), "there is no launch of a server here");
  check_holds(refused(home + "\n" + home), "a second server starts here");
  check_holds(refused("vllm serve 'Qwen"), "this quote does not close");
  check_holds(refused("vllm serve --max-num-seqs 8"), "the command names no model");
  check_holds(refused("sglang serve --model x --tp $TP"), "this text does not set TP");
  check_holds(refused("sglang serve --model x --disable-radix-cache=1"), "takes no value");
  check_holds(refused("sglang serve --model x --kv-cache-dtype fp7"), "did you mean");
}

TEST_CASE("a printed block is accepted as part of a scenario") {
  for (const std::string& text : std::vector<std::string>{
           home,
           home + " --mem-fraction-static 0.85 --chunked-prefill-size 4096 --max-prefill-tokens "
                  "8192 --schedule-policy lpm --schedule-conservativeness 0.3 --context-length "
                  "32768 --page-size 64 --disable-overlap-schedule --enable-mixed-chunk "
                  "--disable-radix-cache --max-running-requests 64 --cuda-graph-max-bs 64 "
                  "--disable-cuda-graph-padding --radix-eviction-policy lfu "
                  "--decode-log-interval 20 --prefill-max-requests 4 --kv-cache-dtype bf16",
           home + " --enable-piecewise-cuda-graph --piecewise-cuda-graph-max-tokens 1024",
           home + " --disable-piecewise-cuda-graph --piecewise-cuda-graph-max-tokens 1024",
           "NCCL_P2P_LEVEL=SYS NCCL_P2P_DISABLE=1 NCCL_PROTO=Simple NCCL_MIN_NCHANNELS=4 " + home,
           std::string("docker run vllm/vllm-openai:v0.24.0 --model lukealonso/GLM-5-NVFP4 -tp 8 "
                       "--kv-cache-dtype fp8 --gpu-memory-utilization 0.9 --max-num-seqs 64 "
                       "--max-num-batched-tokens 4096 --max-model-len 32768 --block-size 64 "
                       "--enable-chunked-prefill --enable-prefix-caching --no-async-scheduling "
                       "--enforce-eager --long-prefill-token-threshold 1024 "
                       "--max-cudagraph-capture-size 64 -cc.cudagraph_mode PIECEWISE "
                       "--scheduler-reserve-full-isl")}) {
    INFO(text);
    const auto inputs = resolve(scenario_of(read(text)));
    if (!inputs) FAIL(inputs.error().render());
    const auto made = Experiment::make(*inputs);
    if (!made) FAIL(made.error().render());
  }
}

TEST_CASE("law: any text ends as a block or as errors with places, and blocks are YAML") {
  const std::vector<std::string> seeds = {
      home,
      "docker run -e NCCL_PROTO=LL --env=A=b vllm/vllm-openai:v0.19.0 --model Qwen/Qwen3-14B -tp 2 "
      "--max-model-len 32k --compilation-config '{\"cudagraph_mode\": \"FULL\"}' -O3",
      "M=x; bash -lc \"python -m sglang.launch_server --model $M --tp ${TP:-4} --cuda-graph-bs 1 2 "
      "4 --hicache-ratio 2\" 2>&1 | tee log &",
      "vllm serve a/b --compilation-config.mode 3 --kv-cache-dtype=fp8 --speculative-config '{}'"};
  const std::string signs = "'\"\\$={}-. \n\t;|&<>#0aZ\x80\x01_:,";
  CHECK(rc::check([&] {
    std::string text = *rc::gen::elementOf(seeds);
    const int edits = *rc::gen::inRange(0, 12);
    for (int i = 0; i < edits && !text.empty(); ++i) {
      const auto size = static_cast<int>(text.size());
      const auto at = static_cast<std::size_t>(*rc::gen::inRange(0, size));
      const auto n = static_cast<std::size_t>(*rc::gen::inRange(1, 20));
      switch (*rc::gen::inRange(0, 5)) {
        case 0:
          text.erase(at, n);
          break;
        case 1:
          text.insert(at, 1, *rc::gen::elementOf(signs));
          break;
        case 2:
          text.insert(at, text.substr(static_cast<std::size_t>(*rc::gen::inRange(0, size)), n));
          break;
        case 3:
          text[at] = *rc::gen::elementOf(signs);
          break;
        default:
          text.resize(at);
      }
    }
    const auto block = read_launch_command(text, "command", zoo);
    if (!block) {
      RC_ASSERT(!block.error().empty());
      for (const auto& d : block.error().list()) {
        RC_ASSERT(d.where.line >= 1);
        RC_ASSERT(!d.message.empty());
      }
      RC_ASSERT(!block.error().render().empty());
      return;
    }
    const auto tree = parse_yaml("block", launch_yaml(*block));
    RC_ASSERT(tree.has_value());
    RC_ASSERT(tree->at("engine.kind")->text() == block->kind);
    RC_ASSERT(!launch_json(*block).empty());
  }));
}
