// Reading damaged table files: every error names its place, nothing crashes or
// takes the machine.

#include <cmath>

#include <fmt/format.h>
#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include "tests/support/kernel_sets.hpp"

namespace {

// Two sets, one of each kind of cells.
const std::string good =
    "# dense GEMM\n"
    "class gemm\n"
    "gpu tiny\n"
    "\n"
    "set sglang 0.5.14\n"
    "word gemm_dtype bfloat16\n"
    "word kernel_source formula\n"
    "source a formula, of two numbers\n"
    "rows 12\n"
    "error 0.0358 0.1573\n"
    "law 3 0.8 1.2 0.75 0.5\n"
    "cells thousandths\n"
    "columns 1 16 1024\n"
    "/ 512\n"
    "512: 1000 1100 -\n"
    "1024: 900 1000 1200\n"
    "/ 4096\n"
    "512: 800 - 1300\n"
    "\n"
    "set vllm 0.24.0\n"
    "word gemm_dtype nvfp4\n"
    "word kernel_source formula\n"
    "source a formula\n"
    "rows 4\n"
    "error 0.01 0.02\n"
    "law 2 0.7 1 0.6 5\n"
    "cells letters 1.03\n"
    "columns 1 16\n"
    "/ 512\n"
    "512: P-\n"
    "1024: {!\n";

std::string replaced(const std::string& from, const std::string& to) {
  std::string out = good;
  const auto at = out.find(from);
  REQUIRE(at != std::string::npos);
  return out.replace(at, from.size(), to);
}

// Refused at this place of the file, with these words.
void check_refused(const std::string& text, const std::string& place, const std::string& message) {
  const auto result = read_kernel_sets("gemm.table", text);
  INFO("expected: " << place << " " << message);
  REQUIRE_FALSE(result);
  const auto said = result.error().render();
  INFO(said);
  CHECK(said.rfind("gemm.table:" + place + ": error: ", 0) == 0);
  CHECK(said.find(message) != std::string::npos);
}

}  // namespace

TEST_CASE("a good table is read as it is meant") {
  const auto sets = read_kernel_sets("gemm.table", good);
  if (!sets) FAIL(sets.error().render());
  REQUIRE(sets->size() == 2);
  const KernelSet& a = sets->front();
  CHECK(a.kernel_class == "gemm");
  CHECK(a.engine == "sglang");
  CHECK(a.version == "0.5.14");
  CHECK(a.words.at("gemm_dtype") == "bfloat16");
  CHECK(a.source == "a formula, of two numbers");
  CHECK(a.rows_measured == 12);
  CHECK(a.error_median == 0.0358);
  CHECK(a.error_p90 == 0.1573);
  CHECK(a.parameters == std::vector<double>{3, 0.8, 1.2, 0.75, 0.5});
  CHECK(a.columns == std::vector<double>{1, 16, 1024});
  CHECK(a.shapes == std::vector<Coordinates>{{512, 512}, {512, 1024}, {4096, 512}});
  CHECK(a.cells == std::vector<double>{1, 1.1, 0, 0.9, 1, 1.2, 0.8, 0, 1.3});
  CHECK(a.letter_step == 0);
  const KernelSet& b = sets->back();
  CHECK(b.engine == "vllm");
  CHECK(b.letter_step == 1.03);
  REQUIRE(b.cells.size() == 4);
  CHECK(b.cells[0] == 1);
  CHECK(b.cells[1] == 0);
  CHECK(b.cells[2] == Letters(1.03).ratio('{'));
}

TEST_CASE("a set of a law alone needs no columns") {
  const std::string text = good.substr(0, good.find("cells")) + "\n";
  auto sets = read_kernel_sets("gemm.table", text);
  if (!sets) FAIL(sets.error().render());
  sets->front().prepare(tiny::gpu());
  const double x[] = {512, 512, 16};
  CHECK(sets->front().predict(x).us == sets->front().law_us(x));
  CHECK(sets->front().predict(x).provenance == Provenance::fitted);
}

