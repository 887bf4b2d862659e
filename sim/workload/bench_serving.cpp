// python -m sglang.bench_serving (v0.5.9): lengths and arrivals from NumPy's global legacy
// generator, bit for bit; the order of generated-shared-prefix from Python's, bit for bit.
//
// random: inputs are drawn first for all prompts, then outputs, uniform in [max(int(L r), 1), L];
// then, after each request is sent, one exponential pause. So the default "256/256" means 143
// tokens in and 110 out on average for 64 prompts and seed 1. random-ids draws where each prompt
// starts in the vocabulary before the pauses. generated-shared-prefix: each group shares a system
// prompt; Python draws a number for every token of the prompts and then shuffles them (or not, with
// gsp_ordered). lengths is ours: a given list with the tool's arrivals.
// The warm-up is the first prompt itself, so that its KV is cached when the clock starts;
// flush_cache empties the cache before it does.
// Leaves out: other datasets, LoRA, turns of generated-shared-prefix, what a tokenizer adds or
// merges (also the two line ends between system prompt and question), warm-up requests side by
// side, the GET that ends the clock.

#include "sim/base/random.hpp"
#include "sim/workload/arrivals.hpp"
#include "sim/workload/given_lengths.hpp"

namespace {

struct Drawn {
  std::vector<std::int32_t> input, output;  // of each request, in the order in which they are sent
  std::vector<std::int32_t> group;          // empty: prompts have nothing in common
  std::vector<std::int32_t> system_prompt;  // tokens, of each group
  std::vector<Duration> send_at;            // empty: all at once
  NumpyLegacyRandom random;                 // lengths, then arrivals

  explicit Drawn(int seed) : random(static_cast<std::uint32_t>(seed)) {}

  std::vector<std::int32_t> lengths(int length, double ratio, std::int64_t n) {
    const auto low = std::max<std::int64_t>(static_cast<std::int64_t>(length * ratio), 1);
    std::vector<std::int32_t> out(static_cast<std::size_t>(n));
    for (auto& l : out)
      l = static_cast<std::int32_t>(random.randint(low, std::int64_t{length} + 1));
    return out;
  }

  void arrivals(double per_second) {
    if (per_second > 1e300) return;
    send_at.resize(input.size());
    double at = 0;
    for (auto& t : send_at) {
      t = whole_nanoseconds(at);
      at = std::min(at + random.exponential(1 / per_second), 2 * longest_arrivals_s);
    }
  }

  /// Streams: the system prompts from 0, then a stream for each prompt. A prompt that nothing else
  /// repeats needs none.
  Content prompt(std::size_t i) const {
    const auto own = static_cast<std::int64_t>(system_prompt.size() + i);
    if (group.empty()) return i == 0 ? Content(own, input[i]) : Content();
    const auto g = static_cast<std::size_t>(group[i]);
    return prompt_of({{group[i], 0, system_prompt[g]}, {own, 0, input[i] - system_prompt[g]}});
  }
};

class BenchServing final : public RequestSource {
 public:
  explicit BenchServing(std::shared_ptr<const Drawn> drawn) : drawn_(std::move(drawn)) {}

  bool next(PlannedRequest& r) override {
    if (index_ == drawn_->input.size()) return false;
    r.input = drawn_->input[index_];
    r.output = drawn_->output[index_];
    if (!drawn_->send_at.empty()) r.send_at = drawn_->send_at[index_];
    r.prompt = drawn_->prompt(index_++);
    return true;
  }

 private:
  std::shared_ptr<const Drawn> drawn_;
  std::size_t index_ = 0;
};

struct Random {
  int input = 0, output = 0, requests = 0;
  double ratio = 0;
  std::int64_t vocabulary = 0;  // 0: no offsets are drawn

  Random(Section& s, bool ids) {
    const auto count = positive<int>();
    input = s.required<int>("input_tokens", count);
    output = s.required<int>("output_tokens", count);
    ratio = s.optional<double>("range_ratio", 0.0, between(0.0, 1.0));
    requests = s.required<int>("requests", between(1, 10'000'000));
    if (ids) vocabulary = s.required<int>("vocab_size", between(1, 1 << 24));
  }
  void draw(Drawn& d) const {
    d.input = d.lengths(input, ratio, requests);
    d.output = d.lengths(output, ratio, requests);
    if (vocabulary > 0)
      for (int i = 0; i < requests; ++i) d.random.randint(0, vocabulary);
  }
};

struct SharedPrefix {
  int groups = 0, prompts = 0, system_prompt = 0, question = 0, output = 0;
  double ratio = 1;
  bool ordered = false;

