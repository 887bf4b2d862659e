// Calibration without a GPU: the plan, the rules, a run on a synthetic card, its fit and its
// replay.

#include <cmath>
#include <set>

#include <catch2/catch.hpp>

#include "calibrate/measure/box_fit.hpp"
#include "calibrate/measure/probe.hpp"
#include "calibrate/measure/raw_file.hpp"
#include "sim/scenario/data.hpp"
#include "sim/scenario/kernel_files.hpp"
#include "sim/scenario/yaml.hpp"
#include "tests/support/process.hpp"

namespace {

const std::string card = "rtx-pro-6000-server";

CalibrationPlan plan_of(const std::string& profile, const std::string& model = "glm-5-nvfp4",
                        int tensor_parallel = 8) {
  const auto gpu = load_gpu_file(card);
  REQUIRE(gpu);
  const auto file = load_yaml(*find_data_file("models/zoo", model, {}), {});
  REQUIRE(file);
  Reading reading;
  const ModelSpec spec = read_model(model, *file, reading);
  REQUIRE(reading.errors.empty());
  PlanOptions options;
  options.profile = profile;
  options.tensor_parallel = tensor_parallel;
  return make_plan(spec, *gpu, options);
}

std::unique_ptr<MeasuringBackEnd> synthetic(BackEndOptions options = {}) {
  options.gpu = *load_gpu_file(card);
  auto back_end = Registry<MeasuringBackEndKind>::find("synthetic")->open(options);
  REQUIRE(back_end);
  return std::move(*back_end);
}

// A whole raw file of a run, as text; stops before point `most`.
std::string record(const CalibrationPlan& plan, MeasuringBackEnd& back_end,
                   const std::set<std::string>& have = {}, std::size_t most = 1u << 30,
                   RunCounts* counts = nullptr) {
  RawHeader header;
  header.back_end = "synthetic";
  header.device = back_end.device();
  header.version = "0.1.0";
  std::string text = to_line(header);
  auto c = run_plan(
      plan, back_end, [&](const std::string& key) { return have.count(key) > 0; },
      [&](std::size_t i, const std::string&) { return i < most; },
      [&](std::string_view line) { text += line; });
  if (counts) *counts = std::move(c);
  return text;
}

RawFile parsed(const std::string& text) {
  auto file = parse_raw("raw.jsonl", text);
  if (!file) FAIL(file.error().render());
  return std::move(*file);
}

std::map<std::string, std::string> tables_of(const RawFile& file) {
  const auto gpu = load_gpu_file(card);
  const auto fit = fit_raw({file}, *gpu);
  if (!fit) FAIL(fit.error().render());
  std::map<std::string, std::string> out;
  for (const auto& [name, sets] : fit->sets) out[name] = write_kernel_sets(gpu->id, sets);
  return out;
}

std::vector<double> upto(int n) {
  std::vector<double> out;
  for (int i = 1; i <= n; ++i) out.push_back(i);
  return out;
}

}  // namespace

TEST_CASE("a plan names no point twice, and a denser profile holds the sparser one's points") {
  std::set<std::string> full;
  for (const auto& p : plan_of("full").points) CHECK(full.insert(p.key()).second);
  for (const char* profile : {"smoke", "quick"})
    for (const auto& p : plan_of(profile).points) {
      INFO(p.key());
      CHECK(full.count(p.key()) == 1);
    }
}

TEST_CASE("a plan keeps to the time of its profile and rotates over three times the L2") {
  const auto gpu = load_gpu_file(card);
  for (const auto& [profile, seconds] :
       {std::pair("smoke", 60.0), std::pair("quick", 200.0), std::pair("full", 900.0)}) {
    const auto plan = plan_of(profile);
    INFO(profile << " " << plan.seconds());
    CHECK(plan.seconds() < seconds);
    CHECK(plan.seconds() > seconds / 20);
    for (const auto& p : plan.points) {
      CHECK(p.pool_bytes >= 2 * p.bytes);
      const std::set<std::string> warm{"nccl", "copy", "launch", "quantise_static", "elementwise"};
      if (!warm.count(p.kernel_class) || p.source == "stream_copy")
        CHECK(p.pool_bytes >= 3 * static_cast<double>(gpu->l2.count()));
      CHECK(p.launches >= 8);
      CHECK(p.launches * p.estimate_us >= 200);  // a sample is long for its clock
    }
  }
}

