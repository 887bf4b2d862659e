// `import nccl-tests`: laws first, then each form of output and its traps.

#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include "calibrate/import/nccl_tests.hpp"
#include "sim/base/units.hpp"
#include "sim/scenario/yaml.hpp"
#include "tests/support/box_texts.hpp"
#include "tests/support/process.hpp"

namespace {

using process::TemporaryFolder;

struct Text {
  std::string name, text;
};

Expected<NcclTestsImport> try_import(const std::vector<Text>& files,
                                     NcclTestsOptions options = {}) {
  const TemporaryFolder folder;
  std::vector<std::string> paths;
  for (const auto& f : files) paths.push_back(folder.write(f.name, f.text));
  return import_nccl_tests(paths, options);
}

NcclTestsImport imported(const std::vector<Text>& files, NcclTestsOptions options = {}) {
  auto result = try_import(files, options);
  if (!result) FAIL(result.error().render());
  return *result;
}

std::string refused(const std::vector<Text>& files, NcclTestsOptions options = {}) {
  const auto result = try_import(files, options);
  REQUIRE_FALSE(result);
  return result.error().render();
}

void check_says(const std::string& text, const std::vector<std::string>& parts) {
  for (const auto& part : parts) {
    INFO("expected: " << part << "\nin: " << text);
    CHECK(text.find(part) != std::string::npos);
  }
}

// One line as all_reduce_perf prints it; algbw follows from size and time.
std::string row(std::int64_t bytes, double us, double in_place_us, int wrong = 0) {
  const auto bw = [&](double t) { return static_cast<double>(bytes) / t / 1e3; };
  return fmt::format(
      "{:>12}  {:>12}     float     sum      -1  {:>7.2f}  {:>6.2f}  {:>6.2f}  {:>6}  {:>7.2f}  "
      "{:>6.2f}  {:>6.2f}  {:>6}",
      bytes, bytes / 4, us, bw(us), bw(us) * 1.5, wrong, in_place_us, bw(in_place_us),
      bw(in_place_us) * 1.5, wrong);
}

const std::vector<std::string> rows = {row(4096, 14.9, 14.8), row(65536, 18.45, 17.75),
                                       row(1048576, 102.1, 102)};

std::string json_text() {
  return R"({"version":1,"start_time":"2026-08-11 10:00:00","args":["./build/all_gather_perf","-g","8"],
"env":["HOME=/root","SECRET_TOKEN=x","NCCL_PROTO=LL","NCCL_DEBUG=INFO"],"nccl_version":22703,
"config":{"nthreads":1,"ngpus":8,"devices":[{"rank":0,"group":0,"pid":7,"hostname":"box","device":0}]},
"results":[{"size":1024,"count":32,"type":"float","redop":"none","root":"-1",
"out_of_place":{"time":12.500000,"alg_bw":0.081920,"bus_bw":0.071680,"nwrong":0.000000},
"in_place":{"time":12.250000,"alg_bw":0.083592,"bus_bw":0.073143,"nwrong":0.000000}},
{"size":2048,"count":64,"type":"float","redop":"none","root":"-1",
"out_of_place":{"time":13.000000,"alg_bw":0.157538,"bus_bw":0.137846,"nwrong":null},
"in_place":{"time":13.250000,"alg_bw":0.154566,"bus_bw":0.135245,"nwrong":null}}],
"out_of_bounds":{"count":0,"okay":"true"},"errors":[],"end_time":"2026-08-11 10:01:00"})";
}

}  // namespace

// ---- laws ----

TEST_CASE("what nccl-tests prints comes back: sizes exact, times as printed") {
  CHECK(rc::check("random tables", [] {
    std::map<std::int64_t, double> wanted;
    std::vector<std::string> lines;
    for (int i = *rc::gen::inRange(1, 12); i > 0; --i) {
      const std::int64_t bytes = *rc::gen::inRange<std::int64_t>(1, 1 << 28) * 4;
      const double us = *rc::gen::inRange(100, 9000000) / 100.0;
      if (wanted.emplace(bytes, us).second) lines.push_back(row(bytes, us, us + 1));
    }
    const auto import = imported({{"a.txt", box_texts::all_reduce_perf(8, lines)}});
    RC_ASSERT(import.rows_kept == wanted.size());
    RC_ASSERT(import.tables.size() == 1u);
    const auto file = parse_yaml("t.yaml", collectives_text(import));
    RC_ASSERT(file.has_value());
    const auto* points = file->at("collectives.0.points");
    RC_ASSERT(points && points->items().size() == wanted.size());
    auto it = wanted.begin();
    for (const auto& point : points->items()) {
      RC_ASSERT(parse<Bytes>(point.items()[0].text())->count() == it->first);
      RC_ASSERT(std::abs(parse<Duration>(point.items()[1].text())->us() - it->second) < 1e-4);
      ++it;
    }
  }));
}