TEST_CASE("a damaged head is refused with its place") {
  check_refused(replaced("class gemm", "class gem"), "2:7", "did you mean 'gemm'?");
  check_refused(replaced("class gemm\n", ""), "4:1", "the file must open with its class");
  CHECK(read_kernel_sets("gemm.table", "").error().render() ==
        "gemm.table: error: the file must open with its class\n");
  check_refused("\n\n# nothing\n", "3:1", "the file must open with its class");
  check_refused(replaced("gpu tiny", "class moe"), "3:1", "a file has one class");
  check_refused(replaced("set sglang 0.5.14", "rows 1"), "5:1", "'set ENGINE VERSION'");
  check_refused(replaced("set sglang 0.5.14", "set sglang"), "5:11", "'set ENGINE VERSION'");
  check_refused(replaced("rows 12", "row 12"), "9:1", "did you mean 'rows'?");
  check_refused(replaced("rows 12", "rows many"), "9:6", "a number is wanted here");
  check_refused(replaced("rows 12", "rows 1e308"), "9:6", "a whole number up to 1e12");
  check_refused(replaced("error 0.0358", "error nan"), "10:7", "a number is wanted here");
}

TEST_CASE("a law with the wrong numbers is refused with its place") {
  check_refused(replaced("law 3 0.8", "law 0.8"), "11:1", "the law of 'gemm' has 5 numbers, not 4");
  check_refused(replaced("law 3 0.8", "law 3 3 0.8"), "11:1", "has 5 numbers, not 6");
  check_refused(replaced("law 3 0.8", "law 3 x"), "11:7", "a number is wanted here");
  check_refused(replaced("law 3 0.8", "law 3 nan"), "11:7", "a number is wanted here");
  check_refused(replaced("law 3 0.8", "law 3 inf"), "11:7", "a number is wanted here");
  check_refused(replaced("law 3 0.8", "law 3 -0.8"), "11:7", "the numbers of a law are positive");
  check_refused(replaced("law 3 0.8", "law 3 1e300"), "11:7", "the numbers of a law are positive");
  check_refused(replaced("law 3 0.8 1.2 0.75 0.5\n", ""), "5:1", "set sglang 0.5.14 has no law");
}

TEST_CASE("a set that lacks a word of its class is refused") {
  check_refused(replaced("word gemm_dtype bfloat16\n", ""), "5:1",
                "set sglang 0.5.14 lacks the word 'gemm_dtype'");
  check_refused(replaced("word gemm_dtype nvfp4\n", ""), "20:1",
                "set vllm 0.24.0 lacks the word 'gemm_dtype'");
}

TEST_CASE(
    "columns that are missing, descend or are no sizes are refused with "
    "their place") {
  check_refused(replaced("columns 1 16 1024\n", ""), "14:1", "a row of a table before its columns");
  check_refused(replaced("columns 1 16 1024", "columns"), "15:1", "before its columns");
  check_refused(replaced("columns 1 16 1024", "columns 1 16 8"), "13:14", "columns must ascend");
  check_refused(replaced("columns 1 16 1024", "columns 1 16 16"), "13:14", "columns must ascend");
  check_refused(replaced("columns 1 16 1024", "columns 1 nan 1024"), "13:11", "a number is wanted");
  check_refused(replaced("columns 1 16 1024", "columns -1 16 1024"), "13:9", "a whole number");
  check_refused(replaced("columns 1 16 1024", "columns 0.25 0.5 1"), "13:9", "a whole number");
  check_refused(replaced("columns 1 16 1024", "columns 1 16 1e308"), "13:14", "up to 1e12");
  check_refused(replaced("/ 4096", "columns 1 2"), "17:1", "a set has one line of columns");
}

