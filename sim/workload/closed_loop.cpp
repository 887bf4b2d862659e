// A closed loop: `concurrency` users, each sends its next request when its last is answered, after
// a think time. Without one it is a load generator with --max-concurrency and rate inf, as
// InferenceX runs its points: 10 requests a user, lengths uniform in [0.8 L, L] (range_ratio: 0.8),
// seed 0. Lengths: NumPy's legacy generator, inputs first, then outputs (inferred: what
// InferenceX's own benchmark_serving.py draws them from was not checked). Prompts have nothing in
// common. Leaves out: an end after a given time, users that start one by one.

#include "sim/base/random.hpp"
#include "sim/workload/arrivals.hpp"

namespace {

struct Lengths {
  std::vector<std::int32_t> input, output;
  std::size_t users = 0;
  Duration think_time;

  PlannedRequest request(std::size_t i) const {
    PlannedRequest r;
    r.input = input[i];
    r.output = output[i];
    return r;
  }
};

// All requests wait at the semaphore from the start.
class Queue final : public RequestSource {
 public:
  explicit Queue(std::shared_ptr<const Lengths> lengths) : lengths_(std::move(lengths)) {}
  bool next(PlannedRequest& r) override {
    if (index_ == lengths_->input.size()) return false;
    r = lengths_->request(index_++);
    return true;
  }

 private:
  std::shared_ptr<const Lengths> lengths_;
  std::size_t index_ = 0;
};

// Each user is a session; whoever is ready first takes the next request of the list.
class Users final : public RequestSource {
 public:
  explicit Users(std::shared_ptr<const Lengths> lengths) : lengths_(std::move(lengths)) {}
  bool next(PlannedRequest& r) override {
    if (users_ == std::min(lengths_->users, lengths_->input.size())) return false;
    r = lengths_->request(index_++);
    r.session = static_cast<std::int64_t>(users_++);
    return true;
  }
  bool next_turn(std::int64_t session, PlannedRequest& r) override {
    // The first requests of users that have not been asked for yet are theirs.
    const std::size_t reserved = std::min(lengths_->users, lengths_->input.size()) - users_;
    if (index_ + reserved >= lengths_->input.size()) return false;
    r = lengths_->request(index_++);
    r.session = session;
    r.send_at = lengths_->think_time;
    return true;
  }

 private:
  std::shared_ptr<const Lengths> lengths_;
  std::size_t index_ = 0, users_ = 0;
};

WorkloadPlan plan(Section& s) {
  const auto count = positive<int>();
  const int users = s.required<int>("concurrency", between(1, 1'000'000));
  const int input = s.required<int>("input_tokens", count);
  const int output = s.required<int>("output_tokens", count);
  const double ratio = s.optional<double>("range_ratio", 1.0, between(0.0, 1.0));
  const int requests = s.optional<int>(
      "requests", static_cast<int>(std::min(10LL * users, 10'000'000LL)), between(1, 10'000'000));
  const auto think = s.optional<Duration>("think_time", Duration(),
                                          between(Duration(), Duration::from_seconds(86'400)));
  const int seed = s.optional<int>("seed", 0, at_least(0));
  WorkloadPlan out;
  out.expert_skew = s.optional<double>("expert_skew", 0.85, between(0.0, 5.0));
  if (!s.reading().errors.empty()) return out;

  auto lengths = std::make_shared<Lengths>();
  NumpyLegacyRandom random(static_cast<std::uint32_t>(seed));
  const auto draw = [&](std::vector<std::int32_t>& list, int length) {
    const auto low = std::max<std::int64_t>(static_cast<std::int64_t>(length * ratio), 1);
    list.resize(static_cast<std::size_t>(requests));
    for (auto& l : list)
      l = static_cast<std::int32_t>(random.randint(low, std::int64_t{length} + 1));
  };
  draw(lengths->input, input);
  draw(lengths->output, output);
  lengths->users = static_cast<std::size_t>(users);
  lengths->think_time = think;
  out.set([lengths] { return std::make_unique<Queue>(lengths); });  // counts them
  if (think > Duration())
    out.source = [lengths] { return std::make_unique<Users>(lengths); };
  else
    out.max_concurrency = users;
  out.description =
      fmt::format("{} users, {} requests: {} tokens in, {} out", grouped(users), grouped(requests),
                  grouped(out.input_tokens), grouped(out.output_tokens));
  if (think > Duration()) out.description += fmt::format(", {} between them", text(think));
  return out;
}

const Registered<WorkloadKind> me("closed_loop", {"users that wait for their answers", plan});

}  // namespace