  explicit SharedPrefix(Section& s) {
    const auto count = between(1, 1'000'000);
    groups = s.optional<int>("gsp_num_groups", 64, count);
    prompts = s.optional<int>("gsp_prompts_per_group", 16, count);
    system_prompt = s.optional<int>("gsp_system_prompt_len", 2048, count);
    question = s.optional<int>("gsp_question_len", 128, count);
    output = s.optional<int>("gsp_output_len", 256, count);
    ratio = s.optional<double>("gsp_range_ratio", 1.0, between(0.0, 1.0));
    ordered = s.optional<bool>("gsp_ordered", false);
    // Python draws one number a token before it shuffles: ten seconds of it here.
    constexpr double draws_max = 1e9;
    if (double(groups) * system_prompt + double(groups) * prompts * question > draws_max)
      s.error("gsp_num_groups", "the prompts have more than a billion tokens",
              "choose fewer groups, fewer prompts or shorter ones");
  }
  void draw(Drawn& d, int seed) const {
    const std::int64_t n = std::int64_t{groups} * prompts;
    d.system_prompt = d.lengths(system_prompt, ratio, groups);
    const auto questions = d.lengths(question, ratio, n), outputs = d.lengths(output, ratio, n);
    std::vector<std::int32_t> order(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
    if (!ordered) {
      PythonRandom python(static_cast<std::uint64_t>(seed));
      const auto draw = [&](const std::vector<std::int32_t>& lengths) {
        for (const auto tokens : lengths)
          for (std::int32_t t = 0; t < tokens; ++t) python.random();
      };
      draw(d.system_prompt);
      draw(questions);
      python.shuffle(order);
    }
    for (const auto i : order) {
      const auto at = static_cast<std::size_t>(i);
      d.group.push_back(i / prompts);
      d.input.push_back(d.system_prompt[at / static_cast<std::size_t>(prompts)] + questions[at]);
      d.output.push_back(outputs[at]);
    }
  }
};

WorkloadPlan plan(Section& s) {
  const auto dataset =
      s.word("dataset", {"random", "random-ids", "generated-shared-prefix", "lengths"}, "random");
  std::optional<Random> random;
  std::optional<SharedPrefix> shared;
  std::optional<GivenLengths> given;
  if (dataset == "generated-shared-prefix")
    shared.emplace(s);
  else if (dataset == "lengths")
    given.emplace(s, "requests");
  else
    random.emplace(s, dataset == "random-ids");
  const auto rate = s.required<PerSecond>("request_rate", positive<PerSecond>());
  const int seed = s.optional<int>("seed", 1, at_least(0));
  WorkloadPlan out;
  out.max_concurrency = s.maybe<int>("max_concurrency", positive<int>());
  const int warm_up = s.optional<int>("warmup_requests", 1, between(0, 10'000));
  const bool flush = s.optional<bool>("flush_cache", false);
  out.expert_skew = s.optional<double>("expert_skew", 0.85, between(0.0, 5.0));
  out.pause_after_warm_up = Duration::from_seconds(warm_up > 0 ? 1 : 0);
  if (!s.reading().errors.empty()) return out;

  auto drawn = std::make_shared<Drawn>(seed);
  if (random) random->draw(*drawn);
  if (shared) shared->draw(*drawn, seed);
  if (given) drawn->input = given->input, drawn->output = given->output;
  drawn->arrivals(rate.count());
  out.set([drawn] { return std::make_unique<BenchServing>(drawn); });
  if (!arrivals_fit(out, s, "request_rate")) return out;
  PlannedRequest first;
  first.input = drawn->input[0];
  first.output = std::min(drawn->output[0], 32);
  // A prompt of its own kind leaves nothing in the cache that a later one could use.
  if (!flush) first.prompt = drawn->prompt(0);
  for (int i = 0; i < warm_up; ++i) out.warm_up.push_back(first);

  out.description = describe_requests(out, rate.count());
  if (random)
    out.description += fmt::format(" (random {}/{} with range ratio {:g} means {} in, {} out)",
                                   random->input, random->output, random->ratio,
                                   (out.input_tokens + out.requests / 2) / out.requests,
                                   (out.output_tokens + out.requests / 2) / out.requests);
  if (shared)
    out.description += fmt::format(" (generated-shared-prefix: {} groups of {} behind {} tokens)",
                                   grouped(shared->groups), grouped(shared->prompts),
                                   grouped(shared->system_prompt));
  return out;
}

const Registered<WorkloadKind> me(
    "bench_serving",
    {"sglang.bench_serving: random, random-ids, generated-shared-prefix, given lengths", plan});

}  // namespace
