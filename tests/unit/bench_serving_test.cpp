#include <algorithm>
#include <map>

#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include "sim/workload/workload.hpp"
#include "tests/support/csv.hpp"
#include "tests/support/hardware.hpp"

namespace {

struct Drawn : WorkloadPlan {
  std::vector<PlannedRequest> list;
};

Drawn plan(const std::string& options, Reading& reading) {
  const WorkloadKind* kind = Registry<WorkloadKind>::find("bench_serving");
  REQUIRE(kind);
  const Settings settings = yaml(options);
  Section section(settings, "workload", reading);
  Drawn out{kind->plan(section), {}};
  if (reading.errors.empty()) out.list = all_requests(out);
  return out;
}

Drawn plan(const std::string& options) {
  Reading reading;
  auto out = plan(options, reading);
  INFO(reading.errors.render());
  REQUIRE(reading.errors.empty());
  return out;
}

std::string load(int requests, const std::string& rate) {
  return "input_tokens: 256\noutput_tokens: 256\nrequests: " + std::to_string(requests) +
         "\nrequest_rate: " + rate + "\n";
}

std::int64_t longest(const Drawn& p) {
  std::int64_t most = 0;
  for (const auto& r : p.list) most = std::max(most, r.output);
  return most;
}

}  // namespace

TEST_CASE("bench_serving draws the lengths of a real NumPy") {
  // Sums, first values and last arrivals of seed 1, lengths 1..256, from NumPy 1.24.
  struct Case {
    int requests;
    const char* rate;
    std::int64_t in, out, longest;
    std::vector<std::int64_t> first_in, first_out;
    double last_arrival;
  };
  for (const Case& c : {Case{16, "2 /s", 2536, 2284, 255, {38, 236, 141}, {135, 26, 179}, 7.61},
                        Case{32, "8 /s", 4820, 4346, 248, {38, 236, 141}, {}, 3.61},
                        Case{64, "16 /s", 9166, 7059, 244, {38, 236, 141}, {150, 50, 58}, 4.50},
                        Case{64, "inf", 9166, 7059, 244, {38, 236, 141}, {150, 50, 58}, 0},
                        Case{128, "inf", 16225, 16868, 254, {38, 236, 141}, {}, 0},
                        Case{256, "inf", 33093, 33572, 254, {38, 236, 141}, {}, 0}}) {
    INFO(c.requests << " at " << c.rate);
    const auto p = plan(load(c.requests, c.rate));
    REQUIRE(p.list.size() == static_cast<std::size_t>(c.requests));
    CHECK(p.input_tokens == c.in);
    CHECK(p.output_tokens == c.out);
    CHECK(longest(p) == c.longest);
    for (std::size_t i = 0; i < c.first_in.size(); ++i) CHECK(p.list[i].input == c.first_in[i]);
    for (std::size_t i = 0; i < c.first_out.size(); ++i) CHECK(p.list[i].output == c.first_out[i]);
    CHECK(p.list.front().send_at == Duration());
    CHECK(p.list.back().send_at.seconds() == Approx(c.last_arrival).margin(0.005));
  }
}

TEST_CASE("bench_serving sends at the moments of a real NumPy") {
  const auto slow = plan(load(16, "2 /s")), fast = plan(load(64, "16 /s"));
  const double slow_s[] = {0, .270046, .679049, .754686}, fast_s[] = {0, .003203, .051181, .119308};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(slow.list[i].send_at.seconds() == Approx(slow_s[i]).margin(1e-6));
    CHECK(fast.list[i].send_at.seconds() == Approx(fast_s[i]).margin(1e-6));
  }
}

TEST_CASE(
    "every request of the recorded workloads is drawn: lengths exactly, arrivals to a "
    "microsecond") {
  const auto file = shared_file("data/serving/seed_workload.csv");
  if (!file) return;
  std::map<std::string, Drawn> plans;
  std::map<std::string, std::size_t> rows;
  read_csv(*file,
           {"case", "num_prompts", "request_rate", "index", "input_len", "output_len",
            "arrival_s_assumed"},
           [&](const std::vector<std::string>& f) {
             auto it = plans.find(f[0]);
             if (it == plans.end())
               it = plans.emplace(f[0], plan(load(std::stoi(f[1]), f[2] + " /s"))).first;
             INFO(f[0] << ", request " << f[3]);
             const auto& r = it->second.list.at(std::stoul(f[3]));
             CHECK(r.input == std::stoll(f[4]));
             CHECK(r.output == std::stoll(f[5]));
             CHECK(r.send_at.seconds() == Approx(std::stod(f[6])).margin(1e-6));
             ++rows[f[0]];
           });
  CHECK(plans.size() == 3);
  for (const auto& [name, p] : plans) CHECK(rows[name] == p.list.size());
}

