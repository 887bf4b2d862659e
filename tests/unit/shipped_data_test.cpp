#include <array>
#include <filesystem>

#include <catch2/catch.hpp>

#include "sim/scenario/build_file.hpp"
#include "sim/step/build.hpp"
#include "tests/support/experiment.hpp"
#include "tests/support/hardware.hpp"

namespace {

std::string stem(const std::string& path) { return std::filesystem::path(path).stem().string(); }

/// Calls `visit(path, map, map around it)` for every map in a tree.
template <class Visit>
void maps(const Settings& node, const std::string& path, const Settings* around, Visit&& visit) {
  if (node.is_map()) visit(path, node, around);
  for (const auto& entry : node.entries()) maps(entry.value, path + "." + entry.key, &node, visit);
  for (std::size_t i = 0; i < node.items().size(); ++i)
    maps(node.items()[i], path + "." + std::to_string(i), around, visit);
}

std::string load(const std::string& file) {
  const auto settings = load_yaml(file, {});
  return settings ? "" : settings.error().render();
}

std::vector<std::string> data_files() {
  auto out = repo_files("hardware", ".yaml");
  for (const auto& file : repo_files("models/zoo", ".yaml")) out.push_back(file);
  return out;
}

}  // namespace

TEST_CASE("every data file that is shipped parses") {
  REQUIRE(data_files().size() >= 5);
  for (const auto& file : data_files()) CHECK(load(file) == "");
}

TEST_CASE("every GPU, machine and model that is shipped reads without an error") {
  for (const auto& file : repo_files("hardware/gpus", ".yaml")) {
    Reading reading;
    const auto settings = load_yaml(file, {});
    REQUIRE(settings);
    const GpuSpec gpu = read_gpu(stem(file), *settings, reading);
    CHECK(reading.errors.render() == "");
    CHECK(gpu.memory > gpu.l2);
    CHECK(gpu.fp8 >= gpu.bf16);
  }
  for (const auto& file : repo_files("hardware/machines", ".yaml")) {
    Reading reading;
    const auto loaded = load_machine_file(file, {});
    REQUIRE(loaded);
    const Machine machine = read_machine(stem(file), loaded->settings, reading);
    CHECK(reading.errors.render() == "");
    CHECK(machine.gpu_count() >= 1);
    // The card it names is shipped too.
    CHECK(std::filesystem::is_regular_file(repo_root() / "hardware/gpus" /
                                           (machine.gpu_id + ".yaml")));
  }
  for (const auto& file : repo_files("models/zoo", ".yaml")) {
    Reading reading;
    const auto settings = load_yaml(file, {});
    REQUIRE(settings);
    const ModelSpec model = read_model(stem(file), *settings, reading);
    CHECK(reading.errors.render() == "");
    CHECK(count_parameters(model).active <= count_parameters(model).total);
  }
}

TEST_CASE("every build that is shipped finds a law for each of its back ends") {
  REQUIRE_FALSE(repo_files("hardware/builds", ".yaml").empty());
  for (const auto& file : repo_files("hardware/builds", ".yaml")) {
    Reading reading;
    const auto loaded = load_build(file, {});
    REQUIRE(loaded);
    const Build build = read_build(stem(file), loaded->settings, reading);
    CHECK(reading.errors.render() == "");
    const CostModels costs = load_costs(build.tables, stem(file));
    const BackEnds& b = build.back_ends;
    const std::pair<const std::string&, bool> classes[] = {
        {b.gemm, costs.gemm != nullptr},
        {b.batched_gemm, costs.batched_gemm != nullptr},
        {b.moe, costs.moe != nullptr},
        {b.mla_decode, costs.mla_decode != nullptr},
        {b.mla_prefill, costs.mla_prefill != nullptr},
        {b.indexer, costs.indexer != nullptr},
        {b.attention_decode, costs.attention_decode != nullptr},
        {b.attention_prefill, costs.attention_prefill != nullptr},
        {b.attention_mixed, costs.attention_mixed != nullptr},
        {b.elementwise, costs.elementwise != nullptr}};
    std::size_t named = 0;
    INFO(file);
    for (const auto& [back_end, found] : classes) {
      CHECK(found == !back_end.empty());
      named += !back_end.empty();
    }
    CHECK(named >= 4);  // no model needs fewer
    CHECK(costs.sources.size() == named);
  }
}