TEST_CASE("rows that do not fit their columns are refused with their place") {
  check_refused(replaced("512: 1000 1100 -", "512: 1000 1100"), "15:15", "2 cells for 3 columns");
  check_refused(replaced("512: 1000 1100 -", "512: 1000 1100 - 7"), "15:19",
                "4 cells for 3 columns");
  check_refused(replaced("512: 1000 1100 -", "512: 1000 -1100 -"), "15:11",
                "a ratio is a whole number of thousandths");
  check_refused(replaced("512: 1000 1100 -", "512: 1000 0 -"), "15:11",
                "a ratio is a whole number of thousandths");
  check_refused(replaced("512: 1000 1100 -", "512: 0.5 1100 -"), "15:6",
                "a whole number of thousandths");
  check_refused(replaced("512: 1000 1100 -", "512: 1000 x -"), "15:11", "a number is wanted here");
  check_refused(replaced("512: 1000 1100 -", "512: inf 1100 -"), "15:6", "a number is wanted here");
  check_refused(replaced("512: 1000 1100 -", "512 1000 1100 -"), "15:4", "':' is wanted");
  check_refused(replaced("512: 1000 1100 -", "5.5: 1000 1100 -"), "15:1", "a whole number");
  check_refused(replaced("512: 1000 1100 -", "*: 1000 1100 -"), "15:1", "a size is wanted here");
  check_refused(replaced("512: P-", "512: P"), "30:7", "1 cells for 2 columns");
  check_refused(replaced("512: P-", "512: P--"), "30:9", "3 cells for 2 columns");
  check_refused(replaced("512: P-", "512: P "), "30:7", "a cell is a letter or '-'");
  check_refused(replaced("512: P-", "512: P\x7f"), "30:7", "a cell is a letter or '-'");
  check_refused(replaced("512: P-", "512: P\xe9"), "30:7", "a cell is a letter or '-'");
  check_refused(replaced("cells letters 1.03", "cells letters 2"), "27:7", "between 1.001 and 1.5");
  check_refused(replaced("cells letters 1.03", "cells letters nan"), "27:15", "a number is wanted");
  check_refused(replaced("cells letters 1.03", "cells words"), "27:7",
                "'letters' or 'thousandths'");
}

TEST_CASE(
    "shapes in disorder or without their leading sizes are refused with "
    "their place") {
  check_refused(replaced("1024: 900", "512: 900"), "16:1", "shapes must ascend");
  check_refused(replaced("1024: 900", "256: 900"), "16:1", "shapes must ascend");
  check_refused(replaced("/ 512\n", ""), "14:1", "a line '/' with the leading sizes is wanted");
  check_refused(replaced("/ 512", "/ 512 512"), "14:7", "1 leading sizes are wanted");
  check_refused(replaced("/ 512", "/"), "14:2", "a number is wanted here");
  check_refused(replaced("/ 512", "/ 1e300"), "14:3", "a whole number");
  check_refused("class nccl\nset nccl 2.29.2\n/ 512\n", "3:3", "0 leading sizes are wanted");
}

TEST_CASE("a file that was cut off is refused, also within a number") {
  std::size_t whole = 0;
  for (std::size_t n = 0; n < good.size(); ++n) {
    const auto result = read_kernel_sets("gemm.table", good.substr(0, n));
    const bool line_end = n > 0 && good[n - 1] == '\n';
    if (!line_end) CHECK_FALSE(result);
    whole += result.has_value();
  }
  CHECK(whole < 18);  // only ends of whole sets and their rows are no damage that shows
  check_refused(good.substr(0, good.find("1200\n") + 2), "16:18", "the file ends within this line");
}

TEST_CASE("all errors of a file are told, up to a screen of them") {
  std::string text = good;
  for (int i = 0; i < 1000; ++i) text += "7: x\n";
  const auto result = read_kernel_sets("gemm.table", text);
  REQUIRE_FALSE(result);
  CHECK(result.error().size() >= 10);
  CHECK(result.error().size() <= 25);
}

