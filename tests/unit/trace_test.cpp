#include <zlib.h>

#include <catch2/catch.hpp>

#include "sim/workload/trace_file.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/plans.hpp"
#include "tests/support/process.hpp"

namespace {

struct Trace {
  process::TemporaryFolder folder;
  std::string file;
  explicit Trace(const std::string& text, const std::string& name = "trace")
      : file(folder.write(name, text)) {}
  std::string options(const std::string& format, const std::string& more = "") const {
    return "format: " + format + "\nfile: " + file + "\n" + more;
  }
};

const std::string azure =
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2023-11-16 23:59:58.5000000,4808,10\n"
    "2023-11-17 00:00:00.2500000,3180,8\n"
    "2023-11-17 00:00:03.5000000,110,27\n";

}  // namespace

TEST_CASE("an Azure trace is replayed at its own times, over midnight too") {
  const Trace t(azure);
  const auto p = draw_plan("trace", t.options("azure"));
  REQUIRE(p.list.size() == 3);
  CHECK(p.list[0].send_at == Duration());
  CHECK(p.list[1].send_at.seconds() == Approx(1.75).margin(1e-6));
  CHECK(p.list[2].send_at.seconds() == Approx(5.0).margin(1e-6));
  CHECK(p.list[2].input == 110);
  CHECK(p.list[2].output == 27);
  CHECK(p.list[0].prompt.empty());
}

TEST_CASE("Azure 2024 writes the zone, and a leap day is a day") {
  const Trace t(
      "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-02-28 23:59:59.5+00:00,10,1\n"
      "2024-02-29 00:00:00+00:00,11,2\n2024-03-01T02:00:00.5+02:00,12,3\n");
  const auto p = draw_plan("trace", t.options("azure"));
  CHECK(p.list[1].send_at.seconds() == Approx(0.5).margin(1e-6));
  CHECK(p.list[2].send_at.seconds() == Approx(86401).margin(1e-6));
}

TEST_CASE("a BurstGPT trace leaves failures out and counts them") {
  const Trace t(
      "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log "
      "Type\n5,1,0.5,ChatGPT,472,18,490,Conversation log\n45,1,1,GPT-4,1087,0,1087,API log\n"
      "118,2,1,\"GPT-4, turbo\",417,276,693,Conversation log\n");
  const auto p = draw_plan("trace", t.options("burstgpt"));
  REQUIRE(p.list.size() == 2);
  CHECK(p.list[1].send_at == Duration::from_seconds(113));
  CHECK(p.list[1].output == 276);
  CHECK(p.description.find("1 left out without prompt or answer") != std::string::npos);
}

TEST_CASE("equal hash ids of a Mooncake trace are equal tokens") {
  // 1,000 tokens are two blocks of 512; both start with block 7.
  const Trace t(
      "{\"timestamp\": 0, \"input_length\": 1000, \"output_length\": 5, \"hash_ids\": [7, 8]}\n"
      "{\"timestamp\": 1500, \"input_length\": 1500, \"output_length\": 6, \"hash_ids\": [7, 9, "
      "10]}\n");
  const auto p = draw_plan("trace", t.options("mooncake", "time_scale: 2\n"));
  REQUIRE(p.list.size() == 2);
  CHECK(p.list[1].send_at == Duration::from_seconds(3));
  // Blocks that follow each other are one run of tokens.
  REQUIRE(p.list[0].prompt.segments().size() == 1);
  CHECK(p.list[0].prompt.segments()[0] == Segment{0, 7 * 512, 1000});
  REQUIRE(p.list[1].prompt.segments().size() == 2);
  CHECK(p.list[1].prompt.segments()[0] == Segment{0, 7 * 512, 512});
  CHECK(p.list[1].prompt.segments()[1] == Segment{0, 9 * 512, 988});
}

TEST_CASE("a Qwen-Bailian trace has blocks of 16 tokens and seconds") {
  const Trace t(
      "{\"chat_id\": 159, \"parent_chat_id\": -1, \"timestamp\": 61.5, \"input_length\": 40, "
      "\"output_length\": 13, \"type\": \"text\", \"turn\": 1, \"hash_ids\": [1, 2, 3]}\n"
      "{\"chat_id\": 160, \"parent_chat_id\": 159, \"timestamp\": 62, \"input_length\": 60, "
      "\"output_length\": 13, \"type\": \"text\", \"turn\": 2, \"hash_ids\": [1, 2, 5]}\n");
  const auto p = draw_plan("trace", t.options("qwen_bailian"));
  CHECK(p.list[1].send_at == Duration::from_seconds(0.5));
  // 60 tokens, three full blocks told: the last 12 are its own
  REQUIRE(p.list[1].prompt.segments().size() == 3);
  CHECK(p.list[1].prompt.segments()[0] == Segment{0, 16, 32});
  CHECK(p.list[1].prompt.segments()[1] == Segment{0, 80, 16});
  CHECK(p.list[1].prompt.segments()[2].tokens == 12);
  CHECK(p.list[1].prompt.tokens() == 60);
}

