// Least squares on the log of the step time, so that a row at one request counts as much as one
// at 64. Small kernels and the all-reduce cannot be told apart by decode curves, nor factors on
// attention from both: two numbers is what such rows hold (docs/models/builds.md).

#include "sim/scenario/fit_build.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>

#include "sim/base/assert.hpp"
#include "sim/scenario/experiment.hpp"

namespace {

using Pair = std::array<double, 2>;  // small kernels in us, log of the rate

double sum_of_squares(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v * v;
  return sum;
}

struct Normal {
  double a = 0, b = 0, c = 0;  // J^T J = [a b; b c]
  Pair gradient{};             // J^T r
  double determinant() const { return a * c - b * b; }
};

Normal normal_equations(const std::vector<Pair>& jacobian, const std::vector<double>& residuals,
                        const std::array<bool, 2>& free) {
  Normal n;
  for (std::size_t i = 0; i < residuals.size(); ++i) {
    const double x = free[0] ? jacobian[i][0] : 0, y = free[1] ? jacobian[i][1] : 0;
    n.a += x * x;
    n.b += x * y;
    n.c += y * y;
    n.gradient[0] += x * residuals[i];
    n.gradient[1] += y * residuals[i];
  }
  // A number that is held leaves the other alone.
  if (!free[0]) n.a = 1;
  if (!free[1]) n.c = 1;
  return n;
}

}  // namespace

TwoNumbersFit fit_two_numbers(const LogErrors& log_errors, const TwoNumbers& start,
                              const TwoNumbersBounds& bounds) {
  const auto at = [&](const Pair& p) { return log_errors({p[0], std::exp(p[1])}); };
  const Pair low = {0, std::log(bounds.moe_rate_min)};
  const Pair high = {bounds.small_kernels_us_max, std::log(bounds.moe_rate_max)};
  const auto inside = [&](Pair p) {
    for (std::size_t k = 0; k < 2; ++k) p[k] = std::clamp(p[k], low[k], high[k]);
    return p;
  };
  Pair p = inside({start.small_kernels_us, std::log(start.moe_rate)});
  std::vector<double> residuals = at(p);
  SIM_ASSERT(residuals.size() >= 3);
  std::vector<Pair> jacobian(residuals.size());
  std::array<bool, 2> free = {true, true};
  for (int round = 0; round < 30; ++round) {
    const Pair steps = {0.5, 0.01};
    for (std::size_t k = 0; k < 2; ++k) {
      Pair q = p;
      // Away from the bound, where the derivative is one-sided.
      const double step = p[k] + steps[k] > high[k] ? -steps[k] : steps[k];
      q[k] += step;
      const auto moved = at(q);
      for (std::size_t i = 0; i < moved.size(); ++i)
        jacobian[i][k] = (moved[i] - residuals[i]) / step;
    }
    free = {true, true};
    Normal n = normal_equations(jacobian, residuals, free);
    const auto step_of = [&] {
      const double d = n.determinant();
      if (!(d > 1e-12 * n.a * n.c)) return Pair{0, 0};
      return Pair{-(n.c * n.gradient[0] - n.b * n.gradient[1]) / d,
                  -(n.a * n.gradient[1] - n.b * n.gradient[0]) / d};
    };
    Pair step = step_of();
    for (std::size_t k = 0; k < 2; ++k) {
      const bool pushed = (p[k] <= low[k] && step[k] < 0) || (p[k] >= high[k] && step[k] > 0);
      if (!pushed || !(free[0] && free[1])) continue;
      free[k] = false;
      n = normal_equations(jacobian, residuals, free);
      step = step_of();
    }
    double size = 1;
    bool better = false;
    for (int halving = 0; halving < 10 && !better; ++halving, size /= 2) {
      const Pair q = inside({p[0] + size * step[0], p[1] + size * step[1]});
      auto moved = at(q);
      if (sum_of_squares(moved) >= sum_of_squares(residuals)) continue;
      better = true;
      const bool settled = std::abs(q[0] - p[0]) < 1e-3 && std::abs(q[1] - p[1]) < 1e-5;
      p = q;
      residuals = std::move(moved);
      if (settled) round = 30;
    }
    if (!better) break;
  }

  TwoNumbersFit out;
  out.numbers = {p[0], std::exp(p[1])};
  out.small_kernels_at_bound = p[0] <= low[0] || p[0] >= high[0];
  out.moe_rate_at_bound = p[1] <= low[1] || p[1] >= high[1];
  const Normal n = normal_equations(jacobian, residuals, free);
  const double d = n.determinant();
  const auto degrees = static_cast<double>(residuals.size() - 2);
  const double variance = sum_of_squares(residuals) / degrees;
  constexpr double nine_of_ten = 1.645;
  if (d > 0) {
    if (free[0] && p[0] > 0)
      out.small_kernels_spread = 1 + nine_of_ten * std::sqrt(variance * n.c / d) / p[0];
    if (free[1]) out.moe_rate_spread = std::exp(nine_of_ten * std::sqrt(variance * n.a / d));
  }
  for (std::size_t i = 0; i < residuals.size(); ++i) {
    out.errors.push_back(std::exp(residuals[i]) - 1);
    const double x = free[0] ? jacobian[i][0] : 0, y = free[1] ? jacobian[i][1] : 0;
    const double leverage = d > 0 ? (n.c * x * x - 2 * n.b * x * y + n.a * y * y) / d : 0;
    out.leave_one_out.push_back(std::exp(residuals[i] / std::max(1 - leverage, 0.05)) - 1);
  }
  return out;
}

