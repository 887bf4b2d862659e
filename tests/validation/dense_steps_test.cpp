// Dense models against measured steps: Qwen3-14B on one H100 with vLLM 0.23 (93,000 steps rebuilt
// from chunk times), Llama-3.1-8B with vLLM 0.19 on RTX PRO 6000 and RTX 4090.

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "sim/workload/trace_file.hpp"
#include "tests/support/csv.hpp"
#include "tests/support/experiment.hpp"

namespace {

std::unique_ptr<Experiment> experiment(const std::string& machine, const std::string& model,
                                       const std::string& build, const std::string& more = "") {
  return make_experiment("schema: 1\nmachine: " + machine + "\nmodel: " + model +
                         "\nengine: {kind: vllm, build: " + build + more +
                         "}\nworkload: {kind: llm_decode_bench, concurrency: 1, context: 1024}\n");
}

// Signed and absolute errors of one kind of step.
struct StepErrors {
  double sum = 0, absolute = 0;
  int count = 0;
  void add(double predicted, double measured) {
    const double e = predicted / measured - 1;
    sum += e;
    absolute += std::abs(e);
    ++count;
  }
  double bias() const { return sum / count; }
  double mape() const { return absolute / count; }
};

struct Step {
  std::int64_t us = 0, decodes = 0, prompts = 0, prompt_tokens = 0, context = 0;
};

double predicted_us(const Experiment& e, const Step& s) {
  PassShape pass;
  pass.decode_sequences = s.decodes;
  pass.decode_kv_tokens = pass.decode_kv_tokens_capped = s.context;
  pass.heads_rows = s.decodes + s.prompts;
  if (s.prompts == 0) {
    const int size = e.sizes().captured_size(s.decodes);
    return e.cost(pass.padded_to(size), true).device.us();
  }
  pass.extend_sequences = s.prompts;
  pass.extend_tokens = s.prompt_tokens;
  pass.extend_tokens_max = s.prompt_tokens / s.prompts;
  const std::int64_t each = s.prompt_tokens / s.prompts;
  pass.extend_pairs = pass.extend_pairs_capped = s.prompts * (each * (each + 1) / 2);
  return e.cost(pass, true).device.us();
}

}  // namespace