TEST_CASE("a CSV may name the earlier request whose beginning a prompt repeats") {
  // The third repeats 50 of the second, whose first 40 are the first one's.
  const Trace t(
      "timestamp,input_length,output_length,shares_with,shared_length\n0,100,5,,\n1,200,5,0,40\n"
      "2,60,5,1,50\n3,70,5,,\n");
  const auto runs = [&](const std::string& more) {
    std::vector<std::vector<Segment>> out;
    for (const auto& r : draw_plan("trace", t.options("csv", more)).list) {
      CHECK(r.prompt.tokens() == r.input);
      out.emplace_back(r.prompt.segments().begin(), r.prompt.segments().end());
    }
    return out;
  };
  using S = std::vector<Segment>;
  // Streams are lines of the file.
  CHECK(runs("") == std::vector<S>{{{2, 0, 100}},
                                   {{2, 0, 40}, {3, 40, 160}},
                                   {{2, 0, 40}, {3, 40, 10}, {4, 50, 10}},
                                   {{5, 0, 70}}});
  // What others repeat may itself be out of the window, or cut.
  CHECK(runs("start: 2 s\n") ==
        std::vector<S>{{{2, 0, 40}, {3, 40, 10}, {4, 50, 10}}, {{5, 0, 70}}});
  CHECK(runs("input_max: 45\nover_max: clip\n")[2] == S{{2, 0, 40}, {3, 40, 5}});
}

TEST_CASE("a prompt repeats no more than there is, of a request that came before") {
  const auto errors = [](const std::string& row) {
    const Trace t("timestamp,input_length,output_length,shares_with,shared_length\n0,100,5,,\n" +
                  row + "\n");
    const auto all = plan_errors("trace", t.options("csv"));
    return all.render();
  };
  CHECK(errors("1,50,5,0,50").empty());
  CHECK(errors("1,50,5,1,50").find("request 1 does not come before") != std::string::npos);
  CHECK(errors("1,50,5,0,51").find("51 tokens shared of 50 and 100") != std::string::npos);
  CHECK(errors("1,200,5,0,101").find("101 tokens shared of 200 and 100") != std::string::npos);
  CHECK(errors("1,50,5,-1,5").find("negative") != std::string::npos);
  CHECK(errors("1,50,5,0,").find("not a number") != std::string::npos);
  const Trace half("timestamp,input_length,output_length,shares_with\n0,100,5,\n");
  CHECK(plan_errors("trace", half.options("csv")).size() == 1);
}

TEST_CASE("start, duration and requests cut a window out of a trace; long ones go or are cut") {
  const Trace t(
      "timestamp,input_length,output_length\n10,100,1\n11,200,2\n12,300,3\n13,400,4\n14,500,5\n");
  const auto lengths = [&](const std::string& more) {
    std::vector<std::int64_t> out;
    for (const auto& r : draw_plan("trace", t.options("csv", more)).list) out.push_back(r.input);
    return out;
  };
  using L = std::vector<std::int64_t>;
  CHECK(lengths("") == L{100, 200, 300, 400, 500});
  CHECK(lengths("start: 2 s\n") == L{300, 400, 500});
  CHECK(lengths("start: 1 s\nduration: 2 s\n") == L{200, 300});
  CHECK(lengths("requests: 2\n") == L{100, 200});
  CHECK(lengths("input_max: 300\n") == L{100, 200, 300});
  CHECK(lengths("output_max: 2\n") == L{100, 200});
  CHECK(lengths("input_max: 300\nover_max: clip\n") == L{100, 200, 300, 300, 300});
  // A window that starts after the first request starts its clock there.
  const auto p = draw_plan("trace", t.options("csv", "start: 1500 ms\n"));
  CHECK(p.list[0].send_at == Duration::from_seconds(0.5));
  CHECK(plan_errors("trace", t.options("csv", "start: 9 s\n")).size() == 1);
}