TEST_CASE("lengths stay between the range ratio and the length, and a ratio of one fixes them") {
  CHECK(rc::check("uniform in [max(int(L r), 1), L]", [] {
    const int input = *rc::gen::inRange(1, 50), output = *rc::gen::inRange(1, 50);
    const double ratio = *rc::gen::inRange(0, 11) * 0.1;
    Reading reading;
    const auto p = plan(
        "input_tokens: " + std::to_string(input) + "\noutput_tokens: " + std::to_string(output) +
            "\nrequests: 40\nrequest_rate: 5 /s\nrange_ratio: " + std::to_string(ratio) +
            "\nseed: " + std::to_string(*rc::gen::inRange(0, 1000)) + "\n",
        reading);
    RC_ASSERT(reading.errors.empty());
    Duration before;
    for (const auto& r : p.list) {
      RC_ASSERT(r.input >= std::max<std::int64_t>(1, static_cast<std::int64_t>(input * ratio)));
      RC_ASSERT(r.input <= input);
      RC_ASSERT(r.output >= std::max<std::int64_t>(1, static_cast<std::int64_t>(output * ratio)));
      RC_ASSERT(r.output <= output);
      RC_ASSERT(r.send_at >= before);
      before = r.send_at;
    }
  }));
  for (const auto& r : plan(load(20, "inf") + "range_ratio: 1\n").list) {
    CHECK(r.input == 256);
    CHECK(r.output == 256);
  }
}

TEST_CASE("twice the rate halves every arrival, and leaves the lengths") {
  const auto slow = plan(load(64, "8 /s")), fast = plan(load(64, "16 /s"));
  for (std::size_t i = 0; i < 64; ++i) {
    CHECK(slow.list[i].input == fast.list[i].input);
    CHECK(slow.list[i].output == fast.list[i].output);
    CHECK(slow.list[i].send_at.us() == Approx(2 * fast.list[i].send_at.us()).margin(0.003));
  }
}

TEST_CASE("the mean gap between arrivals is one over the rate") {
  // 20,000 exponential gaps of 0.1 s: standard error 0.7 %, five of them allowed.
  const auto p = plan("input_tokens: 4\noutput_tokens: 4\nrequests: 20001\nrequest_rate: 10 /s\n");
  CHECK(p.list.back().send_at.seconds() / 20000 == Approx(0.1).epsilon(0.036));
}

TEST_CASE("the same seed draws the same plan, another seed another") {
  const auto a = plan(load(32, "8 /s") + "seed: 3\n"), b = plan(load(32, "8 /s") + "seed: 3\n"),
             c = plan(load(32, "8 /s") + "seed: 4\n");
  const auto key = [](const Drawn& p) {
    std::vector<std::int64_t> out;
    for (const auto& r : p.list) out.insert(out.end(), {r.input, r.output, r.send_at.ps()});
    return out;
  };
  CHECK(key(a) == key(b));
  CHECK(key(a) != key(c));
}

TEST_CASE(
    "the warm-up is the first prompt with at most 32 tokens out, before a pause of a second") {
  const auto p = plan(load(16, "2 /s"));
  REQUIRE(p.warm_up.size() == 1);
  CHECK(p.warm_up[0].input == 38);
  CHECK(p.warm_up[0].output == 32);  // the first request wants 135
  CHECK(p.pause_after_warm_up == 1000_ms);
  const auto none = plan(load(16, "2 /s") + "warmup_requests: 0\n");
  CHECK(none.warm_up.empty());
  CHECK(none.pause_after_warm_up == Duration());
  CHECK_FALSE(p.max_concurrency);
  CHECK(plan(load(16, "2 /s") + "max_concurrency: 5\n").max_concurrency == 5);
}

TEST_CASE("a plan describes itself for people") {
  const auto text = plan(load(64, "16 /s")).description;
  CHECK(text.find("64 requests at 16/s") != std::string::npos);
  CHECK(text.find("9,166 tokens in, 7,059 out") != std::string::npos);
  // 9166 / 64 = 143.2, 7059 / 64 = 110.3
  CHECK(text.find("143 in, 110 out") != std::string::npos);
  CHECK(plan(load(64, "inf")).description.find("all at once") != std::string::npos);
}

TEST_CASE("options that make no sense are errors, all of them, and none crashes") {
  Reading reading;
  plan(
      "input_tokens: 0\noutput_tokens: x\nrequests: 0\nrequest_rate: 0 /s\nrange_ratio: 2\n"
      "seed: -1\nwarmup_requests: -1\nmax_concurrency: 0\nexpert_skew: 9\ndataset: "
      "sharegpt\nextra: 1\n",
      reading);
  CHECK(reading.errors.size() == 11);
  // So slow that the clock ends before the last request.
  Reading slow;
  plan(load(64, "1e-6 /s"), slow);
  REQUIRE(slow.errors.size() == 1);
  CHECK(slow.errors.list()[0].where.text() == "test.yaml:4:15");
  Reading slowest;
  plan(load(64, "1e-300 /s"), slowest);
  CHECK(slowest.errors.size() == 1);
}
