// vllm bench serve, dataset random (vllm-project/vllm, vllm/benchmarks/serve.py @009e6d4 and
// datasets/random.py @237145e): lengths from np.random.default_rng(seed), inputs first for all
// prompts, then outputs, uniform in [floor(L (1 - r)), ceil(L (1 + r))], so that the default r = 0
// fixes them. Arrivals from NumPy's global legacy generator with the same seed: gamma intervals of
// shape `burstiness`, summed before the first request is sent (it waits too) and stretched so that
// the last is sent at N / rate; a ramp is not stretched. Warm-up requests are the first prompt.
// lengths is ours: a given list with the tool's arrivals.
// Leaves out: other datasets, what the tokenizer adds or merges, warm-up requests side by side,
// that connections are kept.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <tuple>

#include "sim/base/random.hpp"
#include "sim/workload/arrivals.hpp"
#include "sim/workload/given_lengths.hpp"

namespace {

struct Arrivals {
  std::int64_t requests = 0;
  double per_second = 0, burstiness = 1;
  std::string ramp;  // "", linear, exponential
  double ramp_start = 0, ramp_end = 0;
  std::uint32_t seed = 0;

  double rate(std::int64_t index) const {
    if (ramp.empty()) return per_second;
    const double progress =
        static_cast<double>(index) / static_cast<double>(std::max<std::int64_t>(requests - 1, 1));
    return ramp == "linear" ? ramp_start + (ramp_end - ramp_start) * progress
                            : ramp_start * std::pow(ramp_end / ramp_start, progress);
  }
  double interval(std::int64_t index, NumpyLegacyRandom& random) const {
    const double r = rate(index);
    if (std::isinf(r)) return 0;
    if (std::isinf(burstiness)) return 1.0 / r;
    return random.gamma(burstiness, 1.0 / (r * burstiness));
  }
  /// When each request is sent.
  std::vector<Duration> moments() const {
    NumpyLegacyRandom random(seed);
    std::vector<double> at(static_cast<std::size_t>(requests));
    double sum = 0;
    for (std::size_t i = 0; i < at.size(); ++i)
      at[i] = sum += interval(static_cast<std::int64_t>(i), random);
    // What brings the sum of all intervals to N / rate.
    const double stretch =
        ramp.empty() && sum > 0 ? static_cast<double>(requests) / per_second / sum : 1;
    std::vector<Duration> out(at.size());
    std::transform(at.begin(), at.end(), out.begin(),
                   [&](double t) { return whole_nanoseconds(t * stretch); });
    return out;
  }
};

struct Drawn {
  std::vector<std::int32_t> input, output;
  std::vector<Duration> send_at;
  std::int64_t prefix = 0;

  /// The others are unlike any: only the first may be sent again, as a warm-up.
  bool names_prompt(std::size_t i) const { return i == 0 || prefix > 0; }
  /// Streams: the shared prefix 0, then one for each prompt.
  Content prompt(std::size_t i) const {
    const auto own = static_cast<std::int64_t>(i) + 1;
    if (prefix == 0) return Content(own, input[i]);
    return prompt_of({{0, 0, prefix}, {own, 0, input[i] - prefix}});
  }
};

class VllmBench final : public RequestSource {
 public:
  explicit VllmBench(std::shared_ptr<const Drawn> drawn) : drawn_(std::move(drawn)) {}

  bool next(PlannedRequest& r) override {
    if (index_ == drawn_->input.size()) return false;
    r.input = drawn_->input[index_];
    r.output = drawn_->output[index_];
    r.send_at = drawn_->send_at[index_];
    if (drawn_->names_prompt(index_))
      r.prompt = drawn_->prompt(index_);
    else
      r.prompt.clear();
    ++index_;
    return true;
  }

 private:
  std::shared_ptr<const Drawn> drawn_;
  std::size_t index_ = 0;
};

// The range ratio of inputs and of outputs: one number, or {input: ..., output: ...}.
std::pair<double, double> range_ratio(Section& s) {
  const Check<double> share = [](const double& r) {
    return r >= 0 && r < 1 ? std::string() : "must lie between 0 and 1, 1 excluded";
  };
  const Settings* both = s.node().find("random_range_ratio");
  if (!both || !both->is_map()) {
    const double r = s.optional<double>("random_range_ratio", 0.0, share);
    return {r, r};
  }
  Section inner(*s.take("random_range_ratio"), s.path() + ".random_range_ratio", s.reading());
  return {inner.required<double>("input", share), inner.required<double>("output", share)};
}

// Dataset random: what is drawn, and the drawing.
struct RandomLengths {
  int input, output, prefix, requests;
  double input_ratio, output_ratio;

