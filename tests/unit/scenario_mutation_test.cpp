// Whatever is done to a scenario's text, reading it ends in an experiment or in diagnostics.

#include <algorithm>
#include <memory>
#include <random>

#include <catch2/catch.hpp>

#include "sim/scenario/experiment.hpp"
#include "sim/scenario/yaml.hpp"
#include "tests/fuzz/loaders.hpp"
#include "tests/support/process.hpp"

namespace {

using Random = std::mt19937;

std::size_t pick(Random& random, std::size_t n) { return random() % n; }

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const auto& line : lines) out += line + "\n";
  return out;
}

// One slip of a careless editor: a line or a character deleted, doubled, replaced or moved.
std::string mutated(const std::string& text, Random& random) {
  static const std::vector<std::string> tokens = {"0",    "-1",   "1e308", "99999999999999999999",
                                                  "nan",  "inf",  "~",     "[]",
                                                  "{}",   "[[",   "{a: ",  "- ",
                                                  ": ",   "\t",   "\"",    "'",
                                                  "&a",   "*a",   "!!x",   "|",
                                                  "on",   "/s",   "GB/s",  "#",
                                                  "%",    "é",    "\xff",  "...",
                                                  "---",  "x: y", "1 us",  "-3 s",
                                                  "<<: ", "\r\n", "0x10"};
  auto lines = process::lines(text);
  if (lines.empty()) lines.emplace_back();
  const std::size_t at = pick(random, lines.size()), other = pick(random, lines.size());
  std::string& line = lines[at];
  switch (pick(random, 9)) {
    case 0:
      lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 1:
      lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(other), std::string(line));
      break;
    case 2:
      std::swap(line, lines[other]);
      break;
    case 3:  // another value for a key
      if (const auto colon = line.find(": "); colon != std::string::npos)
        line = line.substr(0, colon + 2) + tokens[pick(random, tokens.size())];
      break;
    case 4:
      if (!line.empty()) line.erase(pick(random, line.size()), 1);
      break;
    case 5:
      line.insert(pick(random, line.size() + 1), tokens[pick(random, tokens.size())]);
      break;
    case 6:
      if (!line.empty()) line[pick(random, line.size())] = static_cast<char>(random() % 256);
      break;
    case 7:  // more or less indentation
      line = pick(random, 2) ? "  " + line : line.substr(std::min<std::size_t>(2, line.size()));
      break;
    default:  // the end is missing
      lines.resize(at);
  }
  return joined(lines);
}

}  // namespace

TEST_CASE("no slip in a scenario crashes the reader") {
  const process::TemporaryFolder folder;
  const auto original =
      process::read_text(process::source_root() / "scenarios/seed/32-at-8.yaml") +
      "machine_edits:\n  p2p: on\nconstants: { machine.host.kernel_launch: 3 us }\n"
      "points:\n  - { workload.requests: 16, expect: { duration_s: { value: 3 s } } }\n";
  REQUIRE(fuzz::read_scenario(folder.write("original.yaml", original)));
  int good = 0, bad = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    Random random(seed);
    std::string text = original;
    for (auto slips = 1 + pick(random, 2); slips > 0; --slips) text = mutated(text, random);
    INFO("seed " << seed << "\n" << text);
    const bool fine = fuzz::read_scenario(folder.write("mutated.yaml", text));
    ++(fine ? good : bad);
  }
  // Both ends are reached, so the mutations neither miss nor only destroy.
  CHECK(good > 10);
  CHECK(bad > 100);
}

