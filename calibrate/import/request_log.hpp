#pragma once

#include <map>
#include <string>
#include <vector>

#include "calibrate/import/step_lattice.hpp"
#include "sim/base/diagnostics.hpp"

struct RequestLogOptions {
  std::string run;  // of a file that holds several; empty: the file must hold one
  /// Column (or JSON key) of a role: id, input, output, queued, scheduled, first, last,
  /// preemptions, time, run. Names that logs use are known; a name ending in _ms, _us or _ns has
  /// that unit, others are seconds.
  std::map<std::string, std::string> columns;
};

struct RequestLog {
  std::vector<LoggedRequest> requests;
  std::string form;                // "request times", "chunk times", "bench arrays"
  std::string run;                 // where the file names its runs
  std::size_t unfinished = 0;      // rows without first and last token
  std::vector<std::string> notes;  // what the reader did, for people
};

/// Reads one of three forms, CSV or JSON, plain or gz: a row for each request with its scheduled,
/// first and last token; a row for each chunk of a request (or one list of them a request); or the
/// arrays ttfts, itls and start_times of `vllm bench serve --save-detailed`.
Expected<RequestLog> read_request_log(const std::string& path, const RequestLogOptions& options);

/// Names of the roles, in order.
const std::vector<std::string>& request_log_roles();