TEST_CASE("every number that states a value states its basis and its source") {
  int seen = 0;
  for (const auto& file : data_files())
    maps(*load_yaml(file, {}), stem(file), nullptr,
         [&](const std::string& path, const Settings& map, const Settings* around) {
           if (!map.find("value")) return;
           ++seen;
           INFO(path);
           Provenance basis{};
           const Settings* word = map.find("basis");
           REQUIRE(word);
           CHECK(parse_provenance(word->text(), basis));
           // Its own source, or that of the section it stands in.
           const Settings* source = map.find("source");
           if (!source && around) source = around->find("source");
           REQUIRE(source);
           CHECK_FALSE(source->text().empty());
           // What is assumed or fitted is not exact: it says so by a spread or by its words.
           if (map.find("fitted_on")) CHECK(map.find("spread"));
         });
  CHECK(seen > 10);
}

TEST_CASE(
    "every constant that was fitted on runs names scenarios that exist and carry a measurement") {
  int seen = 0;
  for (const auto& file : data_files())
    maps(*load_yaml(file, {}), stem(file), nullptr,
         [&](const std::string& path, const Settings& map, const Settings*) {
           const Settings* runs = map.find("fitted_on");
           if (!runs) return;
           INFO(path);
           REQUIRE(runs->is_sequence());
           REQUIRE_FALSE(runs->items().empty());
           for (const auto& run : runs->items()) {
             // "seed 32-at-8" is scenarios/seed/32-at-8.yaml
             std::string name = run.text();
             const auto space = name.find(' ');
             REQUIRE(space != std::string::npos);
             name[space] = '/';
             const auto scenario = repo_root() / "scenarios" / (name + ".yaml");
             INFO(scenario.string());
             REQUIRE(std::filesystem::is_regular_file(scenario));
             CHECK(load_yaml(scenario.string(), {})->at("expect.output_throughput"));
             ++seen;
           }
         });
  CHECK(seen >= 2);
}

TEST_CASE(
    "every law names the card it was fitted on, and every law file lies in that card's folder") {
  for (const auto& file : repo_files("hardware/tables", ".yaml")) {
    const auto folder = std::filesystem::path(file).parent_path().filename().string();
    const auto settings = load_yaml(file, {});
    REQUIRE(settings);
    REQUIRE(settings->find("gpu"));
    CHECK(settings->find("gpu")->text() == folder);
  }
}

TEST_CASE("the home machine is the one that was measured") {
  const Machine m = load_machine("8x-rtx-pro-6000-kvm");
  CHECK(m.gpu_count() == 8);
  CHECK(m.guest);
  CHECK_FALSE(m.interconnect.p2p_capable);
  const CollectivePricer pricer(m.topology, m.interconnect, 8,
                                load_gpu(m.gpu_id).compute_capability);
  CHECK(pricer.transport() == Transport::shm);
  CHECK(pricer.view().bus_gbps == 24);
  CHECK(pricer.view().channels == 2);
  // Small all-reduces reach about 1 GB/s: 96 KiB at 0.6 to 1 GB/s take 98 to 164 us.
  const double us = pricer.price(Collective::all_reduce, 96_KiB).time.us();
  CHECK(us > 98);
  CHECK(us < 164);
}

