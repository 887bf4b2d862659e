#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/diagnostics.hpp"

/// What a GPU did for a while: a kernel, a copy or a fill, as a profiler saw it.
struct TracedWork {
  std::string name;
  int gpu = 0;  // across the files, in their order
  double start_us = 0, us = 0;
  std::int64_t call = -1;  // names the host's call that launched it; -1: not recorded
  double end_us() const { return start_us + us; }
};

/// The host's call that launched work: one kernel, or a whole graph.
struct TracedCall {
  std::int64_t call = -1;
  double start_us = 0, us = 0;
};

struct KernelTrace {
  std::vector<TracedWork> work;   // by GPU, then start
  std::vector<TracedCall> calls;  // by `call`
  int gpus = 0;
  std::size_t malformed = 0;  // events of a kind that counts, without its times
};

/// Reads chrome traces of torch.profiler, plain or gz, one a rank or all in one, and databases of
/// nsys export (nsys_trace.hpp), told apart by their first bytes. Events are read one by one:
/// memory grows with the kernels, not with the file. Refused: what holds no "traceEvents", an event
/// that is no JSON, a file without any work of a GPU.
Expected<KernelTrace> read_traces(const std::vector<std::string>& paths);

/// Which kind of work a kernel's name tells: "gemm", "moe", "attention", "all_reduce", ...,
/// "other".
std::string_view kernel_family(std::string_view name);

/// Launches of one kernel, or of one family.
struct KernelTimes {
  std::string family, name;
  std::size_t launches = 0;
  double total_us = 0, median_us = 0, p10_us = 0, p90_us = 0;
};

/// The time of one GPU in which it did nothing, by what it waited for.
struct IdleTime {
  double host_us = 0;     // its next launch had not been issued yet
  double graph_us = 0;    // between two kernels of one graph
  double queued_us = 0;   // issued, and waiting: for another stream, or for the launch to arrive
  double unknown_us = 0;  // the trace does not hold the call
};

struct TracedGpu {
  double span_us = 0;  // first start to last end
  double busy_us = 0;  // something ran; overlapping work counts once
  IdleTime idle;       // span = busy + the four
};

struct TraceSummary {
  std::vector<KernelTimes> families, kernels;  // most time first
  std::vector<TracedGpu> gpus;
};

/// Times by kernel and family over all GPUs, and where each GPU's time went.
TraceSummary summarise(const KernelTrace& trace);

std::string render_trace(const TraceSummary& summary);
std::string trace_to_json(const TraceSummary& summary);
/// One line a kernel: family, name, launches, times.
std::string trace_to_csv(const TraceSummary& summary);
