// Conversations: a turn's prompt is the whole prompt before, the answer to it and new tokens, so
// that a prefix cache holds all but the last. Sessions start at `session_rate` (exponential gaps;
// inf: all at once), or `concurrency` of them are under way at a time. Lengths are fixed or uniform
// in [max(int(L r), 1), L]; the gap between an answer and the next turn is fixed. All draws come
// from named streams of the seed, those of a session from its own: the order in which sessions go
// on moves nothing. A model of our own, after no tool. Leaves out: users who give up, think times
// that vary, answers that a later prompt words differently (chat templates, stripped reasoning).

#include <cmath>
#include <limits>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/workload/arrivals.hpp"

namespace {

// Uniform in [max(int(L r), 1), L].
struct Lengths {
  std::int64_t low = 0;
  double choices = 0;

  static Lengths up_to(int length, double ratio) {
    const auto low = std::max<std::int64_t>(static_cast<std::int64_t>(length * ratio), 1);
    return {low, static_cast<double>(length - low + 1)};
  }
  std::int64_t draw(RandomStream& random) const {
    return low + static_cast<std::int64_t>(random.uniform() * choices);
  }
};

struct Shape {
  std::uint64_t seed = 0;
  RandomStreams session_streams{0, ""};
  std::int64_t sessions = 0;
  int turns = 0, system_prompt = 0;
  Lengths first_input, input, output;
  double per_second = 0;
  Duration think_time;
};

struct Turn {
  std::int64_t fresh = 0, output = 0;  // tokens that the user adds, tokens of the answer
};

// The lengths of one session, turn by turn.
class Session {
 public:
  Session(const Shape& shape, std::int64_t number)
      : shape_(&shape), random_(shape.session_streams[number]) {}

  Turn next() {
    Turn out;
    out.fresh = (turn_++ == 0 ? shape_->first_input : shape_->input).draw(random_);
    out.output = shape_->output.draw(random_);
    return out;
  }
  bool over() const { return turn_ == shape_->turns; }
  int turn() const { return turn_; }

 private:
  const Shape* shape_;
  RandomStream random_;
  int turn_ = 0;
};

class Conversations final : public RequestSource {
 public:
  explicit Conversations(const Shape& shape)
      : shape_(shape), arrivals_(shape.seed, "multi_turn arrivals") {}

  bool next(PlannedRequest& r) override {
    if (started_ == shape_.sessions) return false;
    turn(begin(started_++), r);
    r.send_at = Duration();
    if (shape_.per_second < 1e300) {
      r.send_at = whole_nanoseconds(at_);
      at_ = std::min(at_ - std::log(1 - arrivals_.uniform()) / shape_.per_second,
                     2 * longest_arrivals_s);
    }
    return true;
  }

  bool next_turn(std::int64_t place, PlannedRequest& r) override {
    if (talks_[static_cast<std::size_t>(place)].session.over()) {
      spare_.push_back(place);
      return false;
    }
    turn(place, r);
    r.send_at = shape_.think_time;
    return true;
  }

 private:
  /// A session under way. Its place, by which its requests name it, serves another one after it.
  struct Talk {
    explicit Talk(const Session& s) : session(s) {}

    Session session;
    std::int64_t number = 0;
    std::int64_t said = 0;  // tokens of the user so far
    Content history;        // prompt and answer of the last turn
  };

  std::int64_t begin(std::int64_t number) {
    auto place = static_cast<std::int64_t>(talks_.size());
    if (spare_.empty()) {
      talks_.emplace_back(Session(shape_, number));
    } else {
      place = spare_.back();
      spare_.pop_back();
      talks_[static_cast<std::size_t>(place)].session = Session(shape_, number);
    }
    Talk& talk = talks_[static_cast<std::size_t>(place)];
    talk.number = number;
    talk.said = 0;
    talk.history.clear();
    talk.history.reserve(static_cast<std::size_t>(std::min(2 * shape_.turns, 64)) + 1);
    talk.history.append({0, 0, shape_.system_prompt});
    return place;
  }

