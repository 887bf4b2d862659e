// python -m sglang.bench_serving (v0.5.9), dataset random: lengths and arrivals from NumPy's global
// legacy generator, bit for bit. Inputs are drawn first for all prompts, then outputs, uniform in
// [max(int(L r), 1), L]; then, after each request is sent, one exponential pause. So the default
// "256/256" means 143 tokens in and 110 out on average for 64 prompts and seed 1.
// Leaves out: other datasets, LoRA, tokens that a tokenizer adds, the GET that ends the clock.

#include <algorithm>

#include <fmt/format.h>

#include "sim/base/random.hpp"
#include "sim/workload/workload.hpp"

namespace {

constexpr double longest_s = 864'000;  // the clock runs 26 days

WorkloadPlan plan(Section& s) {
  const auto count = positive<int>();
  s.word("dataset", {"random"}, "random");
  const int input = s.required<int>("input_tokens", count);
  const int output = s.required<int>("output_tokens", count);
  const double ratio = s.optional<double>("range_ratio", 0.0, between(0.0, 1.0));
  const int n = s.required<int>("requests", between(1, 10'000'000));
  const auto rate = s.required<PerSecond>("request_rate", positive<PerSecond>());
  const int seed = s.optional<int>("seed", 1, at_least(0));
  WorkloadPlan out;
  out.max_concurrency = s.maybe<int>("max_concurrency", count);
  const int warm_up = s.optional<int>("warmup_requests", 1, between(0, 10'000));
  out.expert_skew = s.optional<double>("expert_skew", 0.85, between(0.0, 5.0));
  out.pause_after_warm_up = Duration::from_seconds(warm_up > 0 ? 1 : 0);
  if (!s.reading().errors.empty()) return out;

  struct Lengths {
    std::vector<std::int32_t> input, output;
    NumpyLegacyRandom random;  // goes on with the arrivals
  };
  auto drawn = std::make_shared<Lengths>(
      Lengths{{}, {}, NumpyLegacyRandom(static_cast<std::uint32_t>(seed))});
  const auto draw = [&](std::vector<std::int32_t>& lengths, int length) {
    const auto low = std::max<std::int64_t>(static_cast<std::int64_t>(length * ratio), 1);
    lengths.resize(static_cast<std::size_t>(n));
    for (auto& l : lengths)
      l = static_cast<std::int32_t>(drawn->random.randint(low, std::int64_t{length} + 1));
  };
  draw(drawn->input, input);
  draw(drawn->output, output);

  class Source final : public RequestSource {
   public:
    Source(std::shared_ptr<const Lengths> lengths, double per_second)
        : lengths_(std::move(lengths)), random_(lengths_->random), per_second_(per_second) {}
    bool next(PlannedRequest& r) override {
      if (index_ == lengths_->input.size()) return false;
      r = {};
      r.input = lengths_->input[index_];
      r.output = lengths_->output[index_++];
      if (per_second_ > 1e300) return true;
      // Whole nanoseconds: the logarithm may differ in its last bit between machines.
      r.send_at = Duration::picoseconds(Duration::from_seconds(at_).ps() / 1000 * 1000);
      at_ = std::min(at_ + random_.exponential(1 / per_second_), 2 * longest_s);
      return true;
    }

   private:
    std::shared_ptr<const Lengths> lengths_;
    NumpyLegacyRandom random_;
    double per_second_, at_ = 0;
    std::size_t index_ = 0;
  };
  out.set(
      [drawn, per_second = rate.count()] { return std::make_unique<Source>(drawn, per_second); });
  if (out.last_send.seconds() > longest_s) {
    s.error("request_rate",
            fmt::format("at {:g}/s the requests come for longer than {:g} days", rate.count(),
                        longest_s / 86400),
            "choose a higher rate or fewer requests");
    return out;
  }
  PlannedRequest first;
  first.input = drawn->input[0];
  first.output = std::min(drawn->output[0], 32);
  for (int i = 0; i < warm_up; ++i) out.warm_up.push_back(first);
  const std::string when =
      rate.count() > 1e300 ? "all at once" : fmt::format("at {:g}/s", rate.count());
  out.description = fmt::format(
      "{} requests {}: {} tokens in, {} out (random {}/{} with range ratio {:g} means {} in, {} "
      "out)",
      grouped(n), when, grouped(out.input_tokens), grouped(out.output_tokens), input, output, ratio,
      (out.input_tokens + n / 2) / n, (out.output_tokens + n / 2) / n);
  return out;
}

const Registered<WorkloadKind> me("bench_serving", {"sglang.bench_serving, dataset random", plan});

}  // namespace