TEST_CASE("the plan of GLM-5 at TP8 holds the shapes of its graph") {
  std::set<std::string> keys;
  for (const auto& p : plan_of("smoke").points) keys.insert(p.key());
  // 256 experts of 2048, top 8, hidden 6144; 64 heads over 8 GPUs; the last token of 4096 has 4095
  // past ones
  CHECK(keys.count(
      "moe block_scale distribution=power_law_1.01 moe_dtype=nvfp4 topk=8 num_experts=256 "
      "hidden_size=6144 inter_size=2048 moe_ep_size=1 moe_tp_size=8 num_tokens=32"));
  CHECK(
      keys.count("generation_mla split_kv kv_cache_dtype=bfloat16 mla_dtype=bfloat16 num_heads=8 "
                 "batch_size=64 step=4095"));
  CHECK(keys.count("nccl nccl nccl_dtype=half num_gpus=8 op_name=all_reduce message_bytes=262144"));
  // one GPU reduces with nobody
  for (const auto& p : plan_of("smoke", "llama-3.1-8b", 1).points) CHECK(p.kernel_class != "nccl");
}

TEST_CASE("the median's interval is that of binomial ranks") {
  // 15 values 1..15: ranks 7.5 -+ 1.96 sqrt(15) / 2 = 3.7 and 11.3, the 4th and the 13th value
  CHECK(median_half_width(upto(15)) == Approx((13 - 4) / 2.0 / 8));
  CHECK(median_half_width(upto(5)) == 1);
  CHECK(median_half_width(std::vector<double>(15, 3)) == 0);
}

TEST_CASE("the stop rule asks for 15 samples, settles on quiet ones and gives up on noise") {
  const auto spread = [](std::size_t n, double us, double noise) {
    std::vector<double> out;
    for (std::size_t i = 0; i < n; ++i)
      out.push_back(us *
                    (1 + noise * (static_cast<double>(i * 7 % n) / static_cast<double>(n) - 0.5)));
    return out;
  };
  CHECK(stop_rule(std::vector<double>(14, 50), 9, false) == Stop::go_on);
  CHECK(stop_rule(std::vector<double>(15, 50), 0, false) == Stop::settled);
  CHECK(stop_rule(spread(299, 50, 1), 0, false) == Stop::go_on);
  CHECK(stop_rule(spread(300, 50, 1), 0, false) == Stop::gave_up);
  CHECK(stop_rule(spread(20, 50, 1), 1.5, false) == Stop::gave_up);
  // uniform over 5 %: ranks 3 and 12 of 15 are 9/15 x 5 % = 3 % apart, a half width of 1.5 %
  CHECK(stop_rule(spread(15, 50, 0.05), 0, false) == Stop::go_on);
  CHECK(stop_rule(spread(15, 5, 0.05), 0, false) == Stop::settled);  // 2 % below 10 us
  CHECK(stop_rule(spread(15, 50, 0.05), 0, true) == Stop::settled);  // 3 % for collectives
}

TEST_CASE("an outlier is dropped only with an excuse, and only while excuses are rare") {
  // median 10.5, MAD 0.5: beyond 10.5 + 3
  std::vector<Sample> samples;
  for (int i = 0; i < 40; ++i) samples.push_back({i % 2 ? 10.0 : 11.0, 2430, false, false});
  samples.push_back({20, 2430, false, false});
  CHECK(outliers({10, 11, 10, 11, 20}).size() == 1);
  CHECK(judge(samples, true).outliers == 1);
  CHECK(judge(samples, true).dropped == 0);
  samples.back().stolen = true;
  CHECK(judge(samples, true).dropped == 1);
  CHECK(judge(samples, true).state == PointState::ok);  // 1 of 41 is 2.4 %
  CHECK(judge(samples, false).state == PointState::noisy);
  samples[0].throttled = samples[2].throttled = samples[4].throttled = true;  // 3 of 41: 7.3 %
  CHECK(judge(samples, true).state == PointState::throttled);
}

