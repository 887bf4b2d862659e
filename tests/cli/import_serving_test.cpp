// `ceiling import launch` and `import steps`: what they print, what they write, how they end.

#include <catch2/catch.hpp>

#include "tests/support/process.hpp"

namespace {

using process::run;

void check_says(const std::string& text, const std::vector<std::string>& parts) {
  for (const auto& part : parts) {
    INFO("expected: " << part << "\nin: " << text);
    CHECK(text.find(part) != std::string::npos);
  }
}

// Steps of 10 ms, two sequences: a row a request, depth 2.
const std::string requests =
    "request_id,prompt_tokens,output_tokens,queued_ms,scheduled_ms,first_token_ms,last_token_ms\n"
    "A,100,4,0,0,20,50\n"
    "B,200,3,12,20.2,40.1,60\n"
    "failed,10,0,13,,,\n";

}  // namespace

TEST_CASE("import launch prints a block that run accepts, and warns of what is not modelled") {
  const process::TemporaryFolder folder;
  const std::string command =
      "python -m sglang.launch_server --model nvidia/GLM-5-NVFP4 --tp 8 --quantization "
      "modelopt_fp4 --nsa-decode-backend trtllm --disable-cuda-graph --api-key hidden "
      "--speculative-algorithm EAGLE";
  const auto o = run({"import", "launch", command});
  CHECK(o.code == 0);
  check_says(o.out, {"model: glm-5-nvfp4", "  tensor_parallel: 8  # --tp 8\n", "cuda_graph: off",
                     "#   --nsa-decode-backend trtllm"});
  check_says(o.err, {"warning: --speculative-algorithm EAGLE is not modelled (speculative",
                     "note: 1 of its flags choose kernels", "next: "});
  CHECK((o.out + o.err).find("hidden") == std::string::npos);
  const auto block = (folder.path() / "block.yaml").string();
  const auto w =
      run({"import", "launch", "--file", folder.write("start.sh", command), "-o", block});
  CHECK(w.code == 0);
  check_says(w.out, {"2 settings of sglang"});
  CHECK(process::read_text(block) == o.out);
  const auto scenario = folder.write(
      "mine.yaml", "schema: 1\nmachine: 8x-rtx-pro-6000-kvm\n" + o.out +
                       "workload: {kind: bench_serving, dataset: random, input_tokens: 64, "
                       "output_tokens: 32, requests: 4, request_rate: 4 /s}\n");
  const auto r = run({"run", scenario});
  INFO(r.err);
  CHECK(r.code == 0);
  check_says(run({"import", "launch", command, "--format", "json"}).out,
             {"\"key\": \"tensor_parallel\"", "\"not_modelled\": ["});
}

TEST_CASE("import steps prints steps and batches, and writes them as CSV") {
  const process::TemporaryFolder folder;
  const auto file = folder.write("log.csv", requests);
  const auto out = (folder.path() / "steps.csv").string();
  const auto o = run({"import", "steps", file, "--depth", "2", "-o", out});
  INFO(o.err);
  CHECK(o.code == 0);
  check_says(o.out, {"2 requests, request times", "boundaries  5 of 5 joined: 6 steps",
                     "conflicts   0", "scheduled to first token takes 2 steps"});
  check_says(o.err, {"left out: 1 without a first and a last token"});
  const auto rows = process::lines(process::read_text(out));
  REQUIRE(rows.size() == 7);
  CHECK(rows[0] == "step,t_s,dt_s,n_decode,prefill_tokens,sum_context,after_idle,complete,stretch");
  // from 40.1 to 50 ms, A on 103 tokens of KV and B on 201
  CHECK(rows[5] == "5,0.050000,0.009900,2,0,304,0,1,1");
  check_says(run({"import", "steps", file, "--depth", "2", "--format", "json"}).out,
             {"\"joined\": 5", "\"conflicts_at_depth\""});
}

