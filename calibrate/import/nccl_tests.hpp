#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/base/diagnostics.hpp"

/// Times of one collective over sizes: what one or more runs of nccl-tests measured alike.
struct CollectiveTable {
  std::string op;  // all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, send_recv
  int gpus = 0;
  std::string version;  // of NCCL; empty where no run says
  std::string source;   // file names, with the date where a run says it
  bool in_place = false;
  std::map<std::string, std::string> env;  // NCCL_* that change what NCCL does
  struct Point {
    std::int64_t bytes = 0;  // as nccl-tests prints them: of the whole vector
    double us = 0;
  };
  std::vector<Point> points;  // by size
};

/// Rows that were left out for one reason, and where the first of them stands.
struct LeftOutRows {
  std::string reason;
  std::size_t rows = 0;
  std::string where;
};

struct NcclTestsImport {
  std::vector<CollectiveTable> tables;
  std::size_t rows_read = 0, rows_kept = 0;
  std::vector<LeftOutRows> left_out;
  std::vector<std::string> notes;
};

/// What the files may leave open, and which of the two times is wanted.
struct NcclTestsOptions {
  std::string op;
  int gpus = 0;
  bool in_place = false;
};

/// Names of the operations that a table can hold.
const std::vector<std::string>& collective_ops();

/// Reads the text output of nccl-tests (all_reduce_perf and the like), of any version since 2.0, or
/// the JSON that they write with -J. Columns are found by their header. Runs of one operation, GPU
/// count, NCCL version and environment become one table, whatever their files.
Expected<NcclTestsImport> import_nccl_tests(const std::vector<std::string>& paths,
                                            const NcclTestsOptions& options);

/// Tables as a YAML file {schema, collectives}; `head`: what its comment says.
std::string collectives_text(const std::vector<CollectiveTable>& tables, const std::string& head);
/// Those of an import.
std::string collectives_text(const NcclTestsImport& import);

/// What was read, for people.
std::string summarise(const NcclTestsImport& import);
