#include "calibrate/import/step_times.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace {

// Upper ends of the classes of batch. A full batch, often a power of two, stands alone.
std::int64_t decode_class(std::int64_t sequences) {
  if (sequences <= 2) return 2;
  if (sequences <= 4) return 4;
  if (sequences <= 96) return (sequences + 7) / 8 * 8;
  for (std::int64_t power = 128;; power *= 2) {
    if (sequences == power) return power;
    if (sequences < power) return power - 1;
  }
}

std::int64_t prompt_class(std::int64_t tokens) {
  std::int64_t out = 256;
  while (out < tokens) out *= 2;
  return out;
}

struct Sum {
  std::size_t steps = 0, predicted = 0;
  double ms = 0, predicted_ms = 0, sequences = 0, context = 0;
  std::int64_t least = 0, most = 0;

  void add(const LatticeStep& step, std::int64_t size, double time_ms, std::optional<double> p) {
    least = steps == 0 ? size : std::min(least, size);
    most = steps == 0 ? size : std::max(most, size);
    ++steps;
    ms += time_ms;
    sequences += static_cast<double>(step.decode());
    context += static_cast<double>(step.context());
    if (p) ++predicted, predicted_ms += *p;
  }
  StepTimes mean() const {
    const auto n = static_cast<double>(steps);
    StepTimes out{least, most, steps, ms / n, sequences / n, context / n, std::nullopt};
    if (predicted == steps && steps > 0) out.predicted_ms = predicted_ms / n;
    return out;
  }
};

}  // namespace

StepTables step_tables(const StepLattice& lattice, const StepPredictor& predict) {
  StepTables out;
  std::map<std::int64_t, Sum> decode, prefill;
  const auto prediction = [&](const LatticeStep& s) {
    return predict ? predict(s) : std::optional<double>();
  };
  for (const LatticeStep& s : lattice.steps) {
    if (!s.complete)
      ++out.incomplete;
    else if (s.after_idle)
      ++out.after_idle;
    else if (s.stretch_prefills == 0)
      decode[decode_class(s.decode())].add(s, s.decode(), s.time_s * 1e3, prediction(s));
  }
  // The mean of the nearest class.
  const auto decode_ms = [&](std::int64_t sequences) -> std::optional<double> {
    if (decode.empty()) return std::nullopt;
    auto it = decode.lower_bound(decode_class(sequences));
    if (it == decode.end()) it = std::prev(it);
    return it->second.ms / static_cast<double>(it->second.steps);
  };
  const auto& steps = lattice.steps;
  for (std::size_t k = 0; k < steps.size();) {
    const auto end = std::min(k + static_cast<std::size_t>(steps[k].stretch), steps.size());
    const std::size_t begin = std::exchange(k, end);
    if (steps[begin].stretch_prefills == 0) continue;
    bool usable = true;
    for (std::size_t i = begin; i < end; ++i)
      usable = usable && steps[i].complete && !steps[i].after_idle;
    if (!usable) continue;
    const bool all = steps[begin].stretch_prefills == steps[begin].stretch;
    double ms = steps[begin].time_s * 1e3;
    if (!all) {
      if (steps[begin].stretch_prefills > 1) {
        out.mixed_up += end - begin;
        continue;
      }
      ms *= static_cast<double>(steps[begin].stretch);
      bool known = true;
      for (std::size_t i = begin; i < end; ++i)
        if (steps[i].prefill_tokens == 0) {
          const auto other = decode_ms(steps[i].decode());
          known = known && other.has_value();
          ms -= other.value_or(0);
        }
      if (!known || ms <= 0) {
        out.mixed_up += end - begin;
        continue;
      }
    }
    for (std::size_t i = begin; i < end; ++i)
      if (steps[i].prefill_tokens > 0)
        prefill[prompt_class(steps[i].prefill_tokens)].add(steps[i], steps[i].prefill_tokens, ms,
                                                           prediction(steps[i]));
  }
  for (const auto& [size, sum] : decode) out.decode.push_back(sum.mean());
  for (const auto& [size, sum] : prefill) out.prefill.push_back(sum.mean());
  return out;
}

std::string steps_csv(const StepLattice& lattice) {
  std::string out =
      "step,t_s,dt_s,n_decode,prefill_tokens,sum_context,after_idle,complete,stretch\n";
  for (const LatticeStep& s : lattice.steps)
    out += fmt::format("{},{:.6f},{:.6f},{},{},{},{},{},{}\n", s.index, s.end_s, s.time_s,
                       s.decode(), s.prefill_tokens, s.context(), s.after_idle ? 1 : 0,
                       s.complete ? 1 : 0, s.stretch);
  return out;
}
