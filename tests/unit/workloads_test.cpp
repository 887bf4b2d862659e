#include <algorithm>
#include <map>
#include <set>

#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include "tests/support/plans.hpp"

namespace {

std::vector<std::int64_t> inputs(const DrawnPlan& p) {
  std::vector<std::int64_t> out;
  for (const auto& r : p.list) out.push_back(r.input);
  return out;
}
std::vector<std::int64_t> outputs(const DrawnPlan& p) {
  std::vector<std::int64_t> out;
  for (const auto& r : p.list) out.push_back(r.output);
  return out;
}

void check_times(const DrawnPlan& p, const std::vector<double>& expected_s) {
  REQUIRE(p.list.size() >= expected_s.size());
  for (std::size_t i = 0; i < expected_s.size(); ++i)
    CHECK(p.list[i].send_at.seconds() == Approx(expected_s[i]).margin(2e-9));
}

std::string number(double x) { return std::to_string(x); }

}  // namespace

// ---- bench_serving ----

TEST_CASE("generated-shared-prefix sends its prompts in Python's order") {
  // Python 3.11 and NumPy 1.24.2: random.seed(1); random.choices for each of 64 system prompts of
  // 2,048 tokens and 1,024 questions of 128; random.shuffle. The vocabulary changes nothing.
  const auto p =
      draw_plan("bench_serving", "dataset: generated-shared-prefix\nrequest_rate: inf\n");
  REQUIRE(p.list.size() == 1024);
  const std::vector<std::int64_t> first = {27, 22, 4, 62, 26, 4}, last = {12, 2, 35};
  const auto group = [&](std::size_t i) { return p.list[i].prompt.segments()[0].stream; };
  for (std::size_t i = 0; i < first.size(); ++i) CHECK(group(i) == first[i]);
  for (std::size_t i = 0; i < last.size(); ++i) CHECK(group(1021 + i) == last[i]);
  for (const auto& r : p.list) {
    CHECK(r.input == 2048 + 128);
    CHECK(r.output == 256);
  }
}

TEST_CASE(
    "generated-shared-prefix with a range ratio draws lengths, order and pauses as the tool") {
  // The tool's own lines with seed 2, ratio 0.5, groups 3 x 2, lengths 20/10/8; rate 2.
  const auto p =
      draw_plan("bench_serving",
                "dataset: generated-shared-prefix\nrequest_rate: 2 /s\nseed: 2\n"
                "gsp_num_groups: 3\ngsp_prompts_per_group: 2\ngsp_system_prompt_len: 20\n"
                "gsp_question_len: 10\ngsp_output_len: 8\ngsp_range_ratio: 0.5\n");
  CHECK(inputs(p) == std::vector<std::int64_t>{22, 23, 26, 26, 25, 23});
  CHECK(outputs(p) == std::vector<std::int64_t>{7, 8, 7, 8, 6, 8});
  std::vector<std::int64_t> groups;
  for (const auto& r : p.list) groups.push_back(r.prompt.segments()[0].stream);
  CHECK(groups == std::vector<std::int64_t>{2, 1, 0, 1, 0, 2});
  check_times(p, {0, 0.3451368266018442, 0.3451368266018442 + 0.44190811405704195,
                  0.3451368266018442 + 0.44190811405704195 + 0.6360441596102383});
}

TEST_CASE("prompts of a group share their system prompt and nothing else") {
  const auto p = draw_plan("bench_serving",
                           "dataset: generated-shared-prefix\nrequest_rate: inf\n"
                           "gsp_num_groups: 5\ngsp_prompts_per_group: 7\n");
  std::map<std::int64_t, int> per_group;
  std::set<std::int64_t> questions;
  for (const auto& r : p.list) {
    REQUIRE(r.prompt.segments().size() == 2);
    CHECK(r.prompt.tokens() == r.input);
    CHECK(r.prompt.segments()[0].tokens == 2048);
    ++per_group[r.prompt.segments()[0].stream];
    questions.insert(r.prompt.segments()[1].stream);
  }
  CHECK(per_group.size() == 5);
  for (const auto& [group, n] : per_group) {
    CHECK(n == 7);
    CHECK_FALSE(questions.contains(group));
  }
  CHECK(questions.size() == 35);
}

