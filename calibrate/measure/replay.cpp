// A recording measured again: the samples of a raw file in their order, its device, its kernels.
// With the same rules it ends in the same file; with others it shows what they change.

#include <algorithm>

#include "calibrate/measure/raw_file.hpp"

namespace {

class Replay final : public MeasuringBackEnd {
 public:
  explicit Replay(RawFile file) : file_(std::move(file)) {
    for (const auto& p : file_.points) points_[p.key] = &p;
  }
  DeviceFacts device() const override { return file_.header.device; }
  Check prepare(const CalibrationPoint& p) override {
    const auto it = points_.find(p.key());
    next_ = 0;
    now_ = it == points_.end() ? nullptr : it->second;
    if (!now_) return {PointState::failed, "the recording lacks it"};
    // states that came from the samples follow from them again
    if (now_->state == PointState::unverified || now_->state == PointState::unsupported ||
        now_->state == PointState::failed)
      return {now_->state, now_->reason};
    return {};
  }
  tl::expected<std::vector<Sample>, std::string> measure(std::size_t count) override {
    const auto& all = now_->samples;
    const std::size_t end = std::min(all.size(), next_ + count);
    std::vector<Sample> out(all.begin() + static_cast<std::ptrdiff_t>(next_),
                            all.begin() + static_cast<std::ptrdiff_t>(end));
    next_ = end;
    return out;
  }

 private:
  RawFile file_;
  std::map<std::string, const RawPoint*> points_;
  const RawPoint* now_ = nullptr;
  std::size_t next_ = 0;
};

const Registered<MeasuringBackEndKind> me(
    "replay", {"a raw file (--recording FILE) measured again",
               [](const BackEndOptions& options)
                   -> tl::expected<std::unique_ptr<MeasuringBackEnd>, BackEndRefusal> {
                 auto file = read_raw(options.recording);
                 if (!file) return tl::unexpected(BackEndRefusal{false, file.error()});
                 return std::make_unique<Replay>(std::move(*file));
               }});

}  // namespace
