// `ceiling fit kernels` and `ceiling validate --kernel-table`, on rows made of a formula:
// 3 us + the longer of the traffic at 80 % of 1.792 TB/s and 2 m n k at 70 % of 467.8 TFLOP/s.

#include <algorithm>
#include <cstdlib>
#include <set>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/process.hpp"

namespace {

namespace fs = std::filesystem;
using process::lines;
using process::run;
using Json = nlohmann::json;

const std::string rows = "tests/fixtures/kernel_fit/gemm__sglang_0.5.14.csv";
const std::string gpu = "rtx-pro-6000-server";

void check_says(const std::string& text, const std::vector<std::string>& parts) {
  for (const auto& part : parts) {
    INFO("expected: " << part << "\nin: " << text);
    CHECK(text.find(part) != std::string::npos);
  }
}

void check_refused(const std::vector<std::string>& arguments,
                   const std::vector<std::string>& said) {
  const auto o = run(arguments);
  INFO(o.err);
  CHECK(o.code == 2);
  CHECK(o.out.empty());
  check_says(o.err, said);
}

std::size_t entries(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

/// Data of the project's GPUs and no tables but those a test fits; while it lives, the program
/// reads it instead of the project's.
class Data {
 public:
  Data() {
    fs::create_directories(path() / "hardware");
    fs::copy(process::source_root() / "hardware/gpus", path() / "hardware/gpus");
    if (const char* given = std::getenv("CEILING_DATA")) before_ = given;
    setenv("CEILING_DATA", path().c_str(), 1);
  }
  ~Data() {
    if (before_.empty())
      unsetenv("CEILING_DATA");
    else
      setenv("CEILING_DATA", before_.c_str(), 1);
  }
  Data(const Data&) = delete;
  Data& operator=(const Data&) = delete;
  const fs::path& path() const { return folder_.path(); }
  std::string tables() const { return (path() / "hardware/tables" / gpu).string(); }

 private:
  process::TemporaryFolder folder_;
  std::string before_;
};

}  // namespace

TEST_CASE("fit kernels writes a table that validate finds within 1 % of its rows") {
  const Data data;
  const auto fitted = run({"fit", "kernels", rows, "--gpu", gpu, "-o", data.tables()});
  INFO(fitted.err);
  REQUIRE(fitted.code == 0);
  CHECK(fitted.err.empty());
  check_says(fitted.out, {"gemm", "sglang 0.5.14", "60", "0.00 MB in 1 files"});
  REQUIRE(entries(data.tables()) == 1);
  const auto text = process::read_text(fs::path(data.tables()) / "gemm.table");
  check_says(text, {"class gemm\ngpu rtx-pro-6000-server\n", "set sglang 0.5.14\n", "rows 60\n"});

  const auto o = run({"validate", "--kernel-table", rows, "--gpu", gpu, "--format", "json"});
  INFO(o.err);
  REQUIRE(o.code == 0);
  const auto j = Json::parse(o.out);
  CHECK(j.at("schema") == 1);
  CHECK(j.at("gpu") == gpu);
  REQUIRE(j.at("classes").size() == 1);
  const auto& line = j.at("classes").at(0);
  std::set<std::string> fields;
  for (const auto& [key, value] : line.items()) fields.insert(key);
  CHECK(fields == std::set<std::string>{"class", "engine", "points", "median_error", "p90_error",
                                        "worst_error", "worst_shape"});
  CHECK(line.at("class") == "gemm");
  CHECK(line.at("engine") == "sglang 0.5.14");
  CHECK(line.at("points") == 60);
  CHECK(line.at("median_error") < 0.01);
  CHECK(line.at("median_error") <= line.at("p90_error"));
  CHECK(line.at("p90_error") <= line.at("worst_error"));
  CHECK(line.at("worst_error") < 0.1);
  check_says(line.at("worst_shape"), {"formula", "n=", "k=", "m="});

  const auto table = run({"validate", "--kernel-table", rows, "--gpu", gpu});
  CHECK(table.code == 0);
  check_says(table.out, {"gemm", "sglang 0.5.14", "median", "p90", "worst"});
}

TEST_CASE("fit kernels gives the same bytes twice, from a file or its folder, by any name") {
  const process::TemporaryFolder folder;
  std::string first;
  int number = 0;
  for (const auto& [source, name] : std::vector<std::pair<std::string, std::string>>{
           {rows, gpu},
           {rows, "rtx_pro_6000_server"},
           {"tests/fixtures/kernel_fit", "NVIDIA RTX PRO 6000 Blackwell Server Edition"}}) {
    const auto out = folder.path() / std::to_string(number++);
    const auto o = run({"fit", "kernels", source, "--gpu", name, "-o", out.string()});
    INFO(o.err);
    REQUIRE(o.code == 0);
    const auto text = process::read_text(out / "gemm.table");
    if (first.empty()) first = text;
    CHECK(text == first);
  }
}

TEST_CASE("rows of another version are priced by the nearest table, and the report says so") {
  const Data data;
  REQUIRE(run({"fit", "kernels", rows, "--gpu", gpu, "-o", data.tables()}).code == 0);
  const auto newer = (data.path() / "gemm__sglang_0.5.15.csv").string();
  fs::copy(process::source_root() / rows, newer);
  const auto o = run({"validate", "--kernel-table", newer, rows, "--gpu", "rtx_pro_6000_server",
                      "--format", "json"});
  INFO(o.err);
  REQUIRE(o.code == 0);
  const auto j = Json::parse(o.out);
  CHECK(j.at("classes").size() == 2);
  check_says(j.at("notes").dump(),
             {"gemm: priced by the table of sglang 0.5.14 for sglang 0.5.15"});
}

TEST_CASE("a bad request to fit kernels ends with 2 and writes nothing") {
  const process::TemporaryFolder folder;
  const auto out = folder.path() / "tables";
  const auto to = out.string();
  check_refused({"fit", "kernels", rows, "--gpu", "rtx-pro-6000-serve", "-o", to},
                {"rtx-pro-6000-serve", "did you mean 'rtx-pro-6000-server'?"});
  check_refused({"fit", "kernels", "nowhere/gemm__a_1.csv", "--gpu", gpu, "-o", to},
                {"nowhere/gemm__a_1.csv", "there is no such file"});
  check_refused({"fit", "kernels", rows, "nowhere/gemm__a_1.csv", "--gpu", gpu, "-o", to},
                {"there is no such file"});
  check_refused({"fit", "kernels", folder.path().string(), "--gpu", gpu, "-o", to},
                {"no tables in '", "OP__ENGINE_VERSION.csv"});
  check_refused({"fit", "kernels", rows, "-o", to}, {"--gpu"});
  check_refused({"fit", "kernels", rows, "--gpu", gpu}, {"--output"});
  const auto damaged = folder.write("gemm__sglang_0.5.14.csv", "m,n,k\n1,2,3\n");
  check_refused({"fit", "kernels", rows, damaged, "--gpu", gpu, "-o", to},
                {damaged + ":1:1: error: column 'latency_ms' is missing"});
  CHECK_FALSE(fs::exists(out));
  CHECK(entries(folder.path()) == 1);
  // a file is no folder
  check_refused({"fit", "kernels", rows, "--gpu", gpu, "-o", damaged + "/tables"},
                {"'" + damaged + "/tables' cannot be written"});
  CHECK(process::read_text(damaged) == "m,n,k\n1,2,3\n");
}

TEST_CASE("a bad request to validate kernel tables ends with 2 and prints no result") {
  const Data data;
  const auto table = "--kernel-table";
  check_refused({"validate", table, rows, "--gpu", "rtx-pro-6000-serve"},
                {"did you mean 'rtx-pro-6000-server'?"});
  check_refused({"validate", table, rows, "--gpu", gpu},
                {"no kernel was measured on", "ceiling fit kernels"});
  REQUIRE(run({"fit", "kernels", rows, "--gpu", gpu, "-o", data.tables()}).code == 0);
  check_refused({"validate", table, "nowhere/gemm__a_1.csv", "--gpu", gpu},
                {"nowhere/gemm__a_1.csv", "there is no such file"});
  check_refused({"validate", table, rows, "nowhere/gemm__a_1.csv", "--gpu", gpu},
                {"there is no such file"});
  check_refused({"validate", table, rows}, {"--gpu"});
  check_refused({"validate", "--gpu", gpu}, {"--kernel-table"});
  check_refused({"validate", "scenarios/seed", table, rows, "--gpu", gpu}, {"--kernel-table"});
  // a damaged table file is no GPU without tables
  const auto path = fs::path(data.tables()) / "gemm.table";
  const auto text = process::read_text(path);
  std::ofstream(path, std::ios::binary) << text.substr(0, text.size() - 3);
  check_refused({"validate", table, rows, "--gpu", gpu}, {"gemm.table:", "error: "});
}