TEST_CASE("gsp_ordered keeps the groups together") {
  const auto p = draw_plan("bench_serving",
                           "dataset: generated-shared-prefix\nrequest_rate: inf\n"
                           "gsp_num_groups: 3\ngsp_prompts_per_group: 2\ngsp_ordered: on\n");
  std::vector<std::int64_t> groups;
  for (const auto& r : p.list) groups.push_back(r.prompt.segments()[0].stream);
  CHECK(groups == std::vector<std::int64_t>{0, 0, 1, 1, 2, 2});
}

TEST_CASE("random-ids draws its offsets before the pauses") {
  // NumPy 1.24.2: seed(1); randint(1, 257, 4) twice; randint(0, 151669, 4); exponential(0.1) x 3
  const auto p = draw_plan("bench_serving",
                           "dataset: random-ids\ninput_tokens: 256\noutput_tokens: 256\n"
                           "requests: 4\nrequest_rate: 10 /s\nvocab_size: 151669\n");
  CHECK(inputs(p) == std::vector<std::int64_t>{38, 236, 141, 73});
  CHECK(outputs(p) == std::vector<std::int64_t>{256, 138, 204, 134});
  check_times(p, {0, 0.05054525417107485, 0.05054525417107485 + 0.07739597748607574,
                  0.05054525417107485 + 0.07739597748607574 + 0.05433393706182452});
}

TEST_CASE("given lengths are taken as they are, the first of them when asked") {
  const std::string list = "dataset: lengths\nlengths: [[10, 3], [20, 4], [30, 5]]\n";
  const auto p = draw_plan("bench_serving", list + "request_rate: inf\n");
  CHECK(inputs(p) == std::vector<std::int64_t>{10, 20, 30});
  CHECK(outputs(p) == std::vector<std::int64_t>{3, 4, 5});
  CHECK(draw_plan("bench_serving", list + "request_rate: inf\nrequests: 2\n").list.size() == 2);
  CHECK(plan_errors("bench_serving", list + "request_rate: inf\nrequests: 4\n").size() == 1);
  CHECK(plan_errors("bench_serving", "dataset: lengths\nrequest_rate: inf\n").size() == 1);
  CHECK(plan_errors("bench_serving",
                    "dataset: lengths\nrequest_rate: inf\nlengths: [[1], [0, 2], [x, 1]]\n")
            .size() == 3);
}

TEST_CASE("the warm-up is the first prompt, so its KV is there, unless the cache is flushed") {
  for (const std::string dataset :
       {"dataset: random\ninput_tokens: 64\noutput_tokens: 64\nrequests: 5\n",
        "dataset: generated-shared-prefix\ngsp_num_groups: 2\ngsp_prompts_per_group: 2\n"}) {
    const auto p = draw_plan("bench_serving", dataset + "request_rate: inf\n");
    REQUIRE(p.warm_up.size() == 1);
    CHECK(p.warm_up[0].prompt.tokens() == p.list[0].input);
    CHECK(std::ranges::equal(p.warm_up[0].prompt.segments(), p.list[0].prompt.segments()));
    const auto flushed =
        draw_plan("bench_serving", dataset + "request_rate: inf\nflush_cache: on\n");
    CHECK(flushed.warm_up[0].prompt.empty());
    CHECK(same_requests(p.list, flushed.list));
  }
  // The others are like nothing else.
  const auto p = draw_plan("bench_serving",
                           "input_tokens: 64\noutput_tokens: 64\nrequests: 5\nrequest_rate: inf\n");
  for (std::size_t i = 1; i < p.list.size(); ++i) CHECK(p.list[i].prompt.empty());
}

// ---- vllm_bench ----