namespace {

// Reads and, where that goes well, predicts: whatever a file says, a time comes
// out.
bool survives(const std::string& text) {
  auto sets = read_kernel_sets("gemm.table", text);
  if (!sets) {
    RC_ASSERT(!sets.error().empty());
    RC_ASSERT(!sets.error().render().empty());
    return false;
  }
  for (auto& set : *sets) {
    set.prepare(tiny::gpu());
    for (const double size : {1.0, 3.0, 512.0, 700.0, 1e7}) {
      double x[kernel_axes_max];
      for (double& value : x) value = size;
      const auto answer = set.predict(x);
      RC_ASSERT(answer.us > 0);
      RC_ASSERT(std::isfinite(answer.us));
      RC_ASSERT(set.predict_cold(x).us >= answer.us);
    }
  }
  if (!sets->empty()) {
    const auto again = read_kernel_sets("again.table", write_kernel_sets("tiny", *sets));
    if (!again) RC_FAIL(again.error().render());
    RC_ASSERT(again->size() == sets->size());
  }
  return true;
}

std::string mutated(std::string text) {
  static const std::vector<std::string> tokens{"0",          "-1",
                                               "1e308",      "99999999999999999999",
                                               "nan",        "inf",
                                               "-",          "*",
                                               "/ 1",        ":",
                                               "\t",         "\r",
                                               "\xff",       " ",
                                               "\n",         "P",
                                               "1e-9",       "set a 1\n",
                                               "512",        "512: ",
                                               "law ",       "columns 1 2 3\n",
                                               "#",          "word head_dim",
                                               "class moe\n"};
  for (int slips = *rc::gen::inRange(1, 4); slips > 0 && !text.empty(); --slips) {
    const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
    switch (*rc::gen::inRange(0, 6)) {
      case 0:
        text[at] = static_cast<char>(*rc::gen::inRange(0, 256));
        break;
      case 1:
        text.erase(at, *rc::gen::inRange<std::size_t>(1, 20));
        break;
      case 2:
        text.insert(at, *rc::gen::elementOf(tokens));
        break;
      case 3: {  // a line once more, elsewhere
        const auto from = text.rfind('\n', at) + 1;
        const auto line = text.substr(from, text.find('\n', from) - from + 1);
        const auto to = text.find('\n', *rc::gen::inRange<std::size_t>(0, text.size()));
        text.insert(to == std::string::npos ? 0 : to + 1, line);
        break;
      }
      case 4: {  // a line less
        const auto from = text.rfind('\n', at) + 1;
        text.erase(from, text.find('\n', from) - from + 1);
        break;
      }
      default:
        text.resize(at);
    }
  }
  return text;
}

}  // namespace

TEST_CASE("no slip in a table crashes the reader") {
  int fine = 0, refused = 0;
  CHECK(rc::check([&] { ++(survives(mutated(good)) ? fine : refused); }));
  // both ends are reached
  CHECK(fine > 5);
  CHECK(refused > 20);
  // the table of any class may come with the words of another
  for (const auto& [id, kind] : KernelClasses::entries()) {
    INFO(id);
    tiny::Grid grid(kind.axes.size(), {16, 512});
    auto set = tiny::set(id, grid, [](const Coordinates& x) { return x[0] > 16 ? 1.5 : 0.75; });
    for (auto& [word, value] : set.words) value = word == "head_dim" ? "none" : "-1";
    const auto text = write_kernel_sets("tiny", {set});
    CHECK(rc::check(id, [&text = text] {
      survives(text);
      survives(mutated(text));
    }));
  }
}

TEST_CASE("a small file does not take the machine, whatever numbers it holds") {
  // 20,000 columns and 20,000 rows of one cell: filled up they would take 3 GB.
  std::string text = good.substr(0, good.find("columns 1 16 1024")) + "columns";
  for (int i = 1; i <= 20000; ++i) text += fmt::format(" {}", i);
  text += "\n/ 512\n";
  for (int i = 1; i <= 20000; ++i) text += fmt::format("{}: 7\n", i);
  const auto result = read_kernel_sets("gemm.table", text);
  REQUIRE_FALSE(result);
  CHECK(result.error().size() <= 25);

  // thousands of columns that are there are read
  std::string wide = good.substr(0, good.find("columns 1 16 1024")) + "columns";
  for (int i = 1; i <= 5000; ++i) wide += fmt::format(" {}", i);
  wide += "\n/ 512\n512:";
  for (int i = 1; i <= 5000; ++i) wide += " 1000";
  wide += "\n";
  const auto sets = read_kernel_sets("gemm.table", wide);
  if (!sets) FAIL(sets.error().render());
  CHECK(sets->front().cells.size() == 5000);
}
