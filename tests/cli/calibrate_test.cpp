// `ceiling calibrate`: from a plan to a prediction on the tables of a (synthetic) box.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/process.hpp"

namespace {

namespace fs = std::filesystem;
using process::run;
using Json = nlohmann::json;

const std::string gpu = "rtx-pro-6000-server";

process::Outcome measure(const std::string& raw, std::vector<std::string> more = {}) {
  std::vector<std::string> words{"calibrate", "run",       "--backend", "synthetic", "--gpu",
                                 gpu,         "--profile", "smoke",     "-o",        raw};
  words.insert(words.end(), more.begin(), more.end());
  return run(words);
}

void check_says(const std::string& text, const std::string& part) {
  INFO("expected: " << part << "\nin: " << text);
  CHECK(text.find(part) != std::string::npos);
}

double throughput(const std::vector<std::string>& more) {
  std::vector<std::string> words{"run", "scenarios/seed/64-at-16.yaml", "--format", "json"};
  words.insert(words.end(), more.begin(), more.end());
  const auto o = run(words);
  INFO(o.err);
  REQUIRE(o.code <= 1);
  return Json::parse(o.out)["results"][0]["metrics"]["output_throughput"];
}

}  // namespace

TEST_CASE("the plan prints the same bytes as ever") {
  const auto o = run({"calibrate", "plan", "--gpu", gpu, "--profile", "smoke"});
  CHECK(o.code == 0);
  CHECK(o.out ==
        process::read_text(process::source_root() / "tests/cli/golden/calibrate-plan.txt"));
  const auto json =
      run({"calibrate", "plan", "--gpu", gpu, "--profile", "smoke", "--format", "json"});
  const Json plan = Json::parse(json.out);
  double seconds = 0;
  for (const auto& p : plan["points"]) seconds += double(p["seconds"]);
  CHECK(double(plan["seconds"]) == Approx(seconds).margin(0.1));
}

TEST_CASE("verify checks each kernel once and fails when one is wrong") {
  std::vector<std::string> words{"calibrate", "verify", "--backend", "synthetic", "--gpu", gpu};
  const auto fine = run(words);
  CHECK(fine.code == 0);
  check_says(fine.out, "cublaslt_best");
  check_says(fine.out, "unsupported  a synthetic card has no links and no host");
  words.insert(words.end(), {"--unverified", "moe"});
  const auto wrong = run(words);
  CHECK(wrong.code == 1);
  check_says(wrong.out, "unverified");
}

TEST_CASE("run, fit and a prediction on the box's own tables are one chain") {
  const process::TemporaryFolder folder;
  const std::string raw = (folder.path() / "raw.jsonl").string(),
                    tables = (folder.path() / "tables").string();
  const auto measured = measure(raw);
  INFO(measured.err);
  REQUIRE(measured.code == 0);
  const auto fitted = run({"calibrate", "fit", raw, "-o", tables});
  INFO(fitted.err);
  REQUIRE(fitted.code == 0);
  check_says(fitted.out, "engine.kernel_tables=" + tables);
  for (const char* name : {"gemm", "moe", "generation_mla", "context_mla", "mla_bmm"})
    CHECK(fs::exists(fs::path(tables) / (std::string(name) + ".table")));
  const std::vector<std::string> with{"--set", "engine.kernel_tables=" + tables};
  // The synthetic card is made of the same measurements as the shipped laws: both predictions
  // differ by what a smoke grid and a law leave out, and they do differ.
  const double shipped = throughput({}), own = throughput(with);
  CHECK(own != shipped);
  CHECK(own == Approx(shipped).epsilon(0.25));

  // the file goes on where it was cut, to the same bytes
  {
    const std::string whole = process::read_text(raw);
    fs::resize_file(raw, whole.size() / 2);
    const auto again = measure(raw);
    CHECK(again.code == 0);
    check_says(again.err, "ends within a line");
    CHECK(process::read_text(raw) == whole);
    check_says(measure(raw).out, " 0 left");
  }
  // a replay fits to the same tables
  {
    const std::string copy = (folder.path() / "replay.jsonl").string(),
                      same = (folder.path() / "same").string();
    REQUIRE(run({"calibrate", "run", "--backend", "replay", "--recording", raw, "--gpu", gpu,
                 "--profile", "smoke", "-o", copy})
                .code == 0);
    REQUIRE(run({"calibrate", "fit", copy, "-o", same}).code == 0);
    for (const auto& entry : fs::directory_iterator(tables))
      CHECK(process::read_text(entry.path()) ==
            process::read_text(fs::path(same) / entry.path().filename()));
    check_says(run({"calibrate", "compare", raw, copy}).out, "  0 of ");
  }
  // tables of one card do not price another
  {
    const auto other = run({"run", "scenarios/measured/llama-3.1-8b.yaml", "--set",
                            "engine.kernel_tables=" + tables, "--set", "machine=1x-rtx-4090"});
    CHECK(other.code == 2);
    check_says(other.err, "holds tables of " + gpu);
  }
  // a file of another driver is refused, and taken when told so
  {
    std::string text = process::read_text(raw);
    text.replace(text.find("\"driver\":\"none\""), 15, "\"driver\":\"580.1\"");
    const auto other = folder.write("other.jsonl", text);
    const auto refused = measure(other);
    CHECK(refused.code == 2);
    CHECK(refused.out.empty());
    check_says(refused.err, "the driver is 'none', was '580.1'");
    CHECK(measure(other, {"--accept-changes"}).code == 0);
    CHECK(run({"calibrate", "fit", raw, other, "-o", tables}).code == 2);
  }
}

TEST_CASE("without a GPU each command that needs one says so in one line and exits with 3") {
  const process::TemporaryFolder folder;
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"calibrate", "run", "--backend", "cuda", "--gpu", gpu, "-o",
            (folder.path() / "raw.jsonl").string()},
           {"calibrate", "probe", "--root", folder.path().string()}}) {
    const auto o = run(words);
    CHECK(o.code == 3);
    CHECK(o.out.empty());
    CHECK(process::lines(o.err).size() == 1);
    check_says(o.err, "no GPU: ");
  }
  CHECK(!fs::exists(folder.path() / "raw.jsonl"));
}

TEST_CASE("wrong words of calibrate are told with a way out") {
  const auto o = run({"calibrate", "run", "--backend", "synthetc", "--gpu", "rtx-pro-600-server"});
  CHECK(o.code == 2);
  check_says(o.err, "did you mean 'rtx-pro-6000-server'?");
  check_says(run({"calibrate", "run", "--backend", "synthetc", "--gpu", gpu}).err,
             "did you mean 'synthetic'?");
  check_says(run({"calibrate", "plan", "--gpu", gpu, "--tensor-parallel", "7"}).err,
             "--tensor-parallel 7");
  const auto missing =
      run({"run", "scenarios/seed/64-at-16.yaml", "--set", "engine.kernel_tables=no/such/folder"});
  CHECK(missing.code == 2);
  check_says(missing.err, "there is no folder 'no/such/folder'");
}
