#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/base/diagnostics.hpp"

/// What the command that starts a server says to a scenario, flag by flag.
struct LaunchBlock {
  /// A value for the scenario, and what was written for it.
  struct Value {
    std::string key, value, from;
  };
  /// A flag or variable that became no value, and why.
  struct Remark {
    std::string from, why;
  };
  std::string kind;                  // sglang, vllm
  std::string version;               // of the container image, where one is named
  std::string model_path;            // as written; empty when the command names none
  std::string model;                 // the file in models/zoo that it is; empty when there is none
  std::vector<Value> engine, edits;  // keys of `engine:` and of `machine_edits:`
  std::vector<Remark> no_effect;     // does not move timing
  std::vector<Remark> by_build;      // which kernels run: `engine.build` decides it
  std::vector<Remark> lacking;       // moves timing, and the prediction does without it
};

/// Reads the shell text that starts a server of SGLang or vLLM: `python -m sglang.launch_server`,
/// `sglang serve`, `vllm serve MODEL`, `python -m vllm.entrypoints.openai.api_server`, or the image
/// vllm/vllm-openai, with whatever stands before (assignments, `export`, `docker run -e`, numactl),
/// quotes, continued lines, comments, redirections, and variables that the text itself sets.
/// `zoo`: the models to recognise the path by. Unknown flags, missing or impossible values and text
/// without exactly one server are errors with their place. `name` stands for the text in messages.
Expected<LaunchBlock> read_launch_command(std::string_view text, const std::string& name,
                                          const std::vector<std::string>& zoo);

/// The block as part of a scenario file, with what became of every flag in comments. Values of
/// flags without effect are not repeated: keys and tokens are among them.
std::string launch_yaml(const LaunchBlock& block);
std::string launch_json(const LaunchBlock& block);