TEST_CASE("vllm_bench draws the lengths of the tool") {
  // NumPy 1.24.2, get_sampling_params of vllm/benchmarks/datasets/random.py
  const auto a = draw_plan("vllm_bench", "num_prompts: 6\nrandom_range_ratio: 0.1\n");
  CHECK(inputs(a) == std::vector<std::int64_t>{1097, 1052, 1026, 976, 984, 929});
  CHECK(outputs(a) == std::vector<std::int64_t>{117, 115, 119, 136, 132, 139});
  const auto b =
      draw_plan("vllm_bench", "num_prompts: 6\nrandom_range_ratio: {input: 0, output: 0.5}\n");
  CHECK(inputs(b) == std::vector<std::int64_t>(6, 1024));
  CHECK(outputs(b) == std::vector<std::int64_t>{173, 146, 129, 98, 103, 69});
  const auto c = draw_plan("vllm_bench",
                           "num_prompts: 5\nseed: 3\nrandom_input_len: 100\nrandom_output_len: 1\n"
                           "random_range_ratio: {input: 0.5, output: 0.9}\n");
  CHECK(inputs(c) == std::vector<std::int64_t>{131, 58, 68, 73, 68});
  CHECK(outputs(c) == std::vector<std::int64_t>{2, 2, 2, 1, 1});
}

TEST_CASE("vllm_bench sends at the moments of the tool") {
  // NumPy 1.24.2, get_request of vllm/benchmarks/serve.py
  const std::string six = "num_prompts: 6\n", rate = six + "request_rate: 4 /s\n";
  check_times(draw_plan("vllm_bench", rate),
              {0.2230824511221632, 0.5751179921131646, 0.8338960785906834, 1.0545474008581102,
               1.2090054803918748, 1.5});
  check_times(draw_plan("vllm_bench", rate + "burstiness: 0.25\n"),
              {0.045400259792914927, 0.11146148270957693, 0.1275830665001642, 0.14593228897435506,
               1.299438106248947, 1.5});
  check_times(draw_plan("vllm_bench", rate + "burstiness: 5\n"),
              {0.37844196042144296, 0.5984281158798469, 0.9913027091770247, 1.103858570973202,
               1.279010882163076, 1.5});
  check_times(draw_plan("vllm_bench", six + "ramp_up_strategy: linear\nramp_up_start_rps: 1 /s\n"
                                            "ramp_up_end_rps: 10 /s\n"),
              {0.79587450816311, 1.2444212092223377, 1.4451218930927874, 1.5681220731423609,
               1.635323108641812, 1.739139038136173});
  check_times(draw_plan("vllm_bench", six + "ramp_up_strategy: exponential\n"
                                            "ramp_up_start_rps: 1 /s\nramp_up_end_rps: 10 /s\n"),
              {0.79587450816311, 1.588313247215018, 1.955855001580575, 2.153590990918021,
               2.240926291143343, 2.344742220637704});
  check_times(
      draw_plan("vllm_bench", "num_prompts: 4\nrequest_rate: 2 /s\nburstiness: inf\nseed: 5\n"),
      {0.5, 1.0, 1.5, 2.0});
  for (const auto& r : draw_plan("vllm_bench", six).list) CHECK(r.send_at == Duration());
}

TEST_CASE("vllm_bench: the last request is sent at N / rate, in order, lengths in their range") {
  CHECK(rc::check("any rate, burstiness and ratio", [] {
    const int n = *rc::gen::inRange(1, 60), length = *rc::gen::inRange(2, 2000);
    const double rate = *rc::gen::inRange(1, 500) * 0.1,
                 burstiness = *rc::gen::inRange(1, 80) * 0.1,
                 ratio = *rc::gen::inRange(0, 10) * 0.1;
    const std::string options =
        "num_prompts: " + std::to_string(n) + "\nrequest_rate: " + number(rate) +
        " /s\nburstiness: " + number(burstiness) + "\nrandom_input_len: " + std::to_string(length) +
        "\nrandom_output_len: " + std::to_string(length) +
        "\nrandom_range_ratio: " + number(ratio) +
        "\nseed: " + std::to_string(*rc::gen::inRange(0, 1000)) + "\n";
    Reading reading;
    DrawnPlan p{read_plan("vllm_bench", options, reading), {}};
    RC_ASSERT(reading.errors.empty());
    p.list = all_requests(p);
    RC_ASSERT(std::abs(p.list.back().send_at.seconds() - n / rate) < 2e-9 + 1e-12 * n / rate);
    Duration before;
    for (const auto& r : p.list) {
      for (const auto l : {r.input, r.output}) {
        RC_ASSERT(double(l) >= std::max(1.0, std::floor(length * (1 - ratio))));
        RC_ASSERT(double(l) <= std::ceil(length * (1 + ratio)));
        if (ratio == 0) RC_ASSERT(l == length);
      }
      RC_ASSERT(r.send_at >= before);
      before = r.send_at;
    }
    RC_ASSERT(same_requests(p.list, all_requests(p)));
  }));
}

