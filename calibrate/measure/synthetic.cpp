// A GPU that is not there: the shipped tables of a card where they cover a point, its law with the
// guessed numbers else, each sample with noise, now and then an outlier or an episode of low
// clocks. Each point draws from a stream of its own, so that a resumed run is the run. Leaves out:
// drift, correlation between samples, anything a new kernel would do.

#include <algorithm>
#include <optional>

#include "calibrate/measure/back_end.hpp"
#include "sim/base/random.hpp"
#include "sim/scenario/kernel_files.hpp"

namespace {

constexpr double slow_clock = 0.7, slow_factor = 1.35;  // of an episode, assumed
constexpr std::size_t episode_samples = 40;

class Synthetic final : public MeasuringBackEnd {
 public:
  Synthetic(const BackEndOptions& options, KernelTables tables)
      : o_(options), tables_(std::move(tables)) {}

  DeviceFacts device() const override {
    return {o_.gpu.id, o_.gpu.name + " (synthetic)", "none", clock(), 0, ""};
  }
  Check prepare(const CalibrationPoint& p) override {
    if (p.kernel_class == "nccl" || p.kernel_class == "copy" || p.kernel_class == "launch")
      return {PointState::unsupported, "a synthetic card has no links and no host"};
    if (p.kernel_class == o_.unverified)
      return {PointState::unverified, "its result differs from the reference, as asked"};
    truth_us_ = truth(p);
    random_.emplace(static_cast<std::uint64_t>(o_.seed), "calibrate " + p.key());
    slow_ = random_->uniform() < o_.throttling ? episode_samples : 0;
    return {};
  }

  tl::expected<std::vector<Sample>, std::string> measure(std::size_t count) override {
    std::vector<Sample> out(count);
    for (Sample& s : out) {
      // sum of twelve uniforms: normal enough, and the same bits on every machine
      double normal = -6;
      for (int i = 0; i < 12; ++i) normal += random_->uniform();
      s.us = truth_us_ * std::max(0.5, 1 + o_.noise * normal);
      s.sm_clock_mhz = clock();
      if (random_->uniform() < o_.outliers) {
        s.us *= 1.2 + random_->uniform();
        s.stolen = random_->uniform() < 0.5;
      }
      if (slow_ > 0) {
        --slow_;
        s.us *= slow_factor;
        s.sm_clock_mhz *= slow_clock;
        s.throttled = true;
      }
    }
    return out;
  }

 private:
  double clock() const { return o_.gpu.boost_clock.count() * 1e-6; }

  double truth(const CalibrationPoint& p) const {
    const auto choice = tables_.find(p.kernel_class, "sglang", "", p.words);
    if (choice.set) return choice.set->predict_cold(p.x.data()).us;
    return p.estimate_us;
  }

  BackEndOptions o_;
  KernelTables tables_;
  double truth_us_ = 0;
  std::size_t slow_ = 0;
  std::optional<RandomStream> random_;
};

const Registered<MeasuringBackEndKind> me(
    "synthetic", {"a card's shipped tables and laws with seeded noise",
                  [](const BackEndOptions& options)
                      -> tl::expected<std::unique_ptr<MeasuringBackEnd>, BackEndRefusal> {
                    auto tables = load_kernel_tables(options.gpu, options.gpu.id);
                    if (!tables) return tl::unexpected(BackEndRefusal{false, tables.error()});
                    return std::make_unique<Synthetic>(options, std::move(*tables));
                  }});

}  // namespace
