// The sizes of an SGLang 0.5.9 server on RTX PRO 6000 cards, against its own arithmetic.

#include <memory>

#include <catch2/catch.hpp>

#include "sim/scenario/experiment.hpp"
#include "tests/support/process.hpp"

namespace {

Expected<std::unique_ptr<Experiment>> home(const std::vector<Override>& changes) {
  const auto file = process::source_root() / "scenarios/seed/32-at-8.yaml";
  const auto scenarios = load_scenarios(file.string(), changes);
  if (!scenarios) return tl::unexpected(scenarios.error());
  const auto inputs = resolve(scenarios->front());
  if (!inputs) return tl::unexpected(inputs.error());
  return Experiment::make(*inputs);
}

EngineSizes sizes(const std::vector<Override>& changes) {
  const auto e = home(changes);
  if (!e) FAIL(e.error().render());
  return (*e)->sizes();
}

std::string errors(const std::vector<Override>& changes) {
  const auto e = home(changes);
  return e ? "" : e.error().render();
}

}  // namespace

TEST_CASE("SGLang's defaults on eight RTX PRO 6000 cards are those of its source") {
  const auto s = sizes({{"engine.cuda_graph", "on"}});
  // 97,887 MiB; reserved 512 + 1.5 x 8192 + 2 x 512 + 1024 x 8 / 8 = 14,848 MiB:
  // (97,887 - 14,848) / 97,887 = 0.848
  CHECK(s.mem_fraction_static == Approx(0.848).margin(1e-9));
  CHECK(s.chunked_prefill_size == 8192);
  CHECK(s.page_size == 64);
  CHECK(s.max_running_requests == 2048);
  CHECK(s.loop_depth == 2);
  // 1, 2, 4, 8, 12 (5); 16..256 by 8 (31); 272..496 by 16 (15); 512 (1)
  CHECK(s.graph_sizes.size() == 52);
  CHECK(s.graph_sizes.front() == 1);
  CHECK(s.graph_sizes.back() == 512);
}

TEST_CASE("graphs off captures nothing but is charged for all the same") {
  const auto s = sizes({{"engine.cuda_graph", "off"}});
  CHECK(s.graph_sizes.empty());
  CHECK(s.mem_fraction_static == Approx(0.848).margin(1e-9));
  CHECK(s.captured_size(1) == 0);
}

TEST_CASE("the KV pool is whole pages and has the size of facts: 266 k tokens bf16, 480 k fp8") {
  const auto bf16 = sizes({});
  CHECK(bf16.kv_tokens.real() == Approx(266'000).epsilon(0.03));
  const auto fp8 = sizes({{"engine.kv_cache_dtype", "fp8"}});
  CHECK(fp8.kv_tokens.real() == Approx(480'000).epsilon(0.03));
  for (const auto& s : {bf16, fp8}) CHECK(s.kv_tokens.count() % s.page_size == 0);
  // 78 layers x (2 x 576 + 132) = 100,152 bytes a token, and 78 x (576 + 132) = 55,224
  CHECK(bf16.kv_bytes.count() == bf16.kv_tokens.count() * 100'152);
  CHECK(fp8.kv_bytes.count() == fp8.kv_tokens.count() * 55'224);
}

TEST_CASE("a batch is padded to the next captured size, above the largest it runs eagerly") {
  const auto s = sizes({{"engine.cuda_graph", "on"}});
  for (const auto& [batch, padded] : std::vector<std::pair<int, int>>{{1, 1},
                                                                      {3, 4},
                                                                      {5, 8},
                                                                      {9, 12},
                                                                      {13, 16},
                                                                      {17, 24},
                                                                      {64, 64},
                                                                      {65, 72},
                                                                      {256, 256},
                                                                      {257, 272},
                                                                      {497, 512},
                                                                      {512, 512},
                                                                      {513, 0}})
    CHECK(s.captured_size(batch) == padded);
  int before = 0;
  for (int batch = 1; batch <= 512; ++batch) {
    const int size = s.captured_size(batch);
    CHECK(size >= batch);
    CHECK(size >= before);
    before = size;
  }
}

TEST_CASE("without padding every batch up to the largest has a graph of its own") {
  const auto s = sizes({{"engine.cuda_graph", "on"},
                        {"engine.disable_cuda_graph_padding", "on"},
                        {"engine.cuda_graph_max_bs", "20"}});
  CHECK(s.graph_sizes.size() == 20);
  for (int batch = 1; batch <= 20; ++batch) CHECK(s.captured_size(batch) == batch);
}

TEST_CASE("no graph is larger than the number of requests that may run") {
  const auto s = sizes({{"engine.cuda_graph", "on"}, {"engine.max_running_requests", "30"}});
  // 1, 2, 4, 8, 12, 16, 24, and the pool of slots itself
  CHECK(s.graph_sizes == std::vector<int>{1, 2, 4, 8, 12, 16, 24, 30});
}

TEST_CASE("the overlap loop is two passes deep unless it is switched off") {
  CHECK(sizes({}).loop_depth == 2);
  CHECK(sizes({{"engine.disable_overlap_schedule", "on"}}).loop_depth == 1);
}

TEST_CASE("a larger memory fraction and smaller KV never shrink the pool") {
  std::int64_t before = 0;
  for (const char* fraction : {"0.75", "0.8", "0.848", "0.9", "0.95"}) {
    const auto tokens = sizes({{"engine.mem_fraction_static", fraction}}).kv_tokens.count();
    CHECK(tokens > before);
    before = tokens;
  }
}

TEST_CASE("a model that does not fit is refused with the sum that shows it") {
  const auto text = errors({{"engine.tensor_parallel", "4"}});
  CHECK(text.find("does not fit on 4x") != std::string::npos);
  CHECK(text.find("memory") != std::string::npos);
  // TP4 weights: 105.6 GiB and 0.3 GB of copies, on cards of 97,887 MiB = 95.6 GiB
  CHECK(text.find("95.6 GiB") != std::string::npos);
  CHECK(text.find("weights (") != std::string::npos);
  CHECK(text.find("left for the KV cache") != std::string::npos);
  CHECK(text.find("tensor_parallel: 8") != std::string::npos);
}

TEST_CASE("a chunk that is not a whole number of pages is refused, as SGLang does") {
  CHECK(errors({{"engine.chunked_prefill_size", "32"}}).find("page") != std::string::npos);
  CHECK(errors({{"engine.chunked_prefill_size", "8200"}}).find("page") != std::string::npos);
  CHECK(errors({{"engine.chunked_prefill_size", "-1"}}).empty());
  CHECK(errors({{"engine.chunked_prefill_size", "64"}}).empty());
}
