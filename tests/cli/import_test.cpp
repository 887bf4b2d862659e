// `ceiling import`: what it prints, what it writes, how it ends.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/process.hpp"

namespace {

using process::lines;
using process::run;

const std::string table = "tests/fixtures/kernels/gemm__sglang_0.5.14.csv";
const std::string profile = "tests/fixtures/kernels/tiny_vllm019_profile.csv";

void check_says(const std::string& text, const std::vector<std::string>& parts) {
  for (const auto& part : parts) {
    INFO("expected: " << part << "\nin: " << text);
    CHECK(text.find(part) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("import prints class, engine, version, sets and rows") {
  const auto o = run({"import", "aiconfigurator", table});
  CHECK(o.code == 0);
  CHECK(o.err.empty());
  check_says(o.out, {table, "8 rows read, 8 in 2 sets", "gemm, sglang 0.5.14", "gemm_dtype",
                     "nvfp4", "bfloat16"});
  for (const auto& line : lines(o.out)) CHECK(line.size() <= 100);
  const auto two = run({"import", "llmservingsim", profile});
  CHECK(two.code == 0);
  check_says(two.out, {"mixed_attention, vllm 0.19, RTX4090", "left out",
                       "1 no kernel class covers layer 'layernorm' (line 4, column 46)", "note: "});
}

TEST_CASE("the JSON of an import has what the table says") {
  const auto o = run({"import", "aiconfigurator", table, "--format", "json"});
  CHECK(o.code == 0);
  const auto j = nlohmann::json::parse(o.out);
  CHECK(j.at("schema") == 1);
  const auto& file = j.at("files").at(0);
  CHECK(file.at("rows_read") == 8);
  CHECK(file.at("rows_kept") == 8);
  CHECK(file.at("left_out").empty());
  CHECK(file.at("sets").at(1).at("words").at("gemm_dtype") == "nvfp4");
  CHECK(file.at("sets").at(1).at("rows") == 4);
}

TEST_CASE("import writes all files as one table, or nothing") {
  const process::TemporaryFolder folder;
  const auto out = (folder.path() / "rows.csv").string();
  CHECK(run({"import", "aiconfigurator", table, "-o", out}).code == 0);
  const std::string written = process::read_text(out);
  CHECK(lines(written).size() == 9);
  check_says(lines(written)[0],
             {"class,engine,version,gpu,kernel_source,gemm_dtype,n,k,m,time_us"});

  const auto bad = folder.write("gemm__sglang_0.5.10.csv", "m,n,k\n1,2,3\n");
  const auto o = run({"import", "aiconfigurator", table, bad, "-o", out});
  CHECK(o.code == 2);
  CHECK(o.out.empty());
  check_says(o.err, {bad + ":1:1: error: column 'latency_ms' is missing", "nothing was imported"});
  CHECK(process::read_text(out) == written);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    files += entry.is_regular_file();
  CHECK(files == 2);

  const auto nowhere = run({"import", "aiconfigurator", table, "-o", "/nowhere/rows.csv"});
  CHECK(nowhere.code == 2);
  CHECK(nowhere.out.empty());
  check_says(nowhere.err, {"'/nowhere/rows.csv' cannot be written"});
}

TEST_CASE("all errors of all files are reported") {
  const auto o = run({"import", "aiconfigurator", "nowhere/gemm__a_1.csv", "README.md"});
  CHECK(o.code == 2);
  check_says(o.err, {"nowhere/gemm__a_1.csv: error: there is no such file",
                     "README.md: error: the file name does not say", "2 errors"});
}

TEST_CASE("import names its forms, and the nearest one") {
  for (const char* form : {"aiconfigurator", "llmservingsim"}) {
    const auto o = run({"import", form, "--help"});
    CHECK(o.code == 0);
    CHECK(lines(o.out).size() <= 24);
    check_says(o.out, {std::string("example: ceiling import ") + form, "--output"});
    check_says(run({"import", "--help"}).out, {form});
  }
  const auto wrong = run({"import", "aiconfigurater", table});
  CHECK(wrong.code == 2);
  check_says(wrong.err, {"knows no 'aiconfigurater'", "did you mean 'aiconfigurator'?"});
  const auto nothing = run({"import"});
  CHECK(nothing.code == 2);
  check_says(nothing.err,
             {"needs another word", "known: aiconfigurator, bench, launch, llmservingsim"});
  const auto option = run({"import", "aiconfigurator", table, "--formt", "json"});
  CHECK(option.code == 2);
  check_says(option.err, {"did you mean '--format'?"});
}