TEST_CASE("steps of Qwen3-14B on one H100: decode within 2 %, mixed within 4 %") {
  const auto file = shared_file("data/serving/steps_qwen3_14b_h100_vllm0230.csv.gz");
  if (!file) return;
  // a step that ran behind an idle engine has no beginning
  std::map<std::string, std::vector<Step>> runs;
  read_csv(*file,
           {"run", "dt_us", "idle_before", "n_decode", "n_prefill_done", "prefill_tokens",
            "sum_context_tokens"},
           [&](const std::vector<std::string>& f) {
             if (f[1].empty() || f[2] != "0" || std::stoll(f[3]) == 0) return;
             runs[f[0]].push_back({std::stoll(f[1]), std::stoll(f[3]), std::stoll(f[4]),
                                   std::stoll(f[5]), std::stoll(f[6])});
           });
  const auto fitted = experiment("1x-h100", "qwen3-14b", "vllm-0.23-sm90");
  const auto tables =
      experiment("1x-h100", "qwen3-14b", "vllm-0.23-sm90", ", fitted_constants: off");
  struct Stated {
    std::string run;
    double bias[2], mape[2];                // kernel tables alone: decode, mixed
    double fitted_bias[2], fitted_mape[2];  // with the build's three constants
  };
  // The constants were fitted on rate_2rps_vanilla.
  const Stated all[] = {
      {"rate_2rps_vanilla", {-0.004, -0.011}, {0.023, 0.034}, {0.005, 0.003}, {0.019, 0.031}},
      {"1T_2rps_vanilla", {-0.009, -0.019}, {0.022, 0.032}, {0.001, -0.006}, {0.016, 0.025}}};
  for (const Stated& stated : all) {
    StepErrors plain[2], with[2];
    for (const Step& s : runs[stated.run]) {
      const bool mixed = s.prompts > 0;
      const auto us = static_cast<double>(s.us);
      plain[mixed].add(predicted_us(*tables, s), us);
      with[mixed].add(predicted_us(*fitted, s), us);
    }
    for (const bool mixed : {false, true}) {
      INFO(stated.run << (mixed ? ", mixed: " : ", decode: ") << plain[mixed].count
                      << " steps; tables alone " << plain[mixed].bias() << ", "
                      << plain[mixed].mape() << "; with constants " << with[mixed].bias() << ", "
                      << with[mixed].mape());
      CHECK(plain[mixed].count > (mixed ? 1000 : 40'000));
      CHECK(std::abs(plain[mixed].bias() - stated.bias[mixed]) <= 0.002);
      CHECK(plain[mixed].mape() <= stated.mape[mixed] + 0.001);
      CHECK(std::abs(with[mixed].bias() - stated.fitted_bias[mixed]) <= 0.002);
      CHECK(with[mixed].mape() <= stated.fitted_mape[mixed] + 0.001);
      CHECK(with[mixed].mape() <= (mixed ? 0.04 : 0.02));
    }
  }
}

TEST_CASE("a decode step of Llama-3.1-8B is the sum of its profiled kernels") {
  const auto file = shared_file("data/kernels/llmservingsim/sm120_vllm019_profile.csv.gz");
  if (!file) return;
  // layer (or "attention KV") -> rows -> us
  std::map<std::string, std::map<std::string, std::map<std::int64_t, double>>> profile;
  read_csv(*file,
           {"gpu", "model", "tp", "table", "layer", "tokens", "sequences", "prefill_chunk",
            "n_decode", "kv_decode", "time_us"},
           [&](const std::vector<std::string>& f) {
             if (f[1] != "meta-llama/Llama-3.1-8B" || f[2] != "1") return;
             auto& card = profile[f[0]];
             if (f[3] == "attention" && f[7] == "0")
               card["attention " + f[9]][std::stoll(f[8])] = std::stod(f[10]);
             else if (f[3] != "attention")
               card[f[4]][std::stoll(f[5].empty() ? f[6] : f[5])] = std::stod(f[10]);
           });
  struct Card {
    std::string name, machine, build;
  };
  for (const Card& card : {Card{"RTXPRO6000", "1x-rtx-pro-6000", "vllm-0.19-sm120"},
                           Card{"RTX4090", "1x-rtx-4090", "vllm-0.19-sm89"}}) {
    auto& rows = profile[card.name];
    const auto e = experiment(card.machine, "llama-3.1-8b", card.build, ", fitted_constants: off");
    StepErrors errors;
    for (const std::int64_t n : {1, 2, 4, 8, 16, 32, 64, 128, 256})
      for (const std::int64_t kv : {64, 256, 1024, 4096}) {
        auto& attention = rows["attention " + std::to_string(kv)];
        if (!attention.count(n)) continue;
        double us = attention[n];
        for (const char* layer : {"layernorm", "layernorm", "qkv_proj", "rotary_emb", "o_proj",
                                  "gate_up_proj", "act_fn", "down_proj"})
          us += rows[layer].at(n);
        us *= 32;
        for (const char* once : {"embedding", "final_layernorm", "lm_head", "sampler"})
          us += rows[once].at(n);
        const double predicted = e->cost(PassShape::decode(n, kv), true).device.us();
        errors.add(predicted, us);
      }
    INFO(card.name << ": " << errors.count << " shapes, bias " << errors.bias() << ", mean error "
                   << errors.mape());
    CHECK(errors.count == 36);
    CHECK(std::abs(errors.bias()) <= 0.003);
    CHECK(errors.mape() <= 0.005);
  }
}

namespace {

struct Served {
  double scheduled = 0, first = 0, last = 0;
  std::int64_t input = 0, output = 0;
};

// Instants that are a known number of steps apart: groups of the marks of a run, each with its
// distance from the first of its group.
class Lattice {
 public:
  explicit Lattice(std::size_t marks) : parent_(marks), distance_(marks) {
    for (std::size_t i = 0; i < marks; ++i) parent_[i] = i;
  }
  std::pair<std::size_t, std::int64_t> find(std::size_t mark) const {
    std::int64_t distance = 0;
    for (; parent_[mark] != mark; mark = parent_[mark]) distance += distance_[mark];
    return {mark, distance};
  }
  /// `b` comes `steps` after `a`; false where that contradicts what is known.
  bool join(std::size_t a, std::size_t b, std::int64_t steps) {
    const auto [of_a, from_a] = find(a);
    const auto [of_b, from_b] = find(b);
    if (of_a == of_b) return from_b - from_a == steps;
    parent_[of_b] = of_a;
    distance_[of_b] = from_a + steps - from_b;
    return true;
  }

 private:
  std::vector<std::size_t> parent_;
  std::vector<std::int64_t> distance_;
};

// A served run with the steps between its marks.
struct ServedRun {
  std::vector<Served> requests;
  std::vector<double> marks;                        // ends of steps
  std::vector<std::size_t> scheduled, first, last;  // marks of each request
  std::map<std::size_t, bool> whole;                // whether no prompt scheduled at a mark was cut
  Lattice lattice{0};
  int conflicts = 0;
};

ServedRun served_run(const std::string& file, const std::string& run) {
  ServedRun out;
  auto& requests = out.requests;
  read_csv(file,
           {"run", "scheduled_s", "first_token_s", "last_token_s", "input_tokens", "output_tokens"},
           [&](const std::vector<std::string>& f) {
             if (f[0] == run)
               requests.push_back({std::stod(f[1]), std::stod(f[2]), std::stod(f[3]),
                                   std::stoll(f[4]), std::stoll(f[5])});
           });
  REQUIRE(requests.size() == 300);
  // Scheduling, first and last tokens are ends of steps; those within 1 ms are of the same step
  // (the shortest takes 10).
  std::vector<std::pair<double, std::size_t>> times;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    times.emplace_back(requests[i].scheduled, 3 * i);
    times.emplace_back(requests[i].first, 3 * i + 1);
    times.emplace_back(requests[i].last, 3 * i + 2);
  }
  std::sort(times.begin(), times.end());
  std::vector<double> marks;
  std::vector<std::size_t> mark_of(times.size());
  double before = -1;
  for (const auto& [time, id] : times) {
    if (time - before > 1e-3) marks.push_back(time);
    before = time;
    mark_of[id] = marks.size() - 1;
  }
  // A request has output - 1 steps behind its first token. From scheduling to that token it has
  // two, unless the token budget of 2,048 cut its prompt: of what is scheduled together and what
  // may still wait (a full budget takes up to 0.17 s), no more than the budget without the decodes.
  std::map<std::size_t, std::int64_t> scheduled;
  for (std::size_t i = 0; i < requests.size(); ++i) scheduled[mark_of[3 * i]] += requests[i].input;
  std::map<std::size_t, bool> whole;
  std::int64_t waiting = 0;
  double last_time = 0;
  constexpr std::int64_t budget = 1920;
  for (const auto& [mark, tokens] : scheduled) {
    const double apart = marks[mark] - last_time;
    waiting -= budget * (static_cast<std::int64_t>(apart / 0.17) + (apart > 0.05));
    waiting = std::max<std::int64_t>(waiting, 0) + tokens;
    whole[mark] = waiting < budget;
    last_time = marks[mark];
  }
  Lattice lattice(marks.size());
  int conflicts = 0;
  for (std::size_t i = 0; i < requests.size(); ++i)
    conflicts += !lattice.join(mark_of[3 * i + 1], mark_of[3 * i + 2], requests[i].output - 1);
  for (std::size_t i = 0; i < requests.size(); ++i)
    if (whole[mark_of[3 * i]]) conflicts += !lattice.join(mark_of[3 * i], mark_of[3 * i + 1], 2);

  out.marks = marks;
  out.whole = whole;
  out.lattice = lattice;
  out.conflicts = conflicts;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    out.scheduled.push_back(mark_of[3 * i]);
    out.first.push_back(mark_of[3 * i + 1]);
    out.last.push_back(mark_of[3 * i + 2]);
  }
  return out;
}

// Whole blocks; the last token of a prompt is always computed.
std::int64_t cached_tokens(const TraceRow& r) {
  return std::min<std::int64_t>(r.shared.tokens(), r.input - 1) / 16 * 16;
}

}  // namespace

