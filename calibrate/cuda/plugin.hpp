#pragma once

#include <cstddef>

/// The seam between ceiling, which links no CUDA library, and its plug-ins, which do: plain data
/// and function pointers, so that either side may come from another compiler. A plug-in is
/// libceiling_NAME.so, looked up at run time.

/// Rises with every change below; ceiling loads plug-ins of its own number only.
inline constexpr int plugin_abi = 1;

/// What to measure: a point of the plan.
struct PluginPoint {
  const char* kernel_class;
  const char* kernel_source;  // which kernel answers: "cublaslt"
  const char* const* words;   // id, value, id, value, ..., null
  const double* x;            // in the order of the class's axes
  std::size_t axes;
  double pool_bytes;  // of the copies of weights or KV that launches rotate over
  int launches;       // in one sample
};

struct PluginSample {
  double us;            // per launch
  double sm_clock_mhz;  // right after it
  int throttled, stolen;
};

/// How far a plug-in came with a point.
enum PluginState { plugin_ok, plugin_unverified, plugin_unsupported, plugin_failed };

/// A text that a call hands back, cut to its room, always ended.
struct PluginText {
  char* data;
  std::size_t room;
};

/// Every call returns a PluginState (as an int) or a count; `why` says what went wrong. One thread.
struct PluginApi {
  int abi;
  const char* name;
  /// Takes the GPU with this index. plugin_unsupported: there is none.
  int (*open)(int device, PluginText why);
  /// Versions of the libraries, and the GPU's name and clocks: "id=value" lines.
  int (*facts)(PluginText out);
  /// 1 when some kernel of this plug-in answers for the class and source.
  int (*offers)(const char* kernel_class, const char* kernel_source);
  /// Joins the ranks of a collective, one process each; null where a plug-in knows none. Rank 0
  /// makes the id, which is text.
  int (*make_id)(PluginText id, PluginText why);
  int (*join)(const char* id, int rank, int ranks, PluginText why);
  /// Makes the buffers and compares the kernel with its CPU reference. Ends the point before.
  int (*prepare)(const PluginPoint* point, PluginText why);
  /// Up to `count` samples of the point last prepared; negative when one failed.
  int (*measure)(PluginSample* samples, int count, PluginText why);
  void (*close)();
};

extern "C" {
/// The one symbol of a plug-in.
typedef const PluginApi* (*PluginEntry)();
}
inline constexpr const char* plugin_entry = "ceiling_plugin";