  explicit RandomLengths(Section& s) {
    const auto length = between(0, 100'000'000);
    input = s.optional<int>("random_input_len", 1024, length);
    output = s.optional<int>("random_output_len", 128, length);
    std::tie(input_ratio, output_ratio) = range_ratio(s);
    prefix = s.optional<int>("random_prefix_len", 0, length);
    requests = s.optional<int>("num_prompts", 1000, between(1, 10'000'000));
    if (prefix + low(input, input_ratio) < 1)
      s.error("random_input_len", "a prompt may come out empty",
              "choose a longer one, a prefix, or a smaller range ratio");
  }

  void draw(Drawn& drawn, std::uint64_t seed) const {
    NumpyGenerator random(seed);
    const auto lengths = [&](std::vector<std::int32_t>& out, std::int64_t least,
                             std::int64_t most) {
      out.resize(static_cast<std::size_t>(requests));
      for (auto& l : out) l = static_cast<std::int32_t>(random.integers(least, most + 1));
    };
    lengths(drawn.input, low(input, input_ratio), high(input, input_ratio));
    lengths(drawn.output, std::max<std::int64_t>(low(output, output_ratio), 1),
            std::max<std::int64_t>(high(output, output_ratio), 1));
    for (auto& l : drawn.input) l += prefix;
    drawn.prefix = prefix;
  }

 private:
  static std::int64_t low(int l, double r) {
    return static_cast<std::int64_t>(std::floor(l * (1 - r)));
  }
  static std::int64_t high(int l, double r) {
    return static_cast<std::int64_t>(std::ceil(l * (1 + r)));
  }
};

WorkloadPlan plan(Section& s) {
  const bool listed = s.word("dataset", {"random", "lengths"}, "random") == "lengths";
  auto drawn = std::make_shared<Drawn>();
  std::optional<GivenLengths> given;
  std::optional<RandomLengths> random;
  if (listed)
    given.emplace(s, "num_prompts");
  else
    random.emplace(s);
  const PerSecond inf(std::numeric_limits<double>::infinity());
  const auto rate = s.optional<PerSecond>("request_rate", inf, positive<PerSecond>());
  Arrivals a;
  const Settings* burstiness = s.node().find("burstiness");
  if (burstiness && burstiness->is_scalar() && burstiness->text() == "inf") {
    s.maybe<std::string>("burstiness");
    a.burstiness = inf.count();
  } else {
    a.burstiness = s.optional<double>("burstiness", 1.0, between(1e-3, 1e9));
  }
  if (s.has("ramp_up_strategy")) {
    a.ramp = s.word("ramp_up_strategy", {"linear", "exponential"});
    a.ramp_start = s.required<PerSecond>("ramp_up_start_rps", positive<PerSecond>()).count();
    a.ramp_end = s.required<PerSecond>("ramp_up_end_rps", positive<PerSecond>()).count();
    if (s.has("request_rate"))
      s.error("request_rate", "a ramp brings its own request rates", "remove request_rate");
    if (a.ramp_start > a.ramp_end)
      s.error("ramp_up_start_rps", "the ramp must not fall",
              "choose a start below ramp_up_end_rps");
  }
  const int seed = s.optional<int>("seed", 0, at_least(0));
  WorkloadPlan out;
  out.max_concurrency = s.maybe<int>("max_concurrency", positive<int>());
  const int warm_up = s.optional<int>("num_warmups", 0, between(0, 10'000));
  out.expert_skew = s.optional<double>("expert_skew", 0.85, between(0.0, 5.0));
  if (!s.reading().errors.empty()) return out;

  if (given)
    drawn->input = given->input, drawn->output = given->output;
  else
    random->draw(*drawn, static_cast<std::uint64_t>(seed));
  const auto n = static_cast<std::int64_t>(drawn->input.size());
  a.requests = n;
  a.per_second = rate.count();
  a.seed = static_cast<std::uint32_t>(seed);
  drawn->send_at = a.moments();
  out.source = [drawn] { return std::make_unique<VllmBench>(drawn); };
  out.requests = n;
  out.input_tokens = std::accumulate(drawn->input.begin(), drawn->input.end(), std::int64_t{0});
  out.output_tokens = std::accumulate(drawn->output.begin(), drawn->output.end(), std::int64_t{0});
  out.last_send = drawn->send_at.back();
  if (!arrivals_fit(out, s, a.ramp.empty() ? "request_rate" : "ramp_up_start_rps")) return out;
  PlannedRequest first;
  first.input = drawn->input[0];
  first.output = drawn->output[0];
  first.prompt = drawn->prompt(0);
  for (int i = 0; i < warm_up; ++i) out.warm_up.push_back(first);

  out.description = describe_requests(out, a.ramp.empty() ? a.per_second : inf.count());
  if (!a.ramp.empty())
    out.description = fmt::format(
        "{} requests, a {} ramp from {:g}/s to {:g}/s: {} tokens in, {} out", grouped(n), a.ramp,
        a.ramp_start, a.ramp_end, grouped(out.input_tokens), grouped(out.output_tokens));
  out.description += " (vllm bench serve)";
  return out;
}

const Registered<WorkloadKind> me("vllm_bench",
                                  {"vllm bench serve: dataset random, given lengths", plan});

}  // namespace