TEST_CASE("served decode steps of Llama-3.1-8B on RTX PRO 6000, of known batch and lengths") {
  const auto file = shared_file("data/serving/requests_sm120_vllm019.csv");
  if (!file) return;
  const ServedRun run = served_run(*file, "RTXPRO6000/Llama-3.1-8B");
  const auto& [requests, marks] = std::tie(run.requests, run.marks);
  const Lattice& lattice = run.lattice;
  CHECK(run.conflicts == 0);
  const auto e = experiment("1x-rtx-pro-6000", "llama-3.1-8b", "vllm-0.19-sm120");
  const std::int64_t bands[] = {2, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 96, 127, 128};
  std::map<std::int64_t, std::array<double, 4>> sums;  // steps, measured, predicted, equal lengths
  StepErrors errors;
  std::int64_t steps = 0;
  for (std::size_t m = 0; m + 1 < marks.size(); ++m) {
    const auto [group, from] = lattice.find(m);
    const auto [next_group, to] = lattice.find(m + 1);
    if (group != next_group || to <= from) continue;
    const double begin = marks[m], end = marks[m + 1], middle = (begin + end) / 2;
    std::vector<std::int64_t> lengths;
    bool prompts = false;
    for (const Served& r : requests) {
      prompts = prompts || (r.scheduled < end - 1e-3 && r.first > begin + 1e-3);
      if (r.first > begin + 1e-3 || r.last < end - 1e-3) continue;
      const double done = (middle - r.first) / (r.last - r.first);
      lengths.push_back(r.input + 1 +
                        static_cast<std::int64_t>(done * static_cast<double>(r.output - 1)));
    }
    if (prompts || lengths.empty()) continue;
    PassShape pass;
    pass.decode_sequences = pass.heads_rows = static_cast<std::int64_t>(lengths.size());
    for (const std::int64_t length : lengths) {
      pass.decode_kv_tokens += length;
      pass.kv_max = std::max(pass.kv_max, length);
    }
    pass = pass.padded_to(e->sizes().captured_size(pass.decode_sequences));
    const double equal_ms = e->cost(pass, true).device.ms();
    pass.decode_kv_each = lengths;
    const double ms = e->cost(pass, true).device.ms();
    const double measured = (end - begin) / static_cast<double>(to - from) * 1e3;
    const auto n = static_cast<double>(to - from);
    for (int i = 0; i < to - from; ++i) errors.add(ms, measured);
    steps += to - from;
    for (const std::int64_t band : bands)
      if (static_cast<std::int64_t>(lengths.size()) <= band) {
        auto& sum = sums[band];
        sum[0] += n, sum[1] += n * measured, sum[2] += n * ms, sum[3] += n * equal_ms;
        break;
      }
  }
  std::string table;
  for (const auto& [band, sum] : sums)
    table +=
        fmt::format("up to {}: {:.0f} steps, measured {:.2f} ms, predicted {:.2f}, equal {:.2f}\n",
                    band, sum[0], sum[1] / sum[0], sum[2] / sum[0], sum[3] / sum[0]);
  INFO(table << steps << " steps, bias " << errors.bias() << ", mean error " << errors.mape());
  CHECK(steps == 623);
  CHECK(std::abs(errors.bias()) <= 0.008);
  CHECK(errors.mape() <= 0.016);
  for (const auto& [band, sum] : sums) CHECK(std::abs(sum[2] / sum[1] - 1) <= 0.04);
  // one and two sequences: nothing but the kernels
  CHECK(std::abs(sums[2][1] - sums[2][2]) / sums[2][0] <= 0.05);
}