TEST_CASE("import steps puts the prediction of a scenario beside the measured time") {
  const process::TemporaryFolder folder;
  const auto file = folder.write("log.csv", requests);
  const auto scenario =
      folder.write("s.yaml",
                   "schema: 1\nmachine: 1x-rtx-pro-6000\nmodel: llama-3.1-8b\nengine: {kind: vllm, "
                   "build: vllm-0.19-sm120}\nworkload: {kind: llm_decode_bench, concurrency: 1, "
                   "context: 1024}\n");
  const auto o = run({"import", "steps", file, "--depth", "2", "--against", scenario});
  INFO(o.err);
  CHECK(o.code == 0);
  check_says(o.out, {"predicted ms", "error", " %"});
  CHECK(run({"import", "steps", file, "--against", "nowhere.yaml"}).code == 2);
}

TEST_CASE("the forms of logs: chunks as rows, lists of chunks, arrays of a bench") {
  const process::TemporaryFolder folder;
  for (const auto& [name, text] : std::vector<std::pair<std::string, std::string>>{
           {"rows.csv",
            "rid,input_len,t_us\na,100,10000\na,100,22100\nb,50,22000\na,100,35000\n"
            "b,50,35100\n"},
           {"lists.jsonl",
            "{\"id\": \"a\", \"prompt_len\": 100, \"chunk_times_ms\": [10, 22.1, 35]}\n"
            "{\"id\": \"b\", \"prompt_len\": 50, \"chunk_times_ms\": [22, 35.1]}\n"},
           {"bench.json",
            "{\"ttfts\": [0.01, 0.012, 0], \"itls\": [[0.0121, 0.0129], [0.0131], []], "
            "\"start_times\": [0, 0.010, 0], \"input_lens\": [100, 50, 7]}"}}) {
    INFO(name);
    const auto o = run({"import", "steps", folder.write(name, text), "--format", "json"});
    INFO(o.err);
    CHECK(o.code == 0);
    check_says(o.out, {"\"joined\": 3", "\"steps\": 2", "\"conflicts\": 0"});
  }
}

TEST_CASE("a launch or a log that is wrong ends with 2 and leaves no file and nothing on stdout") {
  const process::TemporaryFolder folder;
  const auto out = (folder.path() / "out").string();
  int logs = 0;
  const auto log = [&](const std::string& text) {
    return folder.write("log" + std::to_string(logs++), text);
  };
  const std::string head = requests.substr(0, requests.find('\n') + 1);
  for (const auto& [arguments, message] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"launch", "sglang serve --model x --tpp 8"},
            "command:1:24: error: SGLang has no flag"},
           {{"launch", "ls"}, "there is no launch of a server"},
           {{"launch"}, "there is no command"},
           {{"launch", "--file", "/nowhere"}, "cannot be read"},
           {{"steps", "/nowhere.csv"}, "error"},
           {{"steps", log("a,b\n1,2\n")}, "no column gives first, last, output"},
           {{"steps", log(head + "A,1,2,0,0,5,x\n")}, ":2:1: error: last is no time: 'x'"}}) {
    auto all = arguments;
    all.insert(all.begin(), "import");
    all.insert(all.end(), {"-o", out});
    const auto o = run(all);
    INFO(message << "\n" << o.err);
    CHECK(o.code == 2);
    CHECK(o.out.empty());
    CHECK_FALSE(std::filesystem::exists(out));
    check_says(o.err, {message, "nothing was imported"});
  }
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {head + "A,1,2,0,9,5,20\n", "the first token comes before it was scheduled"},
           {head + "A,1,2,0,0,50,20\n", "the last token comes before the first"},
           {head + "A,1,2.5,0,0,5,20\n", "output is no number of tokens: '2.5'"},
           {head + "A,1,2\n", "this line has 3 cells, the first line 7"},
           {"run," + head + "x,A,1,2,0,0,5,20\ny,A,1,2,0,0,5,20\n", "choose one with --run: x, y"},
           {"{\"ttfts\": [1], \"itls\": [[1]]}", "there are no start_times"},
           {"{\"a\": 1}\n{", "this line is no JSON object"}}) {
    const auto o = run({"import", "steps", folder.write("in", text)});
    INFO(text << "\n" << o.err);
    CHECK(o.code == 2);
    CHECK(o.out.empty());
    check_says(o.err, {message});
  }
}
