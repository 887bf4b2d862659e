// Databases of Nsight Systems. Tables are made when first needed and gain columns with each
// version, so that columns are asked for by name. Leaves out: NVTX ranges, CPU samples, counters.

#include "calibrate/import/nsys_trace.hpp"

#include <fstream>
#include <map>
#include <memory>
#include <set>

#include <fmt/format.h>
#include <sqlite3.h>

#include "sim/base/table_text.hpp"

namespace {

constexpr std::string_view magic{"SQLite format 3\0", 16};

struct Close {
  void operator()(sqlite3* db) const { sqlite3_close(db); }
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};

// What a row says; columns in the order of the query.
class Row {
 public:
  explicit Row(sqlite3_stmt* statement) : statement_(statement) {}
  bool has(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_INTEGER; }
  std::int64_t whole(int column) const { return sqlite3_column_int64(statement_, column); }
  std::string text(int column) const {
    const auto* bytes = sqlite3_column_text(statement_, column);
    return bytes ? reinterpret_cast<const char*>(bytes) : "";
  }

 private:
  sqlite3_stmt* statement_;
};

class Database {
 public:
  Database(const std::string& path, Diagnostics& errors) : path_(path), errors_(errors) {
    sqlite3* raw = nullptr;
    const int code = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READONLY, nullptr);
    db_.reset(raw);
    if (code != SQLITE_OK) fail();
  }
  bool good() const { return good_; }

  /// Names of a table's columns; none when there is no such table.
  std::set<std::string> columns(const std::string& table) {
    std::set<std::string> out;
    each(fmt::format("PRAGMA table_info({})", table),
         [&](const Row& row) { out.insert(row.text(1)); });
    return out;
  }
  template <class Take>
  void each(const std::string& query, Take take) {
    if (!good_) return;
    sqlite3_stmt* raw = nullptr;
    if (sqlite3_prepare_v2(db_.get(), query.c_str(), -1, &raw, nullptr) != SQLITE_OK) return fail();
    const std::unique_ptr<sqlite3_stmt, Close> statement(raw);
    int code = sqlite3_step(raw);
    for (; code == SQLITE_ROW; code = sqlite3_step(raw)) take(Row(raw));
    if (code != SQLITE_DONE) fail();
  }
  void error(const std::string& message, const std::string& hint) {
    good_ = false;
    errors_.error(table_place(path_, 0, 0, {}), message, hint);
  }

 private:
  void fail() {
    error(fmt::format("the database cannot be read: {}", sqlite3_errmsg(db_.get())), "");
  }

  std::string path_;
  Diagnostics& errors_;
  std::unique_ptr<sqlite3, Close> db_;
  bool good_ = true;
};

// cudaMemcpyKind as CUPTI numbers it.
std::string copy_name(std::int64_t kind) {
  switch (kind) {
    case 1:
      return "Memcpy HtoD";
    case 2:
      return "Memcpy DtoH";
    case 8:
      return "Memcpy DtoD";
    case 10:
      return "Memcpy PtoP";
    default:
      return "Memcpy";
  }
}

class NsysReader {
 public:
  NsysReader(const std::string& path, KernelTrace& trace, Diagnostics& errors)
      : db_(path, errors), trace_(trace) {}

  void read() {
    const std::size_t before = trace_.work.size();
    std::map<std::int64_t, std::string> names;
    if (!db_.columns("StringIds").empty())
      db_.each("SELECT id, value FROM StringIds",
               [&](const Row& row) { names[row.whole(0)] = row.text(1); });
    work("CUPTI_ACTIVITY_KIND_KERNEL", "demangledName", [&](std::int64_t id) {
      const auto it = names.find(id);
      return it == names.end() ? std::string("unnamed kernel") : it->second;
    });
    work("CUPTI_ACTIVITY_KIND_MEMCPY", "copyKind", copy_name);
    work("CUPTI_ACTIVITY_KIND_MEMSET", "value", [](std::int64_t) { return std::string("Memset"); });
    work("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "graphId",
         [](std::int64_t id) { return fmt::format("CUDA graph {}", id); });
    calls();
    if (db_.good() && trace_.work.size() == before)
      db_.error(
          "no kernel ran on a GPU in this database",
          "nsys profile --trace=cuda --cuda-graph-trace=node, then nsys export --type sqlite");
  }

 private:
  // A call by its process and its number there, which starts anew in each.
  std::int64_t call_of(std::int64_t process, std::int64_t correlation) {
    return call_.try_emplace({process, correlation}, next_call_ + std::int64_t(call_.size()))
        .first->second;
  }

  template <class NameOf>
  void work(const std::string& table, const std::string& name_column, NameOf name_of) {
    const auto columns = db_.columns(table);
    if (columns.empty()) return;  // nothing of it happened
    const bool pid = columns.count("globalPid") > 0;
    for (const std::string& needed :
         {std::string("start"), std::string("end"), std::string("deviceId"),
          std::string("correlationId"), name_column})
      if (!columns.count(needed))
        return db_.error(fmt::format("table {} has no column '{}'", table, needed),
                         "is this a database of nsys export?");
    db_.each(fmt::format("SELECT start, end, deviceId, correlationId, {}, {} FROM {}", name_column,
                         pid ? "globalPid" : "0", table),
             [&](const Row& row) {
               if (!row.has(0) || !row.has(1) || row.whole(1) < row.whole(0)) {
                 ++trace_.malformed;
                 return;
               }
               const auto process = row.whole(5);
               const auto [gpu, fresh] = gpus_.try_emplace({process, row.whole(2)}, trace_.gpus);
               trace_.gpus += fresh;
               trace_.work.push_back({name_of(row.whole(4)), gpu->second,
                                      static_cast<double>(row.whole(0)) * 1e-3,
                                      static_cast<double>(row.whole(1) - row.whole(0)) * 1e-3,
                                      row.has(3) ? call_of(process, row.whole(3)) : -1});
             });
  }

  void calls() {
    const auto columns = db_.columns("CUPTI_ACTIVITY_KIND_RUNTIME");
    if (!columns.count("correlationId")) return;
    constexpr std::int64_t threads = std::int64_t{1} << 24;  // the low bits of a globalTid
    db_.each(fmt::format("SELECT start, end, correlationId, {} FROM CUPTI_ACTIVITY_KIND_RUNTIME",
                         columns.count("globalTid") ? "globalTid" : "0"),
             [&](const Row& row) {
               const auto it = call_.find({row.whole(3) / threads * threads, row.whole(2)});
               if (it == call_.end() || !row.has(0) || !row.has(1)) return;  // launched nothing
               trace_.calls.push_back({it->second, static_cast<double>(row.whole(0)) * 1e-3,
                                       static_cast<double>(row.whole(1) - row.whole(0)) * 1e-3});
             });
  }

  Database db_;
  KernelTrace& trace_;
  std::map<std::pair<std::int64_t, std::int64_t>, int> gpus_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> call_;
  std::int64_t next_call_ = trace_.gpus * (std::int64_t{1} << 48);  // above other files'
};

}  // namespace

bool is_sqlite(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string head(magic.size(), '\0');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  return in && head == magic;
}

void read_nsys(const std::string& path, KernelTrace& trace, Diagnostics& errors) {
  NsysReader(path, trace, errors).read();
}