TEST_CASE("rows read are rows kept or left out, in files and lines of any order") {
  CHECK(rc::check("rows with wrong results among others", [] {
    std::vector<std::string> lines;
    std::size_t good = 0, bad = 0;
    for (int i = *rc::gen::inRange(1, 20); i > 0; --i) {
      const bool wrong = *rc::gen::arbitrary<bool>();
      lines.push_back(row(4096 * i, 20, 20, wrong ? 3 : 0));
      ++(wrong ? bad : good);
    }
    const Text file{"a.txt", box_texts::all_reduce_perf(4, lines)};
    const auto result = try_import({file});
    RC_ASSERT(result.has_value() == (good > 0));
    if (!result) return;
    RC_ASSERT(result->rows_read == good + bad);
    RC_ASSERT(result->rows_kept == good);
    RC_ASSERT((bad == 0 ? result->left_out.empty() : result->left_out[0].rows == bad));
  }));
}

TEST_CASE("no bytes crash the import of nccl-tests, and what it takes is whole") {
  const std::vector<Text> samples = {{"all_reduce.txt", box_texts::all_reduce_perf(4, rows)},
                                     {"all_gather.json", json_text()}};
  const auto holds = [](const Text& file) {
    const auto result = try_import({file}, {"", 0, *rc::gen::arbitrary<bool>()});
    if (!result) {
      RC_ASSERT(!result.error().empty());
      return;
    }
    RC_ASSERT(!result->tables.empty());
    for (const auto& table : result->tables)
      for (const auto& p : table.points) RC_ASSERT(p.bytes > 0 && p.us > 0);
    RC_ASSERT(parse_yaml("t.yaml", collectives_text(*result)).has_value());
  };
  CHECK(rc::check("random bytes", [&] {
    holds({"all_reduce.txt", *rc::gen::arbitrary<std::string>()});
  }));
  CHECK(rc::check("cut off anywhere", [&] {
    auto sample = *rc::gen::elementOf(samples);
    sample.text.resize(*rc::gen::inRange<std::size_t>(0, sample.text.size()));
    holds(sample);
  }));
  CHECK(rc::check("a few other bytes", [&] {
    auto sample = *rc::gen::elementOf(samples);
    for (int i = *rc::gen::inRange(1, 6); i > 0; --i)
      sample.text[*rc::gen::inRange<std::size_t>(0, sample.text.size())] =
          *rc::gen::inRange<char>(1, 127);
    holds(sample);
  }));
}

// ---- text ----

TEST_CASE("text: operation, ranks, version and sizes") {
  const auto import = imported({{"run.txt", box_texts::all_reduce_perf(8, rows)}});
  REQUIRE(import.tables.size() == 1);
  const auto& t = import.tables[0];
  CHECK(t.op == "all_reduce");
  CHECK(t.gpus == 8);
  CHECK(t.version == "2.27.7");  // nccl-library=22707
  CHECK(t.source == "run.txt");
  REQUIRE(t.points.size() == 3);
  CHECK(t.points[1].bytes == 65536);
  CHECK(t.points[1].us == 18.45);
  CHECK(import.notes.empty());
  check_says(collectives_text(import), {"kernel: nccl", "in_place: false", "[64 KiB, 18.45 us]"});
  CHECK(imported({{"run.txt", box_texts::all_reduce_perf(8, rows)}}, {"", 0, true})
            .tables[0]
            .points[1]
            .us == 17.75);
}

