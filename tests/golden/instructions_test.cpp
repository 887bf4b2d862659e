// Instructions a request: what a change of the clock costs, whatever else the machine does.
// Callgrind counts this very program twice, at two lengths of a run; the difference is the requests
// alone.

#include <catch2/catch.hpp>

#include <cstdlib>
#include <regex>

#include "sim/scenario/experiment.hpp"
#include "tests/support/process.hpp"

namespace {

constexpr int short_run = 4'000, long_run = 12'000;

std::int64_t instructions(const std::string& engine, int requests) {
  const process::TemporaryFolder folder;
  const auto log = folder.path() / "log";
  const auto self = process::fs::read_symlink("/proc/self/exe").string();
  const auto command = "CEILING_COUNT_ENGINE=" + process::quoted(engine) +
                       " CEILING_COUNT_REQUESTS=" + std::to_string(requests) +
                       " valgrind --tool=callgrind --callgrind-out-file=/dev/null " +
                       process::quoted(self) + " '[.counted]' >" + process::quoted(log.string()) +
                       " 2>&1";
  const int status = std::system(command.c_str());
  const auto text = process::read_text(log);
  INFO(text);
  REQUIRE(status == 0);
  std::smatch found;
  REQUIRE(std::regex_search(text, found, std::regex("Collected : ([0-9]+)")));
  return std::stoll(found[1]);
}

}  // namespace

TEST_CASE("a run whose instructions are counted", "[.counted]") {
  const char* engine = std::getenv("CEILING_COUNT_ENGINE");
  const char* requests = std::getenv("CEILING_COUNT_REQUESTS");
  REQUIRE((engine && requests));
  const auto loaded = load_scenarios((process::source_root() / "scenarios/workloads/dense-8b.yaml"),
                                     {{"workload.num_prompts", requests},
                                      {"workload.random_output_len", "256"},
                                      {"workload.request_rate", "25 /s"},
                                      {"engine", engine}});
  REQUIRE(loaded);
  const auto inputs = resolve(loaded->front());
  REQUIRE(inputs);
  const auto experiment = Experiment::make(*inputs);
  REQUIRE(experiment);
  CHECK((*experiment)->run().completed == std::atoll(requests));
}

// The goal is 5,000 (docs/performance.md). These bounds are what stands today and a tenth more:
// they tell who makes it worse. A million requests take fewer each: there the gaps fall into
// buckets, here they are sorted.
TEST_CASE("instructions a request do not grow") {
#if !defined(NDEBUG) || defined(__clang__) || __GNUC__ != 12
  WARN("skipped: the bounds are those of a Release build with g++ 12");
  return;
#endif
  if (std::system("valgrind --version >/dev/null 2>&1") != 0) {
    WARN("skipped: valgrind is not here");
    return;
  }
  struct Row {
    std::string engine;
    double bound;
  };
  for (const auto& [engine, bound] : {Row{"{kind: vllm, enable_prefix_caching: off}", 10'600},
                                      Row{"{kind: sglang, disable_radix_cache: on}", 11'000}}) {
    CAPTURE(engine);
    const auto a_request =
        static_cast<double>(instructions(engine, long_run) - instructions(engine, short_run)) /
        (long_run - short_run);
    CAPTURE(a_request);
    CHECK(a_request > 1'000);  // the run was counted at all
    CHECK(a_request < bound);
  }
}