TEST_CASE("a fit of the synthetic card is within 2 % of what the card is made of") {
  const auto plan = plan_of("smoke");
  std::map<std::string, double> laws;  // of what no shipped table has
  for (const auto& p : plan.points) laws[p.key()] = p.estimate_us;
  const auto back_end = synthetic();
  const RawFile file = parsed(record(plan, *back_end));
  const auto gpu = load_gpu_file(card);
  const auto truth = load_kernel_tables(*gpu, card);
  REQUIRE(truth);
  const auto fit = fit_raw({file}, *gpu);
  REQUIRE(fit);
  std::size_t compared = 0;
  for (const auto& [name, sets] : fit->sets)
    for (auto set : sets) {
      set.prepare(*gpu);
      for (const auto& p : file.points) {
        auto words = p.words;
        if (set.words.count("kernel_source")) words["kernel_source"] = p.kernel_source;
        if (p.kernel_class != name || words != set.words || !fittable(p.state)) continue;
        const auto choice = truth->find(name, "sglang", "", p.words);
        INFO(p.key);
        REQUIRE((choice.set || p.kernel_class == "elementwise"));
        const double us = choice.set ? choice.set->predict_cold(p.x.data()).us : laws.at(p.key);
        CHECK(set.predict(p.x.data()).us == Approx(us).epsilon(0.02));
        ++compared;
      }
    }
  CHECK(compared == fit->points);
  // elementwise's law with its guesses: 80 % of 1,792 GB/s
  REQUIRE(fit->probes.size() == 1);
  CHECK(fit->probes[0].what == "elementwise stream_copy");
  CHECK(fit->probes[0].rate == Approx(0.8 * 1792).epsilon(0.02));
  CHECK(fit->probes[0].line_rate_part == Approx(0.8).epsilon(0.02));
  std::size_t links = 0;  // which a synthetic card has not
  for (const auto& p : file.points) links += p.state == PointState::unsupported;
  CHECK(compared > (plan.points.size() - links) * 9 / 10);

  // the recording, measured again, gives the same tables, byte for byte
  const process::TemporaryFolder folder;
  BackEndOptions options;
  options.gpu = *gpu;
  options.recording = folder.write("raw.jsonl", record(plan, *back_end));
  const auto replay = Registry<MeasuringBackEndKind>::find("replay")->open(options);
  REQUIRE(replay);
  CHECK(tables_of(parsed(record(plan, **replay))) == tables_of(file));
}

TEST_CASE("a run cut off in the middle of a line goes on to the file of a whole run") {
  const auto plan = plan_of("smoke", "llama-3.1-8b", 1);
  const auto back_end = synthetic();
  const std::string whole = record(plan, *back_end);
  RunCounts counts;
  std::string part = record(plan, *back_end, {}, 5, &counts);
  CHECK(counts.left == plan.points.size() - 5);
  part.resize(part.size() - 30);  // killed while it wrote
  const RawFile file = parsed(part);
  CHECK(file.cut_off);
  CHECK(file.points.size() == 4);
  std::set<std::string> have;
  for (const auto& p : file.points) have.insert(p.key);
  std::string rest = record(plan, *back_end, have);
  rest.erase(0, rest.find('\n') + 1);
  CHECK(part.substr(0, file.whole_bytes) + rest == whole);
}

TEST_CASE("kernels that fail their check and throttled points are recorded and never fitted") {
  const auto plan = plan_of("smoke");
  BackEndOptions options;
  options.unverified = "moe";
  RunCounts counts;
  const RawFile file = parsed(record(plan, *synthetic(options), {}, 1u << 30, &counts));
  CHECK(counts.states[PointState::unverified] ==
        3 * plan_grid("smoke")->tokens.size());  // by three kernels
  CHECK(tables_of(file).count("moe") == 0);
  CHECK(tables_of(file).count("gemm") == 1);

  options.throttling = 1;
  const auto few = plan_of("smoke", "llama-3.1-8b", 1);
  const RawFile slow = parsed(record(few, *synthetic(options)));
  for (const auto& p : slow.points)
    CHECK((p.state == PointState::throttled || p.state == PointState::unsupported));
  const auto fit = fit_raw({slow}, *load_gpu_file(card));
  REQUIRE(!fit);
  CHECK(fit.error().render().find("throttled") != std::string::npos);
}