TEST_CASE("text: an old build has no root, prints error, and leaves redop blank") {
  const std::string old =
      "# nThread 1 nGpus 2 minBytes 8 maxBytes 1024 step: 2(factor) warmup iters: 5 iters: 20\n"
      "#\n# Using devices\n"
      "#   Rank  0 Pid  11 on  box device  0 [0x35] Tesla T4\n"
      "#   Rank  1 Pid  11 on  box device  1 [0xf5] Tesla T4\n#\n"
      "#       size         count    type   redop     time   algbw   busbw     error     time   "
      "algbw   busbw     error\n"
      "        4096          1024   float     sum    20.00    0.20    0.20     1e-07    20.10    "
      "0.20    0.20     1e-07\n"
      "        8192          2048   float            30.00    0.27    0.27     0e+00    30.10    "
      "0.27    0.27     0e+00\n"
      "# Avg bus bandwidth    : 0.2\n";
  const auto import = imported({{"all_gather_t4.txt", old}});
  REQUIRE(import.tables.size() == 1);
  CHECK(import.tables[0].op == "all_gather");  // from the file name
  CHECK(import.tables[0].gpus == 2);
  CHECK(import.tables[0].version.empty());
  REQUIRE(import.tables[0].points.size() == 2);
  CHECK(import.tables[0].points[1].us == 30);
  CHECK(import.left_out.empty());
  check_says(import.notes[0], {"the NCCL version is unknown"});
}

TEST_CASE("text: more columns, time stamps and mpirun's tags are no trouble") {
  const std::string text =
      "[1,0]<stdout>:# Collective test starting: alltoall_perf_mpi\n"
      "[1,0]<stdout>:# Using devices\n"
      "[1,0]<stdout>:#  Rank  0 Group  0 Pid 1 on box device  0 [0000:01:00] NVIDIA H200\n"
      "[1,0]<stdout>:#  Rank  1 Group  0 Pid 2 on box device  1 [0000:02:00] NVIDIA H200\n"
      "[1,0]<stdout>:NCCL version 2.29.2+cuda12.9\n"
      "[1,0]<stdout>:# size count type redop root time algbw busbw #wrong tmin tmax time algbw "
      "busbw #wrong tmin tmax timestamp\n"
      "[1,0]<stdout>:  4096 512 float none -1 12.5 0.33 0.16 N/A 11 14 12.75 0.32 0.16 N/A 11 15 "
      "2026-08-11 10:00:00\n"
      "# Avg bus bandwidth    : 0.2\n";
  const auto import = imported({{"x.log", text}});
  REQUIRE(import.tables.size() == 1);
  CHECK(import.tables[0].op == "all_to_all");
  CHECK(import.tables[0].version == "2.29.2");
  CHECK(import.tables[0].points[0].us == 12.5);
  CHECK(imported({{"x.log", text}}, {"", 0, true}).tables[0].points[0].us == 12.75);
}

TEST_CASE("text: the environment is read from the shell and from NCCL, and parts tables") {
  const auto run = box_texts::all_reduce_perf(4, rows);
  const auto with = "$ NCCL_P2P_DISABLE=1 NCCL_DEBUG=INFO HOME=/x ./build/all_reduce_perf -g 4\n" +
                    run + "box:1:1 [0] NCCL INFO NCCL_PROTO set by environment to LL.\n";
  const auto import = imported({{"on.txt", run}, {"off.txt", with}});
  REQUIRE(import.tables.size() == 2);
  CHECK(import.tables[0].env.empty());
  CHECK(import.tables[1].env ==
        std::map<std::string, std::string>{{"NCCL_P2P_DISABLE", "1"}, {"NCCL_PROTO", "LL"}});
  check_says(collectives_text(import), {"env: {NCCL_P2P_DISABLE: 1, NCCL_PROTO: LL}"});
}

TEST_CASE("text: two runs in one log are two runs") {
  auto other = box_texts::all_reduce_perf(2, {row(4096, 9, 9)});
  const auto import = imported({{"log.txt", box_texts::all_reduce_perf(4, rows) + other}});
  REQUIRE(import.tables.size() == 2);
  CHECK(import.tables[0].gpus == 2);
  CHECK(import.tables[1].gpus == 4);
  CHECK(import.tables[1].points.size() == 3);
}

TEST_CASE("text: lines that are cut off, damaged or wrong are left out with their place") {
  auto damaged = rows;
  damaged.push_back(row(2097152, 150, 150, 2));
  damaged.push_back(row(4194304, 400, 400).substr(0, 60));
  auto shifted = row(8388608, 800, 800);
  shifted.replace(shifted.find("800.00"), 6, "80.000");
  damaged.push_back(shifted);
  const auto import = imported({{"run.txt", box_texts::all_reduce_perf(2, damaged)}});
  CHECK(import.rows_kept == 3);
  REQUIRE(import.left_out.size() == 3);
  std::string all;
  for (const auto& left : import.left_out) all += left.reason + " " + left.where + "\n";
  check_says(all, {"the line is cut off", "wrong results (#wrong)", "time and algbw disagree",
                   // five lines of heading, two ranks, four of header, three good rows
                   "run.txt:15:6\n", "run.txt:16:", "run.txt:17:6"});
}