TEST_CASE("vllm_bench: a prefix is added to every prompt and shared by all") {
  const auto p =
      draw_plan("vllm_bench", "num_prompts: 5\nrandom_prefix_len: 300\nnum_warmups: 2\n");
  std::set<std::int64_t> own;
  for (const auto& r : p.list) {
    CHECK(r.input == 1324);
    CHECK(r.prompt.tokens() == 1324);
    REQUIRE(r.prompt.segments().size() == 2);
    CHECK(r.prompt.segments()[0] == Segment{0, 0, 300});
    own.insert(r.prompt.segments()[1].stream);
  }
  CHECK(own.size() == 5);
  REQUIRE(p.warm_up.size() == 2);
  CHECK(p.warm_up[0].output == 128);
  CHECK(std::ranges::equal(p.warm_up[1].prompt.segments(), p.list[0].prompt.segments()));
}

TEST_CASE("vllm_bench: options that make no sense are errors, all of them") {
  const auto errors = plan_errors("vllm_bench",
                                  "num_prompts: 0\nrequest_rate: 4 /s\nburstiness: 0\n"
                                  "random_range_ratio: 1\nseed: -1\nmax_concurrency: 0\n"
                                  "ramp_up_strategy: linear\nramp_up_start_rps: 9 /s\n"
                                  "ramp_up_end_rps: 3 /s\nnum_warmups: -1\ndataset: sharegpt\n");
  CHECK(errors.size() == 9);
  CHECK(plan_errors("vllm_bench", "random_input_len: 0\n").size() == 1);
  CHECK(plan_errors("vllm_bench", "request_rate: 1e-6 /s\n").size() == 1);
}

// ---- closed_loop ----

TEST_CASE("closed_loop: ten requests a user, lengths in [r L, L], all at the semaphore at once") {
  const auto p = draw_plan("closed_loop",
                           "concurrency: 4\ninput_tokens: 1000\noutput_tokens: 100\n"
                           "range_ratio: 0.8\n");
  CHECK(p.list.size() == 40);
  CHECK(p.max_concurrency == 4);
  for (const auto& r : p.list) {
    CHECK(r.send_at == Duration());
    CHECK((r.input >= 800 && r.input <= 1000));
    CHECK((r.output >= 80 && r.output <= 100));
  }
  const auto fixed =
      draw_plan("closed_loop", "concurrency: 4\ninput_tokens: 1000\noutput_tokens: 100\n");
  for (const auto& r : fixed.list) CHECK((r.input == 1000 && r.output == 100));
}

TEST_CASE("closed_loop: users who think are sessions, and every request of the list is sent once") {
  const auto options =
      "concurrency: 3\ninput_tokens: 100\noutput_tokens: 10\nrange_ratio: 0.1\nrequests: 11\n"
      "think_time: 2 s\n";
  const auto p = read_plan("closed_loop", options);
  CHECK_FALSE(p.max_concurrency);
  CHECK(p.requests == 11);
  const auto source = p.source();
  std::vector<std::int64_t> sessions;
  std::int64_t tokens = 0, sent = 0;
  PlannedRequest r;
  while (source->next(r)) {
    CHECK(r.send_at == Duration());
    sessions.push_back(r.session);
    tokens += r.input;
    ++sent;
  }
  CHECK(sessions == std::vector<std::int64_t>{0, 1, 2});
  for (std::size_t k = 0; source->next_turn(sessions[k % 3], r); ++k) {
    CHECK(r.session == sessions[k % 3]);
    CHECK(r.send_at == Duration::from_seconds(2));
    tokens += r.input;
    ++sent;
  }
  CHECK(sent == 11);
  CHECK(tokens == p.input_tokens);
}

