#include "sim/step/build.hpp"

#include <catch2/catch.hpp>

#include "sim/scenario/build_file.hpp"
#include "tests/support/hardware.hpp"
#include "tests/support/process.hpp"

namespace {

const std::string whole =
    "schema: 1\nname: base\nsource: x\nengine: vllm\nversion: 1\narchitecture: sm120\n"
    "tables: rtx-pro-6000-server\nback_ends: {gemm: a, batched_gemm: b, moe: c, mla_decode: d,\n"
    "  mla_prefill: e, indexer: f, elementwise: g}\nsparse_attention: true\n"
    "graphs: {decode: true, side_streams: false}\n"
    "host: {dispatch: {value: 20 us, basis: fitted, spread: 1.3, fitted_on: [seed 32-at-8]},\n"
    "  per_step: 1 ms, per_sequence: 20 us}\n"
    "fitted: {small_kernels: 10 us, moe_rate: 1 TB/s}\n"
    "known_defects: [{where: {batch_min: 3}, what: slow, source: x}]\nnote: of the base\n";

Build read(const Settings& settings, Reading& reading) {
  return read_build("test", settings, reading);
}

std::string errors_of(const std::string& text) {
  Reading reading;
  const Settings settings = yaml(text);
  read(settings, reading);
  return reading.errors.render();
}

}  // namespace

TEST_CASE("a build takes what it leaves open from the one it is like, and says what") {
  const process::TemporaryFolder folder;
  folder.write("base.yaml", whole);
  folder.write("middle.yaml",
               "schema: 1\nname: middle\nsource: y\nlike: base.yaml\nsparse_attention: false\n"
               "host: {per_step: 2 ms}\n");
  const auto top = folder.write("top.yaml",
                                "schema: 1\nname: top\nsource: z\nlike: middle.yaml\n"
                                "back_ends: {moe: other}\nhost: {dispatch: {value: 5 us, basis: "
                                "assumed}}\n");
  const auto file = load_build(top, {});
  REQUIRE(file);
  Reading reading;
  const Build b = read(file->settings, reading);
  CHECK(reading.errors.render() == "");
  CHECK(b.name == "top");
  CHECK(b.engine == "vllm");
  CHECK(b.back_ends.moe == "other");
  CHECK(b.back_ends.gemm == "a");
  CHECK_FALSE(b.sparse_attention);                      // of the middle
  CHECK(b.step_host.value == Duration::from_us(2000));  // of the middle
  CHECK(b.sequence_host.value == Duration::from_us(20));
  // A constant stands as a whole: no spread or runs of another value.
  CHECK(b.dispatch.value == Duration::from_us(5));
  CHECK(b.dispatch.spread == 1);
  CHECK(b.dispatch.fitted_on.empty());
  // What was fitted or found on one build is no other's.
  CHECK_FALSE(b.small_kernels);
  CHECK(b.known_defects.empty());
  CHECK(b.note.empty());
  CHECK(file->files.size() == 3);
  REQUIRE(file->filled.size() == 2);
  CHECK(file->filled[0] ==
        std::pair<std::string, std::string>{"middle.yaml", "sparse_attention, rest of host"});
  CHECK(file->filled[1].second ==
        "engine, version, architecture, tables, rest of back_ends, graphs, rest of host");
}

TEST_CASE("builds that are like each other are refused") {
  const process::TemporaryFolder folder;
  folder.write("a.yaml", "schema: 1\nlike: b.yaml\n");
  folder.write("b.yaml", "schema: 1\nlike: a.yaml\n");
  const auto file = load_build((folder.path() / "a.yaml").string(), {});
  REQUIRE_FALSE(file);
  CHECK(file.error().list()[0].message == "build 'a.yaml' is like itself");
  const auto lost = folder.write("c.yaml", "schema: 1\nlike: d.yaml\n");
  REQUIRE_FALSE(load_build(lost, {}));
  const auto list = folder.write("e.yaml", "schema: 1\nlike: [a, b]\n");
  REQUIRE_FALSE(load_build(list, {}));
}

TEST_CASE("a build reads its all-reduce policy, its channels, its indexers and its two numbers") {
  Reading reading;
  const Settings settings =
      yaml(whole +
           "collectives: {nccl_channels: {value: 2, basis: assumed},\n"
           "  all_reduce: [{kernel: one_shot, up_to: 64 KiB}, {kernel: nccl, up_to: 1 MiB, "
           "channels: 4},\n"
           "  {kernel: dma_ring}]}\nindexer_layers: {glm: 21}\nmoe_activations: a16\n");
  const Build b = read(settings, reading);
  CHECK(reading.errors.render() == "");
  REQUIRE(b.all_reduce.size() == 3);
  CHECK(b.all_reduce[0].up_to == 64_KiB);
  CHECK(b.all_reduce[1].channels == 4);
  CHECK_FALSE(b.all_reduce[2].up_to);
  CHECK(b.nccl_channels->value == 2);
  CHECK(b.indexer_layers.at("glm") == 21);
  CHECK(b.bf16_activations);
  CHECK(b.small_kernels->value == Duration::from_us(10));
  CHECK(b.moe_rate->value.count() == 1e12);
}

TEST_CASE("a policy out of order, an unknown kernel and channels of no NCCL are refused") {
  const auto with = [](const std::string& list) {
    return errors_of(whole + "collectives: {all_reduce: " + list + "}\n");
  };
  CHECK(with("[{kernel: one_shot, up_to: 64 KiB}, {kernel: nccl, up_to: 4 KiB}]").find("ascend") !=
        std::string::npos);
  CHECK(with("[{kernel: nccl}, {kernel: one_shot, up_to: 4 KiB}]").find("ascend") !=
        std::string::npos);
  CHECK(with("[{kernel: oneshot}]").find("did you mean 'one_shot'?") != std::string::npos);
  CHECK(with("[{kernel: one_shot, channels: 2}]").find("only NCCL has channels") !=
        std::string::npos);
  CHECK(with("one_shot").find("must be a list") != std::string::npos);
  CHECK(errors_of(whole + "moe_activations: a8\n").find("'a8'") != std::string::npos);
}

TEST_CASE("a known defect knows its range") {
  KnownDefect d;
  d.prefill = false;
  d.batch_min = 16;
  CHECK(d.covers(false, true, 16, 100));
  CHECK_FALSE(d.covers(false, true, 15, 100));
  CHECK_FALSE(d.covers(true, true, 16, 100));
  CHECK(d.range() == "decode of 16 sequences and more");
  d.batch_max = 16;
  d.kv_max = 2048;
  d.bf16_activations = true;
  CHECK_FALSE(d.covers(false, false, 16, 100));
  CHECK_FALSE(d.covers(false, true, 16, 2049));
  CHECK(d.range() == "decode of 16 sequences at up to 2,048 KV tokens with A16");
  const std::string unknown =
      errors_of(whole.substr(0, whole.find("known_defects")) +
                "known_defects: [{where: {batch: 3}, what: slow, source: x}]\n");
  CHECK(unknown.find("unknown key 'batch'") != std::string::npos);
}