// A prompt is scheduled while a step runs and another waits: between that and its first token lie
// one step without it and the one that computes it. What the scenario's list says it shares with an
// earlier prompt was cached.
TEST_CASE("served prompts of Llama-3.1-8B on RTX PRO 6000: a decode step and a mixed one") {
  const auto file = shared_file("data/serving/requests_sm120_vllm019.csv");
  if (!file) return;
  const ServedRun run = served_run(*file, "RTXPRO6000/Llama-3.1-8B");
  const auto rows = read_trace(
      (repo_root() / "scenarios/measured/requests/llama-3.1-8b-rtx-pro-6000.csv").string(),
      *find_trace_format("csv"));
  REQUIRE(rows);
  REQUIRE(rows->size() == run.requests.size());
  const auto e = experiment("1x-rtx-pro-6000", "llama-3.1-8b", "vllm-0.19-sm120");
  StepErrors errors, nothing_shared;
  double left_ms = 0;
  int sharing = 0, fast = 0, fast_nothing_shared = 0, slow = 0;
  for (std::size_t i = 0; i < run.requests.size(); ++i) {
    const Served& r = run.requests[i];
    const double begin = run.marks[run.scheduled[i]], end = run.marks[run.first[i]];
    if (!run.whole.at(run.scheduled[i])) continue;
    std::vector<std::int64_t> lengths;
    bool others = false;
    for (std::size_t k = 0; k < run.requests.size(); ++k) {
      const Served& o = run.requests[k];
      if (k != i) others = others || (o.scheduled < end - 1e-3 && o.first > begin + 1e-3);
      if (k == i || o.first > begin + 1e-3 || o.last < begin + 1e-3) continue;
      others = others || o.last < end - 1e-3;  // it ended between the two steps
      const double done = (begin - o.first) / (o.last - o.first);
      lengths.push_back(o.input + 2 +
                        static_cast<std::int64_t>(done * static_cast<double>(o.output - 1)));
    }
    if (others || lengths.empty()) continue;
    PassShape decode;
    decode.decode_sequences = decode.heads_rows = static_cast<std::int64_t>(lengths.size());
    for (const std::int64_t length : lengths) {
      decode.decode_kv_tokens += length;
      decode.kv_max = std::max(decode.kv_max, length);
    }
    const PassShape graphed = decode.padded_to(e->sizes().captured_size(decode.decode_sequences));
    const auto two_steps_ms = [&](std::int64_t cached) {
      PassShape first = graphed, mixed = decode;
      const PassShape extend = PassShape::extend(r.input - cached, cached, 0);
      const std::vector<PromptPart> prompts = {{r.input - cached, cached}};
      mixed.extend_sequences = 1;
      mixed.extend_tokens = mixed.extend_tokens_max = extend.extend_tokens;
      mixed.extend_pairs = mixed.extend_pairs_capped = extend.extend_pairs;
      mixed.heads_rows += 1;
      first.decode_kv_each = mixed.decode_kv_each = lengths;
      mixed.prompts = prompts;
      return e->cost(first, true).device.ms() + e->cost(mixed, true).device.ms();
    };
    const std::int64_t shared = cached_tokens((*rows)[i]);
    const double measured_ms = (end - begin) * 1e3;
    const double ms = two_steps_ms(shared), whole_ms = two_steps_ms(0);
    errors.add(ms, measured_ms);
    nothing_shared.add(whole_ms, measured_ms);
    left_ms += measured_ms - ms;
    sharing += shared > 0;
    fast += measured_ms - ms < -10;
    fast_nothing_shared += measured_ms - whole_ms < -10;
    slow += measured_ms - whole_ms > 10;
  }
  INFO(errors.count << " prompts, " << sharing << " of them sharing: bias " << errors.bias()
                    << ", mean error " << errors.mape() << ", left over " << left_ms / errors.count
                    << " ms; nothing shared: bias " << nothing_shared.bias() << ", mean error "
                    << nothing_shared.mape() << "; more than 10 ms faster than computed whole "
                    << fast_nothing_shared << ", slower " << slow
                    << ", faster than with what is cached " << fast);
  CHECK(errors.count == 123);
  CHECK(sharing == 13);
  CHECK(fast_nothing_shared == 12);
  CHECK(slow == 1);
  CHECK(fast == 1);  // all but one token cached: vLLM decodes it with the others, from a graph
  CHECK(std::abs(errors.bias() + 0.032) <= 0.003);
  CHECK(errors.mape() <= 0.040);
  CHECK(nothing_shared.mape() >= 0.063);
}