TEST_CASE("text: repeats become their median, and a fifth apart is worth a warning") {
  const auto text = [](double us) {
    return Text{fmt::format("{}.txt", us), box_texts::all_reduce_perf(4, {row(4096, us, us)})};
  };
  const auto close = imported({text(10), text(11), text(10.4)});
  REQUIRE(close.tables.size() == 1);
  CHECK(close.tables[0].points[0].us == 10.4);
  CHECK(close.notes.empty());
  const auto apart = imported({text(10), text(12.5)});
  CHECK(apart.tables[0].points[0].us == 11.25);
  REQUIRE(apart.notes.size() == 1);
  check_says(apart.notes[0], {"4096 bytes on 4 GPUs took 10 us (", "10.txt:", "and 12.5 us ("});
}

TEST_CASE("text: what is not said must be given") {
  const std::string bare =
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     "
      "time   algbw   busbw #wrong\n" +
      rows[0] + "\n";
  const auto errors = refused({{"run.txt", bare}});
  check_says(errors, {"run.txt:1:1: error: neither the output nor the file name says which",
                      "add --op", "the number of GPUs is unknown", "add --gpus N"});
  const auto import = imported({{"run.txt", bare}}, {"all_reduce", 4, false});
  CHECK(import.tables[0].gpus == 4);
  check_says(import.notes[0], {"it may be cut off"});
  check_says(refused({{"run.txt", box_texts::all_reduce_perf(4, rows)}}, {"all_gather", 8, false}),
             {"this run says all_reduce, --op says all_gather", "has 4 ranks, --gpus says 8"});
}

TEST_CASE("text: every error of every file is said at once") {
  auto reduce = box_texts::all_reduce_perf(4, rows);
  reduce.replace(reduce.find("all_reduce_perf"), 15, "hypercube_perf");
  auto mixed = box_texts::all_reduce_perf(2, rows);
  mixed.replace(mixed.find("Rank  1"), 7, "Rank  0");
  check_says(refused({{"a.txt", reduce},
                      {"b.txt", "hello\n"},
                      {"c.txt", box_texts::all_reduce_perf(4, {})},
                      {"d.txt", mixed}}),
             {"a table cannot hold 'hypercube'", "no table of nccl-tests", "no row of this file",
              "a rank is listed twice"});
}

TEST_CASE("text: ranks on two hosts are no box") {
  auto text = box_texts::all_reduce_perf(2, rows);
  text.replace(text.rfind("       box device"), 10, "    other2");
  check_says(imported({{"run.txt", text}}).notes[0], {"ranks on 2 hosts"});
}

// ---- JSON ----

TEST_CASE("json: GPUs are processes times threads times GPUs, secrets stay out") {
  const auto import = imported({{"out.json", json_text()}});
  REQUIRE(import.tables.size() == 1);
  const auto& t = import.tables[0];
  CHECK(t.op == "all_gather");
  CHECK(t.gpus == 8);
  CHECK(t.version == "2.27.3");
  CHECK(t.source == "out.json (2026-08-11)");
  CHECK(t.env == std::map<std::string, std::string>{{"NCCL_PROTO", "LL"}});
  REQUIRE(t.points.size() == 2);
  CHECK(t.points[0].us == 12.5);
  CHECK(imported({{"out.json", json_text()}}, {"", 0, true}).tables[0].points[0].us == 12.25);
  check_says(collectives_text(import), {"[1 KiB, 12.5 us]"});
}

TEST_CASE("json: damage is named with its place") {
  const auto text = json_text();
  check_says(refused({{"out.json", text.substr(0, 700)}}),
             {"out.json:9:", "this is no whole JSON", "cut off"});
  check_says(refused({{"out.json", "{\"results\": 3}"}}), {"there is no list 'results'"});
  auto null = text;
  null.replace(null.find("\"out_of_place\":{"), 16, "\"elsewhere\":{");
  const auto import = imported({{"out.json", null}});
  CHECK(import.rows_kept == 1);
  check_says(import.left_out[0].where, {"out.json: results[0]"});
}