TEST_CASE("machine edits are known by name and change what they say") {
  Machine m = load_machine("8x-rtx-pro-6000-kvm");
  Reading reading;
  apply_machine_edits(m, yaml("p2p: on\nnccl_min_nchannels: 8\n"), reading);
  CHECK(reading.errors.empty());
  CHECK(m.interconnect.p2p_capable);
  CHECK(m.interconnect.nccl.min_nchannels == 8);
  apply_machine_edits(m, yaml("p2p: off\n"), reading);
  CHECK_FALSE(m.interconnect.p2p_capable);
  CHECK(reading.errors.empty());
  apply_machine_edits(m, yaml("p3p: on\n"), reading);
  REQUIRE(reading.errors.size() == 1);
  CHECK(reading.errors.list()[0].message == "unknown machine edit 'p3p'");
  CHECK(reading.errors.list()[0].hint == "did you mean 'p2p'?");
}

TEST_CASE("a machine without peer access needs a memory to stage through") {
  Reading reading;
  const Settings file = yaml(
      "schema: 1\nname: x\ngpu: y\np2p: off\nreserved: 1 GiB\n"
      "host: {kernel_launch: 4 us, graph_launch: 10 us, graph_launch_per_node: 1 us,\n"
      "  virtualisation: 1, request_path: 5 ms, response_path: 3 ms}\n"
      "topology:\n  devices: {a: gpu, b: gpu, r: root_complex}\n"
      "  links:\n    - {between: [a, r], bandwidth: 50 GB/s}\n    - {between: [b, r], bandwidth: "
      "50 GB/s}\n");
  read_machine("x", file, reading);
  REQUIRE(reading.errors.size() == 1);
  CHECK(reading.errors.list()[0].message ==
        "without P2P the GPUs need a host_memory to stage through");
}

TEST_CASE("a version chooses the build, and whether vLLM waits for results") {
  const auto chosen = [](const std::string& engine, const std::string& machine = "1x-h100") {
    const auto e = make_experiment(
        "schema: 1\nmachine: " + machine + "\nmodel: llama-3.1-8b\nengine: {" + engine +
        "}\nworkload: {kind: closed_loop, concurrency: 1, input_tokens: 9, output_tokens: 9}\n");
    return std::pair{e->build().id, e->sizes().loop_depth};
  };
  using Chosen = std::pair<std::string, int>;
  // without a version the first that is no variation of another
  CHECK(chosen("kind: vllm") == Chosen{"vllm-0.23-sm90", 2});
  CHECK(chosen("kind: sglang") == Chosen{"sglang-0.5.14-sm90", 2});
  CHECK(chosen("kind: vllm, version: 0.12.0") == Chosen{"vllm-0.12-sm90", 1});
  CHECK(chosen("kind: vllm, version: 0.11.0") == Chosen{"vllm-0.12-sm90", 1});
  CHECK(chosen("kind: vllm, version: 0.15.1") == Chosen{"vllm-0.12-sm90", 2});
  CHECK(chosen("kind: vllm, version: 0.24.0") == Chosen{"vllm-0.24-sm90", 2});
  CHECK(chosen("kind: vllm, version: 0.12.0, async_scheduling: on").second == 2);
  CHECK(chosen("kind: vllm, async_scheduling: off").second == 1);
  CHECK(chosen("kind: sglang, version: 0.5.2").first == "sglang-0.5.1-sm90");
  // of a card that was measured itself, builds whose kernels have laws there; else variations too
  for (const auto& [card, vllm, sglang] :
       {std::array<std::string, 3>{"1x-a100", "vllm-0.14-sm80", "sglang-0.5.10-sm80"},
        {"1x-l40s", "vllm-0.24-sm89", "sglang-0.5.14-sm89"},
        {"1x-h200", "vllm-0.23-sm90", "sglang-0.5.14-sm90"},
        {"1x-b200", "vllm-0.24-sm100", "sglang-0.5.14-sm100"}}) {
    CHECK(chosen("kind: vllm", card).first == vllm);
    CHECK(chosen("kind: sglang", card).first == sglang);
  }
  const std::string fits = "kind: vllm, num_gpu_blocks_override: 2588, max_model_len: 16384";
  CHECK(chosen(fits, "1x-rtx-4090").first == "vllm-0.19-sm89");
  CHECK(chosen(fits + ", version: 0.24.0", "1x-rtx-4090").first == "vllm-0.19-sm89");
}