TEST_CASE("no slip in a data file crashes the reader") {
  const process::TemporaryFolder folder;
  const auto root = process::source_root();
  const auto scenario = process::read_text(root / "scenarios/seed/32-at-8.yaml");
  struct Data {
    const char *key, *value, *path;
  };
  int bad = 0;
  for (const Data& data :
       {Data{"machine", "8x-rtx-pro-6000-kvm", "hardware/machines/8x-rtx-pro-6000-kvm.yaml"},
        Data{"model", "glm-5-nvfp4", "models/zoo/glm-5-nvfp4.yaml"},
        Data{"build", "sglang-0.5.9-sm120", "hardware/builds/sglang-0.5.9-sm120.yaml"}}) {
    const auto original = process::read_text(root / data.path);
    std::string text = scenario;
    const std::string line = std::string(data.key) + ": " + data.value;
    const auto at = text.find(line);
    REQUIRE(at != std::string::npos);
    text.replace(at, line.size(), std::string(data.key) + ": ./mutated.yaml");
    const auto file = folder.write("scenario.yaml", text);
    folder.write("mutated.yaml", original);
    REQUIRE(fuzz::read_scenario(file));
    for (unsigned seed = 0; seed < 100; ++seed) {
      Random random(seed);
      INFO(data.path << ", seed " << seed);
      folder.write("mutated.yaml", mutated(mutated(original, random), random));
      bad += !fuzz::read_scenario(file);
    }
  }
  CHECK(bad > 100);
}

TEST_CASE("hostile values are refused or run, they do not abort") {
  const auto file = (process::source_root() / "scenarios/seed/32-at-8.yaml").string();
  for (const auto& [path, value] : std::vector<std::pair<std::string, std::string>>{
           {"workload.request_rate", "1e-9 /s"},
           {"workload.request_rate", "1e-300 /s"},
           {"workload.request_rate", "nan /s"},
           {"workload.requests", "0"},
           {"workload.requests", "1e18"},
           {"workload.input_tokens", "2147483647"},
           {"workload.expert_skew", "-1"},
           {"engine.tensor_parallel", "0"},
           {"engine.tensor_parallel", "2147483647"},
           {"engine.page_size", "0"},
           {"engine.page_size", "2147483647"},
           {"engine.chunked_prefill_size", "1"},
           {"engine.mem_fraction_static", "1e-300"},
           {"engine.context_length", "1"},
           {"engine.kv_cache_dtype", "nvfp4"},
           {"engine.cuda_graph_max_bs", "1"},
           {"engine", "[]"},
           {"machine_edits", "[1]"},
           {"constants", "{machine: 1}"},
           {"constants", "{machine.staging.capacity: 0 GB/s}"},
           {"constants", "{machine.topology.links.9.bandwidth: 1 GB/s}"},
           {"constants", "{machine.host.virtualisation: 1e30}"},
           {"constants", "{machine.reserved: 1000 GiB}"},
           {"constants", "{gpu.memory: 1 MiB}"},
           {"constants", "{gpu.sm_count: 2147483647}"},
           {"constants", "{model.layers: 0}"},
           {"constants", "{model.layers: 2147483647}"},
           {"constants", "{model.moe.experts: 2147483647}"},
           {"constants", "{model.moe.experts_per_token: 512}"},
           {"constants", "{model.attention.heads: -8}"},
           {"constants", "{machine.host.request_path: 1000000 s}"},
           {"constants", "{machine.staging.capacity: 1 B/s}"},
           {"constants", "{gpu.memory_bandwidth: 1 B/s}"},
           {"constants", "{laws.gemm.cutlass.scale: 1e300}"},
           {"constants", "{laws.moe.flashinfer_cutlass.bandwidth: 1e-300 TB/s}"},
           {"constants", "{build.host.dispatch: 1000 s}"},
           {"engine",
            "{kind: sglang, tensor_parallel: 8, cuda_graph: on, mem_fraction_static: 0.9, "
            "cuda_graph_max_bs: 2000000000, disable_cuda_graph_padding: on}"}}) {
    INFO(path << "=" << value);
    const auto scenarios = load_scenarios(file, {{"workload.requests", "4"}, {path, value}});
    if (!scenarios) {
      CHECK_FALSE(scenarios.error().empty());
      continue;
    }
    const auto inputs = resolve(scenarios->front());
    if (!inputs) {
      CHECK_FALSE(inputs.error().empty());
      continue;
    }
    const auto made = Experiment::make(*inputs);
    if (!made) {
      CHECK_FALSE(made.error().empty());
      continue;
    }
    const auto m = (*made)->run();
    CHECK(m.completed + m.rejected == static_cast<std::int64_t>((*made)->workload().requests));
  }
}
