// Databases of nsys export: made here, as small as they come.

#include <sqlite3.h>
#include <catch2/catch.hpp>

#include "calibrate/import/kernel_trace.hpp"
#include "tests/support/process.hpp"

namespace {

// Runs the statements into a new database of the folder.
std::string database(const process::TemporaryFolder& folder, const std::string& name,
                     const std::string& statements) {
  const auto path = (folder.path() / name).string();
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &db) == SQLITE_OK);
  char* wrong = nullptr;
  sqlite3_exec(db, statements.c_str(), nullptr, nullptr, &wrong);
  INFO((wrong ? wrong : ""));
  CHECK(wrong == nullptr);
  sqlite3_free(wrong);
  sqlite3_close(db);
  return path;
}

const std::string kernels =
    "CREATE TABLE StringIds(id INTEGER, value TEXT);"
    "INSERT INTO StringIds VALUES (1,'void flash_fwd<bf16>()'),(2,'nvjet_tst_128x64');"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, end INTEGER, deviceId INTEGER,"
    " contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,"
    " demangledName INTEGER, shortName INTEGER, graphNodeId INTEGER);";
// A globalTid holds the process above its low 24 bits.
const std::string runtime =
    "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INTEGER, end INTEGER, globalTid INTEGER,"
    " correlationId INTEGER, nameId INTEGER);";
constexpr long long process_a = 1LL << 24, process_b = 2LL << 24;

std::string kernel(long long start, long long end, long long process, int correlation, int name) {
  return fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({},{},0,1,7,{},{},{},{},0);",
                     start, end, correlation, process, name, name);
}
std::string call(long long start, long long end, long long process, int correlation) {
  return fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({},{},{},{},0);", start, end,
                     process + 5, correlation);
}

}  // namespace

TEST_CASE("a database of nsys tells kernels, waits and processes apart") {
  const process::TemporaryFolder folder;
  // Process A: 10 to 30 us, then 35 to 45, issued at 33: 3 waiting for the host, 2 on the way.
  // Process B uses the same numbers for other calls, on a device it calls 0 as well.
  const auto path = database(
      folder, "a.sqlite",
      kernels + runtime + call(0, 5000, process_a, 1) + kernel(10000, 30000, process_a, 1, 1) +
          call(33000, 34000, process_a, 2) + kernel(35000, 45000, process_a, 2, 2) +
          call(100000, 101000, process_b, 1) + kernel(102000, 112000, process_b, 1, 2) +
          // six microseconds of copying, issued together with nothing the database knows
          "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(start INTEGER, end INTEGER, deviceId INTEGER,"
          " correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER);" +
          fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (50000,56000,0,77,{},4096,1);",
                      process_a));
  const auto trace = read_traces({path});
  if (!trace) FAIL(trace.error().render());
  const auto s = summarise(*trace);
  REQUIRE(s.gpus.size() == 2);
  CHECK(s.gpus[0].span_us == Approx(46));  // 10 to 56
  CHECK(s.gpus[0].busy_us == Approx(20 + 10 + 6));
  CHECK(s.gpus[0].idle.host_us == Approx(3));
  CHECK(s.gpus[0].idle.queued_us == Approx(2));
  CHECK(s.gpus[0].idle.unknown_us == Approx(5));
  CHECK(s.gpus[1].busy_us == Approx(10));
  REQUIRE(s.families.size() == 3);
  CHECK(s.families[0].name == "attention");  // 20 us in one launch; as much as two products
  CHECK(s.families[1].name == "gemm");
  CHECK(s.families[1].launches == 2);
  CHECK(s.families[2].name == "copy");
  // the same database twice is two boxes, not one with repeated calls
  CHECK(summarise(*read_traces({path, path})).gpus.size() == 4);
}

TEST_CASE("whole graphs stand for their kernels where the trace is no finer") {
  const process::TemporaryFolder folder;
  const auto path = database(
      folder, "a.sqlite",
      "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE(start INTEGER, end INTEGER, deviceId INTEGER,"
      " graphId INTEGER, correlationId INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (1000,9000,0,12,3);");
  const auto trace = read_traces({path});
  if (!trace) FAIL(trace.error().render());
  CHECK(summarise(*trace).families[0].name == "whole graph");
  CHECK(trace->work[0].name == "CUDA graph 12");
}

TEST_CASE("a database that is none, holds nothing or lacks a column is refused with the reason") {
  const process::TemporaryFolder folder;
  const auto refused = [](const std::string& path, const std::string& said) {
    const auto trace = read_traces({path});
    REQUIRE(!trace);
    INFO(trace.error().render());
    CHECK(trace.error().render().find(said) != std::string::npos);
  };
  refused(database(folder, "empty.sqlite", runtime), "no kernel ran on a GPU");
  refused(database(folder, "old.sqlite",
                   "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, end INTEGER,"
                   " deviceId INTEGER, correlationId INTEGER);"),
          "has no column 'demangledName'");
  auto text = process::read_text(database(folder, "whole.sqlite", kernels));
  refused(folder.write("cut.sqlite", text.substr(0, 700)), "cannot be read");
  refused(folder.write("not.json", "hello"), "no trace of torch.profiler");
}