TEST_CASE("collectives are fitted from their first setting and shown for all") {
  // every launch takes 10 us and 1 us a KiB, half of it under Simple
  struct Links final : MeasuringBackEnd {
    double us = 0;
    DeviceFacts device() const override { return {card, "a card", "580.95", 2430, 0, ""}; }
    Check prepare(const CalibrationPoint& p) override {
      us = 10 + p.x[0] / 1024;
      if (p.source.find("Simple") != std::string::npos) us /= 2;
      return {};
    }
    tl::expected<std::vector<Sample>, std::string> measure(std::size_t count) override {
      return std::vector<Sample>(count, {us, 2430, false, false});
    }
  } links;
  CalibrationPlan plan = plan_of("quick");
  std::erase_if(plan.points, [](const auto& p) { return p.kernel_class != "nccl"; });
  const RawFile file = parsed(record(plan, links));
  const auto fit = fit_raw({file}, *load_gpu_file(card));
  if (!fit) FAIL(fit.error().render());
  REQUIRE(fit->collectives.size() == 4);  // and all_gather, reduce_scatter, all_to_all
  CHECK(fit->collectives[3].op == "all_to_all");
  CHECK(fit->collectives[0].op == "all_reduce");
  CHECK(fit->collectives[0].gpus == 8);
  REQUIRE(fit->collectives[0].points.size() == 7);
  CHECK(fit->collectives[0].points[1].bytes == 2048);
  CHECK(fit->collectives[0].points[1].us == Approx(12));
  CHECK(fit->settings == std::vector<std::string>{"nccl", "nccl_eager", "nccl NCCL_PROTO=Simple"});
  REQUIRE(fit->by_setting.size() == 7);  // those measured under several
  CHECK(fit->by_setting[1].second == std::vector<double>{12, 12, 6});
  CHECK(render_fit(*fit).find("nccl NCCL_PROTO=Simple") != std::string::npos);
}

TEST_CASE("two seeds differ by noise, a slower card by more") {
  const auto plan = plan_of("smoke", "llama-3.1-8b", 1);
  const RawFile a = parsed(record(plan, *synthetic()));
  BackEndOptions other;
  other.seed = 2;
  RawFile b = parsed(record(plan, *synthetic(other)));
  const auto quiet = compare_raw(a, b);
  std::size_t moved = 0;
  for (const auto& p : quiet.points) moved += p.beyond_noise;
  CHECK(moved <= quiet.points.size() / 20);
  for (auto& p : b.points)
    for (auto& s : p.samples) s.us *= 1.1;
  for (const auto& p : compare_raw(a, b).points) CHECK(p.beyond_noise);
  CHECK(compare_raw(a, a).points.front().after_us == compare_raw(a, a).points.front().before_us);
}

TEST_CASE("a raw file that is wrong is refused with the place") {
  const auto plan = plan_of("smoke", "llama-3.1-8b", 1);
  const auto back_end = synthetic();
  std::string text = record(plan, *back_end, {}, 2);
  const auto refused = [](const std::string& wrong, const std::string& said) {
    const auto file = parse_raw("raw.jsonl", wrong);
    REQUIRE(!file);
    INFO(file.error().render());
    CHECK(file.error().render().find(said) != std::string::npos);
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string out = text;
    out.replace(out.find(from), from.size(), to);
    return out;
  };
  refused("{}\n", "'kind' is missing");
  refused("", "has no whole line");
  refused(with("\"class\":\"gemm\"", "\"class\":\"gem\""), "did you mean 'gemm'?");
  refused(with("\"state\":\"ok\"", "\"state\":\"fine\""), "there is no state 'fine'");
  refused(with("\"samples_us\":[", "\"samples_us\":[0,"), "as many clocks as samples");
  refused(with("m=1\"", "m=2\""), "the sizes of this line are those of");
  refused(with("\"launches\":", "\"launches\":0."), "must be a whole number from 1 up");
}

TEST_CASE("a box is read from a tree like /sys") {
  const process::TemporaryFolder root;
  const std::string at = "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/";
  root.write(at + "vendor", "0x10de\n");
  root.write(at + "class", "0x030200\n");
  root.write(at + "device", "0x2bb5\n");
  root.write(at + "numa_node", "-1\n");
  root.write(at + "max_link_speed", "32.0 GT/s PCIe\n");
  root.write(at + "max_link_width", "16\n");
  root.write("sys/class/dmi/id/product_name", "Standard PC (Q35 + ICH9, 2009)\n");
  root.write("sys/devices/system/node/node0/cpulist", "0-63\n");
  namespace fs = std::filesystem;
  fs::create_directories(root.path() / "sys/bus/pci/devices");
  fs::create_symlink(root.path() / at, root.path() / "sys/bus/pci/devices/0000:01:00.0");
  const auto box = read_box(root.path().string(), "KVM");
  REQUIRE(box.gpus.size() == 1);
  CHECK(box.gpus[0].bridges == std::vector<std::string>{"0000:00:01.0"});
  CHECK(box.gpus[0].numa_node == -1);
  CHECK(box.numa_nodes == 1);
  CHECK(render_box(box).find("ceiling import topology") != std::string::npos);
  CHECK(machine_file_draft(box, card).find("runs_in: kvm_guest") != std::string::npos);
  CHECK(read_box((root.path() / "nowhere").string(), "").gpus.empty());
}