TEST_CASE("everything that is wrong in a trace is said at once, with its place") {
  const Trace csv(
      "timestamp,input_length,output_length\n1,10,5\n0.5,10,5\nx,10,5\n2,-3,5\n3,1.5,5\n4,10\n");
  const auto errors = plan_errors("trace", csv.options("csv"));
  REQUIRE(errors.size() == 5);
  const auto place = [&](std::size_t i) {
    return errors.list()[i].where.text().substr(csv.file.size());
  };
  CHECK(place(0) == ":3:1");  // time
  CHECK(place(1) == ":4:1");
  CHECK(place(2) == ":5:3");
  CHECK(place(3) == ":6:3");
  CHECK(place(4) == ":7:1");
  CHECK(errors.list()[0].message.find("time runs backwards") != std::string::npos);

  const Trace json(
      "{\"timestamp\": 0, \"input_length\": 1000, \"output_length\": 5, \"hash_ids\": [7]}\n"
      "{\"timestamp\": 0, \"output_length\": 5}\nnonsense\n"
      "{\"timestamp\": 0, \"input_length\": 600, \"output_length\": -1, \"hash_ids\": [7, 8]}\n"
      "{\"timestamp\": 0, \"input_length\": 600, \"output_length\": 1, \"hash_ids\": [7, 1, 2]}\n"
      "{\"timestamp\": 0, \"input_length\": 600, \"output_length\": 1, \"hash_ids\": [7, 1.5]}\n");
  // One block for 1,000 tokens passes (the last may be missing where it is not full).
  const auto wrong = plan_errors("trace", json.options("mooncake"));
  CHECK(wrong.size() == 5);

  const Trace header("TIMESTAMP,ContextToken,GeneratedTokens\n");
  const auto missing = plan_errors("trace", header.options("azure"));
  REQUIRE(missing.size() == 1);
  CHECK(missing.list()[0].hint == "did you mean 'ContextToken'?");
  CHECK(plan_errors("trace", "format: azure\nfile: /nowhere.csv\n").size() == 1);
  CHECK(plan_errors("trace", "format: nothing\nfile: /nowhere.csv\n").size() == 1);
  CHECK(plan_errors("trace", "format: csv\nfile: " + Trace("").file + "\n").size() == 1);
}

TEST_CASE("a wrong format is said twenty times at most") {
  std::string text = "timestamp,input_length,output_length\n";
  for (int i = 0; i < 100; ++i) text += "x,1,1\n";
  const Trace t(text);
  CHECK(plan_errors("trace", t.options("csv")).size() == 20);
}

TEST_CASE("a trace may be gz, and lies beside the file that names it") {
  const process::TemporaryFolder folder;
  const auto path = (folder.path() / "azure.csv.gz").string();
  const gzFile file = gzopen(path.c_str(), "wb");
  REQUIRE(file);
  REQUIRE(gzwrite(file, azure.data(), static_cast<unsigned>(azure.size())) > 0);
  REQUIRE(gzclose(file) == Z_OK);
  const auto scenario = std::make_shared<Source>(
      Source{(folder.path() / "scenario.yaml").string(), "file: azure.csv.gz\n"});
  CHECK(beside({scenario, 1, 7}, "azure.csv.gz") == path);
  CHECK(beside({}, "azure.csv.gz") == "azure.csv.gz");
  const auto rows = read_trace(path, *find_trace_format("azure"));
  REQUIRE(rows);
  CHECK(rows->size() == 3);
}

TEST_CASE("lengths come from a CSV with any of the usual names, or without a header") {
  const auto sum = [](const std::string& text) {
    const Trace t(text);
    const auto rows = read_lengths(t.file);
    REQUIRE(rows);
    std::int64_t out = 0;
    for (const auto& r : *rows) out += 1000 * r.input + r.output;
    return out;
  };
  CHECK(sum("num_prefill_tokens,num_decode_tokens,pd_ratio\n3,4,0.75\n5,6,0.83\n") == 8010);
  CHECK(sum("3,4\n5,6\n") == 8010);
  CHECK(sum("output_tokens,input_tokens\n4,3\n") == 3004);
  CHECK_FALSE(read_lengths(Trace("a,b\n3,4\n").file));
  CHECK_FALSE(read_lengths(Trace("3,4\n5,0\n").file));
}

TEST_CASE("the public traces load whole") {
  struct Case {
    const char *file, *format;
    std::size_t requests;
  };
  // Counts as the traces' own README gives them; one more line is the header of a CSV.
  for (const Case& c : {Case{"azure_llm_2023_conv.csv.gz", "azure", 19366},
                        Case{"azure_llm_2023_code.csv.gz", "azure", 8819},
                        Case{"mooncake_fast25_conversation.jsonl.gz", "mooncake", 12031},
                        Case{"mooncake_fast25_synthetic.jsonl.gz", "mooncake", 3993}}) {
    const auto file = shared_file(std::string("data/traces/") + c.file);
    if (!file) continue;
    INFO(c.file);
    const auto p =
        draw_plan("trace", "format: " + std::string(c.format) + "\nfile: " + *file + "\n");
    CHECK(p.list.size() == c.requests);
    for (const auto& r : p.list)
      if (!r.prompt.empty()) CHECK(r.prompt.tokens() == r.input);
  }
  if (const auto file = shared_file("data/traces/vidur_arxiv_summarization_lengths.csv.gz")) {
    const auto rows = read_lengths(*file);
    REQUIRE(rows);
    CHECK(rows->size() == 28257);
  }
}
