// Which attention graphs cuDNN has kernels for, by card, asked without any: the library plans for a
// GPU described in words, and compiles for it. The toolkit's stub stands in for the driver.

#include <catch2/catch.hpp>

#include "calibrate/cuda/attention/attention_graphs.hpp"

namespace {

struct Case {
  const char* name;
  AttentionGraph (*make)(const AttentionShape&);
  AttentionShape shape;
};
const Case cases[] = {
    {"prefill, 32 heads of 128 on 8", prefill_graph, {1, 32, 8, 512, 512, 128, 128}},
    {"prefill of MLA, 192 and 128", prefill_graph, {1, 8, 8, 512, 512, 192, 128}},
    {"decode, 32 heads of 128 on 8", decode_graph, {16, 32, 8, 1, 4096, 128, 128}},
    {"decode of MLA, 576 and 512", decode_graph, {16, 8, 1, 1, 4096, 576, 512}}};

}  // namespace

TEST_CASE("cuDNN offers engines for every attention graph on SM120, SM100 and SM90") {
  for (const auto& c : cases)
    for (const int capability : {120, 100, 90}) {
      INFO(c.name << " on " << capability);
      const auto support = c.make(c.shape).graph.support(device_json(capability), false);
      INFO(support.reason);
      CHECK(support.configurations > 0);
    }
}

TEST_CASE("the first engine compiles for SM120 until only the driver is missing") {
  for (const auto& c : {cases[1], cases[3]}) {
    const auto support = c.make(c.shape).graph.support(device_json(120), true);
    INFO(c.name << ": " << support.reason);
    CHECK(support.compiles);
  }
}

TEST_CASE("a graph that nothing runs has no engine") {
  // heads of 7 numbers: no tile is that narrow
  const auto support = decode_graph({1, 8, 8, 1, 64, 7, 7}).graph.support(device_json(120), false);
  CHECK(support.configurations == 0);
}