// Who shares what with whom: conversations go on, so that a later turn's prompt has the earlier
// one's, the answer to it and something new. Two prompts repeat all of an earlier one, two begin
// like one and go on otherwise.
TEST_CASE("what the prompts of the served Llama-3.1-8B runs share fits conversations") {
  std::vector<std::vector<TraceRow>> lists;
  for (const char* card : {"pro-6000", "4090"}) {
    auto rows = read_trace(
        (repo_root() / "scenarios/measured/requests" / fmt::format("llama-3.1-8b-rtx-{}.csv", card))
            .string(),
        *find_trace_format("csv"));
    REQUIRE(rows);
    lists.push_back(std::move(*rows));
  }
  std::int64_t cached = 0;
  int turns = 0, repeated = 0, alike = 0;
  std::set<std::size_t> continued;
  for (std::size_t i = 0; i < lists[0].size(); ++i) {
    const TraceRow& r = lists[0][i];
    CHECK(std::ranges::equal(r.shared.segments(), lists[1][i].shared.segments()));
    if (r.shared.empty()) continue;
    const std::int64_t n = r.shared.tokens();
    cached += cached_tokens(r);
    const auto& earlier = lists[0][static_cast<std::size_t>(r.shared.segments().back().stream - 2)];
    if (n == r.input && n == earlier.input) {
      ++repeated;
    } else if (n < earlier.input) {
      ++alike;
    } else {
      ++turns;
      CHECK(continued.insert(static_cast<std::size_t>(&earlier - lists[0].data())).second);
      CHECK(earlier.input + earlier.output < r.input);
    }
  }
  CHECK(turns == 28);
  CHECK(repeated == 2);
  CHECK(alike == 2);
  CHECK(cached == 19'520);  // of the PRO 6000 run, from a study of it with the same tokens
}