namespace {

// One row as a fit needs it: its inputs read once, its step as measured.
struct Row {
  Inputs inputs;
  double step_ms = 0;
};

double predicted_ms(Row& row) {
  auto made = Experiment::make(row.inputs);
  SIM_ASSERT(made);
  return (*made)->run().tpot_ms.mean;
}

void put(Inputs& in, const std::string& path, const std::string& value) {
  const Location where = in.build.where();
  in.build.set(path, Settings::map({{"value", where, Settings::scalar(value, where)},
                                    {"basis", where, Settings::scalar("fitted", where)}},
                                   where));
}

}  // namespace

Expected<BuildFit> fit_build(const std::string& build, const std::vector<Scenario>& scenarios) {
  BuildFit out;
  out.build = build;
  Diagnostics errors;
  std::vector<Row> rows;
  for (const Scenario& scenario : scenarios) {
    const auto in = resolve(scenario);
    if (!in) {
      errors.append(in.error());
      continue;
    }
    const auto made = Experiment::make(*in);
    if (!made) {
      errors.append(made.error());
      continue;
    }
    const Location place = scenario.tree.at("engine")->where();
    const auto* decode = std::get_if<SteadyDecode>(&(*made)->workload().passes);
    if (in->build_id != build) {
      errors.error(place, fmt::format("{} runs build '{}'", scenario.name, in->build_id),
                   fmt::format("name files that run '{}'", build));
      continue;
    }
    if (!decode) {
      errors.error(scenario.tree.at("workload")->where(),
                   fmt::format("{} is no steady decode", scenario.name),
                   "the two numbers are fitted on llm_decode_bench rows");
      continue;
    }
    for (const Expectation& e : scenario.expect) {
      const bool rate = e.metric == "output_throughput";
      if (!e.left_out.empty() || (!rate && e.metric != "tpot_ms.mean")) continue;
      const double ms = rate ? 1e3 * static_cast<double>(decode->sequences) / e.value : e.value;
      rows.push_back({*in, ms});
      out.rows.push_back({scenario.name, decode->sequences});
      const std::filesystem::path file(scenario.file);
      const std::string name = file.parent_path().filename().string() + " " + file.stem().string();
      if (out.fitted_on.empty() || out.fitted_on.back() != name) out.fitted_on.push_back(name);
      break;
    }
  }
  if (errors.empty() && rows.size() < 3)
    errors.error({}, fmt::format("{} measured rows are too few for two numbers", rows.size()),
                 "name files with at least three");
  if (!errors.empty()) return tl::unexpected(errors);

  const auto step_errors = [&] {
    std::vector<double> list;
    for (Row& row : rows) list.push_back(predicted_ms(row) / row.step_ms - 1);
    return list;
  };
  const bool had = rows.front().inputs.build.at("fitted.moe_rate") != nullptr;
  if (had) out.before = step_errors();
  const auto log_errors = [&](const TwoNumbers& x) {
    std::vector<double> list;
    for (Row& row : rows) {
      put(row.inputs, "fitted.small_kernels", fmt::format("{:.6f} us", x.small_kernels_us));
      put(row.inputs, "fitted.moe_rate", fmt::format("{:.6f} GB/s", x.moe_rate / 1e9));
      list.push_back(std::log(predicted_ms(row) / row.step_ms));
    }
    return list;
  };
  TwoNumbersBounds bounds;
  const auto memory =
      parse<BytesPerSecond>(rows.front().inputs.gpu.find("memory_bandwidth")->text());
  if (memory) bounds.moe_rate_max = memory->count();
  out.fit = fit_two_numbers(log_errors, {30, 1.2e12}, bounds);
  for (Row& row : rows)
    row.inputs.scenario.set("engine.fitted_constants",
                            Settings::scalar("off", row.inputs.scenario.where()));
  out.unfitted = step_errors();
  return out;
}