// ---- multi_turn ----

TEST_CASE("multi_turn: a turn's prompt is the prompt before, its answer and new tokens") {
  const auto p = read_plan("multi_turn",
                           "sessions: 2\nturns: 3\nsystem_prompt_tokens: 50\n"
                           "first_input_tokens: 100\ninput_tokens: 20\noutput_tokens: 30\n"
                           "think_time: 5 s\n");
  // 150 + (150 + 30 + 20 = 200) + (200 + 30 + 20 = 250) a session
  CHECK(p.requests == 6);
  CHECK(p.input_tokens == 2 * (150 + 200 + 250));
  CHECK(p.output_tokens == 2 * 90);
  const auto source = p.source();
  PlannedRequest a, b, turn;
  REQUIRE(source->next(a));
  REQUIRE(source->next(b));
  CHECK_FALSE(source->next(turn));
  CHECK(a.prompt.segments()[0] == b.prompt.segments()[0]);  // the system prompt
  CHECK(a.prompt.segments()[1].stream != b.prompt.segments()[1].stream);
  CHECK(a.answer != b.answer);
  REQUIRE(source->next_turn(a.session, turn));
  CHECK(turn.send_at == Duration::from_seconds(5));
  CHECK(turn.input == 200);
  Content expected = a.prompt;
  expected.append({a.answer, 0, 30});
  expected.append({a.prompt.segments()[1].stream, 100, 20});
  CHECK(std::ranges::equal(turn.prompt.segments(), expected.segments()));
  REQUIRE(source->next_turn(a.session, turn));
  CHECK(turn.input == 250);
  CHECK_FALSE(source->next_turn(a.session, turn));
  REQUIRE(source->next_turn(b.session, turn));
  CHECK(turn.input == 200);
}

TEST_CASE("multi_turn: sums, lengths and streams hold whatever order the sessions go on in") {
  CHECK(rc::check("any interleaving", [] {
    const int sessions = *rc::gen::inRange(1, 8), turns = *rc::gen::inRange(1, 6);
    Reading reading;
    const auto p =
        read_plan("multi_turn",
                  "sessions: " + std::to_string(sessions) + "\nturns: " + std::to_string(turns) +
                      "\nfirst_input_tokens: 60\ninput_tokens: 20\noutput_tokens: 30\n"
                      "range_ratio: 0.2\nsession_rate: 2 /s\n",
                  reading);
    RC_ASSERT(reading.errors.empty());
    const auto source = p.source();
    std::map<std::int64_t, PlannedRequest> last;
    std::set<std::int64_t> answers;
    std::int64_t in = 0, out = 0, n = 0;
    Duration before;
    const auto count = [&](const PlannedRequest& r) {
      RC_ASSERT(r.prompt.tokens() == r.input);
      RC_ASSERT(r.output >= 6 && r.output <= 30);
      RC_ASSERT(answers.insert(r.answer).second);
      RC_ASSERT(r.answer <= -2);
      in += r.input, out += r.output, ++n;
    };
    PlannedRequest r;
    while (source->next(r)) {
      RC_ASSERT(r.send_at >= before);
      before = r.send_at;
      count(r);
      last[r.session] = r;
    }
    RC_ASSERT(before == p.last_send);
    while (!last.empty()) {
      auto it = last.begin();
      std::advance(it, *rc::gen::inRange<std::size_t>(0, last.size()));
      if (!source->next_turn(it->first, r)) {
        last.erase(it);
        continue;
      }
      // The prompt before is a prefix of this one.
      const auto now = r.prompt.segments(), then = it->second.prompt.segments();
      RC_ASSERT(now.size() == then.size() + 2);
      RC_ASSERT(std::equal(then.begin(), then.end(), now.begin()));
      count(r);
      it->second = r;
    }
    RC_ASSERT(n == p.requests);
    RC_ASSERT(in == p.input_tokens);
    RC_ASSERT(out == p.output_tokens);
  }));
}