  /// Streams: the system prompt 0, what the user of session k says 1 + k, answers from -2 down.
  void turn(std::int64_t place, PlannedRequest& r) {
    Talk& talk = talks_[static_cast<std::size_t>(place)];
    const Turn t = talk.session.next();
    talk.history.append({1 + talk.number, talk.said, t.fresh});
    talk.said += t.fresh;
    r.session = place;
    r.prompt.reserve(talk.history.segments().size() + 1);  // the answer comes behind it
    r.prompt = talk.history;
    r.input = talk.history.tokens();
    r.output = t.output;
    r.answer = -2 - (talk.number * shape_.turns + talk.session.turn() - 1);
    talk.history.append({r.answer, 0, t.output});
  }

  Shape shape_;
  RandomStream arrivals_;
  std::vector<Talk> talks_;
  std::vector<std::int64_t> spare_;  // places of sessions that are over
  std::int64_t started_ = 0;
  double at_ = 0;
};

WorkloadPlan plan(Section& s) {
  Shape shape;
  const auto count = between(1, 100'000'000);
  shape.sessions = s.required<int>("sessions", between(1, 1'000'000));
  shape.turns = s.required<int>("turns", between(1, 10'000));
  shape.system_prompt = s.optional<int>("system_prompt_tokens", 0, between(0, 100'000'000));
  const int first_input = s.required<int>("first_input_tokens", count);
  const int input = s.required<int>("input_tokens", count);
  const int output = s.required<int>("output_tokens", count);
  const double ratio = s.optional<double>("range_ratio", 1.0, between(0.0, 1.0));
  shape.first_input = Lengths::up_to(first_input, ratio);
  shape.input = Lengths::up_to(input, ratio);
  shape.output = Lengths::up_to(output, ratio);
  shape.think_time = s.optional<Duration>("think_time", Duration(),
                                          between(Duration(), Duration::from_seconds(86'400)));
  const PerSecond inf(std::numeric_limits<double>::infinity());
  shape.per_second = s.optional<PerSecond>("session_rate", inf, positive<PerSecond>()).count();
  WorkloadPlan out;
  out.max_concurrency = s.maybe<int>("concurrency", positive<int>());
  shape.seed = static_cast<std::uint64_t>(s.optional<int>("seed", 1, at_least(0)));
  shape.session_streams = RandomStreams(shape.seed, "multi_turn session ");
  out.expert_skew = s.optional<double>("expert_skew", 0.85, between(0.0, 5.0));
  if (shape.sessions * shape.turns > 50'000'000)
    s.error("turns", "more than 50 million turns in all", "choose fewer sessions or turns");
  if (!s.reading().errors.empty()) return out;

  out.source = [shape] { return std::make_unique<Conversations>(shape); };
  for (std::int64_t k = 0; k < shape.sessions; ++k) {
    std::int64_t history = shape.system_prompt;
    for (Session session(shape, k); !session.over();) {
      const Turn t = session.next();
      ++out.requests;
      out.input_tokens += history += t.fresh;
      out.output_tokens += t.output;
      history += t.output;
    }
  }
  // The last session starts when all gaps but its own are over.
  RandomStream arrivals(shape.seed, "multi_turn arrivals");
  double at = 0;
  if (shape.per_second < 1e300)
    for (std::int64_t k = 1; k < shape.sessions; ++k)
      at = std::min(at - std::log(1 - arrivals.uniform()) / shape.per_second,
                    2 * longest_arrivals_s);
  out.last_send = whole_nanoseconds(at);
  if (!arrivals_fit(out, s, "session_rate")) return out;
  out.description = fmt::format(
      "{} sessions of {} turns{}: {} tokens in, {} out", grouped(shape.sessions), shape.turns,
      shape.per_second > 1e300 ? "" : fmt::format(" at {:g}/s", shape.per_second),
      grouped(out.input_tokens), grouped(out.output_tokens));
  return out;
}

const Registered<WorkloadKind> me("multi_turn", {"conversations that share their history", plan});

}  // namespace
