// The fit of laws and tables on rows whose truth is a formula.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "calibrate/fit/inpaint.hpp"
#include "calibrate/fit/kernels.hpp"
#include "tests/support/kernel_sets.hpp"
#include "tests/support/process.hpp"

namespace {

using Formula = std::function<double(const Coordinates&)>;

/// A factor within `spread` of 1, the same on every machine.
class Noise {
 public:
  explicit Noise(double spread, unsigned seed = 1) : random_(seed), spread_(spread) {}
  double operator()() {
    return 1 + spread_ * (2 * static_cast<double>(random_()) / 4294967295.0 - 1);
  }

 private:
  std::mt19937 random_;
  double spread_;
};

KernelRows rows_of(const std::string& kernel_class, const tiny::Grid& grid, const Formula& us,
                   double noise = 0) {
  KernelRows out;
  out.kernel_class = kernel_class;
  out.engine = "sglang";
  out.version = "0.5.14";
  out.words = tiny::words(*KernelClasses::find(kernel_class));
  out.source = "a formula";
  Noise factor(noise);
  tiny::for_each_point(grid, grid.size(), [&](const Coordinates& x) {
    KernelRow row;
    row.x = x;
    row.time_us = us(x) * factor();
    row.line = int(out.rows.size()) + 2;
    out.rows.push_back(row);
  });
  return out;
}

/// The class's own law with these parameters.
Formula law_of(const std::string& kernel_class, std::vector<double> parameters) {
  const KernelClass& kind = *KernelClasses::find(kernel_class);
  const auto context = kind.context(tiny::gpu(), tiny::words(kind));
  return [&kind, context, p = std::move(parameters)](const Coordinates& x) {
    return kind.law(context, p.data(), x.data());
  };
}

std::vector<double> errors_on(const KernelSet& set, const std::vector<KernelRow>& rows,
                              const Formula& truth) {
  std::vector<double> out;
  for (const auto& row : rows)
    out.push_back(std::abs(set.predict(row.x.data()).us / truth(row.x) - 1));
  return out;
}

void check_recovers(const std::string& kernel_class, const tiny::Grid& grid,
                    const std::vector<double>& parameters, const std::set<std::string>& vague) {
  INFO(kernel_class);
  const auto truth = law_of(kernel_class, parameters);
  const auto fitted = fit_law(rows_of(kernel_class, grid, truth, 0.01), tiny::gpu());
  const KernelClass& kind = *KernelClasses::find(kernel_class);
  REQUIRE(fitted.size() == parameters.size());
  for (std::size_t i = 0; i < fitted.size(); ++i) {
    INFO(kind.parameters[i].name);
    CHECK(fitted[i] >= kind.parameters[i].lower);
    CHECK(fitted[i] <= kind.parameters[i].upper);
    if (!vague.count(kind.parameters[i].name))
      CHECK(fitted[i] == Approx(parameters[i]).epsilon(0.05));
  }
}

const tiny::Grid gemm_grid{
    {512, 1024, 2048, 4096, 8192}, {512, 1024, 2048, 4096, 8192}, tiny::powers(0, 13)};
const std::vector<double> gemm_law{3.7, 0.72, 1.6, 0.66, 4};

// A row in the middle of a curve, slow by this factor.
KernelRow& slow_down(KernelRows& rows, std::size_t i, double factor) {
  rows.rows.at(i).time_us *= factor;
  return rows.rows.at(i);
}

std::size_t cells_of(const KernelSet& set) { return set.cells.size(); }

}  // namespace

// ---- the law ----

TEST_CASE("the parameters of a law are found again through 1 % of noise") {
  check_recovers("gemm", gemm_grid, gemm_law, {});
  check_recovers("quantise_static", {{1024, 2048, 7168}, tiny::powers(0, 16)}, {2.2, 0.7}, {});
  check_recovers("mla_bmm", {{4, 16, 64, 128}, tiny::powers(0, 14)}, {5.1, 0.6, 0.3}, {});
  // the start-up of the bulk protocol shows where both meet
  check_recovers("nccl", {tiny::powers(9, 29)}, {14, 1.2, 60, 21}, {});
  // the serial part of 1 ns a token hides behind a start-up of 10 us
  check_recovers("generation_mla", {{8, 16, 64, 128}, tiny::powers(0, 9), tiny::powers(4, 16)},
                 {12, 0.66, 0.31, 40, 2, 1.5}, {});
}

TEST_CASE("a term that the others hide at the first guess is found") {
  // Arithmetic at a tenth of the peak, where the guess of a half lies under the
  // traffic.
  check_recovers("mla_bmm", {{4, 16, 64, 128}, tiny::powers(0, 14)}, {5.1, 2.6, 0.1}, {});
  // Waves of whole tiles hide all traffic, at the guess the arithmetic too.
  check_recovers("gemm", gemm_grid, {3.7, 0.72, 1.6, 0.66, 0.81},
                 {"bandwidth_efficiency", "warm_efficiency"});
}

TEST_CASE("a few wild rows do not bend the law") {
  const auto truth = law_of("gemm", gemm_law);
  auto rows = rows_of("gemm", gemm_grid, truth, 0.01);
  for (std::size_t i = 7; i < rows.rows.size(); i += 40) slow_down(rows, i, 4);
  const auto fitted = fit_law(rows, tiny::gpu());
  for (std::size_t i = 0; i < fitted.size(); ++i)
    CHECK(fitted[i] == Approx(gemm_law[i]).epsilon(0.05));
}

// ---- shapes that were not measured ----

TEST_CASE("shapes left out of the rows are predicted within 2 % in the median") {
  struct Case {
    std::string kernel_class;
    tiny::Grid grid;
    std::vector<double> parameters;
  };
  for (const Case& c : {Case{"gemm", gemm_grid, gemm_law},
                        Case{"generation_mla",
                             {{8, 16, 64, 128}, tiny::powers(0, 9), tiny::powers(4, 16)},
                             {12, 0.66, 0.31, 40, 2, 1.5}},
                        Case{"generation_attention",
                             {{1, 4, 8}, {8, 32, 64}, tiny::powers(0, 8), tiny::powers(4, 15)},
                             {9, 0.7, 0.4, 3, 0.5, 1.5}}}) {
    INFO(c.kernel_class);
    // what the law does not know: a smooth bend of 15 %
    const auto law = law_of(c.kernel_class, c.parameters);
    const auto truth = [&](const Coordinates& x) {
      const double a = doubling(x[c.grid.size() - 2]), b = doubling(x[c.grid.size() - 1]);
      return law(x) * (1 + 0.15 * (a - b) / (4 + std::abs(a) + std::abs(b)));
    };
    auto rows = rows_of(c.kernel_class, c.grid, truth, 0.01);
    const std::size_t axes = KernelClasses::find(c.kernel_class)->shape_axes;
    std::vector<KernelRow> left_out;
    std::vector<KernelRow> kept;
    Coordinates shape{};
    std::size_t number = 0;
    for (const auto& row : rows.rows) {
      if (!std::equal(shape.begin(), shape.begin() + std::ptrdiff_t(axes), row.x.begin())) ++number;
      shape = row.x;
      (number % 5 == 2 ? left_out : kept).push_back(row);
    }
    rows.rows = kept;
    const auto set = fit_kernel_set(rows, tiny::gpu(), {}, nullptr);
    CHECK(left_out.size() > kept.size() / 8);
    CHECK(summarise(errors_on(set, left_out, truth)).median < 0.02);
    CHECK(summarise(errors_on(set, kept, truth)).median < 0.01);
    CHECK(set.error_median < 0.02);
  }
}

namespace {

// A grid of ratios with one hole; the estimate in the hole.
double inpainted(const std::string& kernel_class, const tiny::Grid& grid, const Formula& ratio,
                 const Coordinates& hole) {
  RaggedGrid ragged(*KernelClasses::find(kernel_class));
  tiny::for_each_point(grid, grid.size(), [&](const Coordinates& x) {
    if (x != hole) ragged.add(x, ratio(x));
  });
  ragged.learn();
  const auto got = ragged.estimate(hole);
  REQUIRE(got);
  return *got;
}

}  // namespace

TEST_CASE("a hole in a smooth grid is filled within 1 %") {
  const tiny::Grid grid{{8, 16, 32, 64}, tiny::powers(0, 8), tiny::powers(4, 14)};
  const auto smooth = [](const Coordinates& x) {
    const double h = doubling(x[0]), b = doubling(x[1]), s = doubling(x[2]);
    return 1 + 0.004 * (b - 3) * (b - 3) + 0.01 * s - 0.002 * b * s + 0.02 * h;
  };
  for (const Coordinates hole : {Coordinates{16, 8, 256}, {32, 64, 4096}, {16, 2, 32}})
    CHECK(inpainted("generation_mla", grid, smooth, hole) == Approx(smooth(hole)).epsilon(0.01));
}

TEST_CASE("a hole on a cliff along equal products is filled by the diagonal") {
  // Twice as slow from 2^13 tokens in all on, as where the L2 ends; no axis
  // alone sees it.
  const tiny::Grid grid{{16}, tiny::powers(0, 8), tiny::powers(4, 14)};
  const auto cliff = [](const Coordinates& x) { return x[1] * x[2] < 8192 ? 1.0 : 2.0; };
  for (const double batch : {4.0, 16.0, 64.0})
    for (const double tokens : {4096.0, 8192.0}) {
      const Coordinates hole{16, batch, tokens / batch};
      INFO(batch << " x " << hole[2]);
      CHECK(inpainted("generation_mla", grid, cliff, hole) == Approx(cliff(hole)).epsilon(0.01));
    }
}

TEST_CASE("the end of a curve steps as its neighbours do, and nothing is made up off the grid") {
  // another kernel at the first length, which takes twice the time
  const tiny::Grid grid{{16}, tiny::powers(0, 8), tiny::powers(4, 14)};
  RaggedGrid ragged(*KernelClasses::find("generation_mla"));
  tiny::for_each_point(grid, 3, [&](const Coordinates& x) {
    if (x[1] > 1 || x[2] > 16) ragged.add(x, x[2] > 16 ? 1 : 2);
  });
  ragged.learn();
  REQUIRE(ragged.estimate({16, 1, 16}));
  CHECK(*ragged.estimate({16, 1, 16}) == Approx(2));
  CHECK_FALSE(ragged.estimate({16, 3, 64}));
  CHECK_FALSE(ragged.estimate({32, 4, 64}));
  // a whole curve at the rim has no point to step from
  RaggedGrid without(*KernelClasses::find("generation_mla"));
  tiny::for_each_point({{16, 32}, tiny::powers(0, 3), {16, 32, 64}}, 3, [&](const Coordinates& x) {
    if (x[0] < 32 || x[1] > 1) without.add(x, 1);
  });
  without.learn();
  CHECK_FALSE(without.estimate({32, 1, 32}));
}

// ---- the table ----

TEST_CASE("one slow sample does not pull its neighbours") {
  std::vector<double> columns;
  for (double m = 1; m < 20000; m = std::max(m + 1, std::floor(m * 1.25))) columns.push_back(m);
  const tiny::Grid grid{{1024, 2048, 4096}, {2048, 4096, 8192}, columns};
  const auto truth = law_of("gemm", gemm_law);
  auto rows = rows_of("gemm", grid, truth);
  // in the middle of the middle shape
  const std::size_t at = 4 * columns.size() + columns.size() / 2;
  const Coordinates slow = slow_down(rows, at, 2.5).x;
  const auto set = fit_kernel_set(rows, tiny::gpu(), {}, nullptr);
  REQUIRE(set.columns.size() < columns.size());
  for (const auto& row : rows.rows) {
    if (row.x == slow) continue;
    INFO(row.x[0] << " x " << row.x[1] << " x " << row.x[2]);
    CHECK(set.predict(row.x.data()).us == Approx(truth(row.x)).epsilon(0.02));
  }
}

TEST_CASE("a class with one curve is fitted and read back: collectives") {
  // NCCL's curve has a step where the protocol changes.
  const tiny::Grid grid{tiny::powers(9, 29)};
  const auto law = law_of("nccl", {14, 1.2, 60, 21});
  const auto truth = [&](const Coordinates& x) {
    return law(x) * (x[0] >= 65536 && x[0] < 1 << 20 ? 1.3 : 1.0);
  };
  const auto rows = rows_of("nccl", grid, truth);
  const auto set = fit_kernel_set(rows, tiny::gpu(), {}, nullptr);
  CHECK(set.shapes.size() == 1);
  CHECK(set.rows_measured == rows.rows.size());
  CHECK(summarise(errors_on(set, rows.rows, truth)).worst < 0.10);
  CHECK(summarise(errors_on(set, rows.rows, truth)).median < 0.005);
  auto read = read_kernel_sets("nccl.table", write_kernel_sets("tiny", {set}));
  if (!read) FAIL(read.error().render());
  read->front().prepare(tiny::gpu());
  for (const auto& row : rows.rows)
    CHECK(read->front().predict(row.x.data()).us == set.predict(row.x.data()).us);
}

TEST_CASE("a table without a word that its rows do not state is fitted with '?'") {
  for (const auto& [id, kind] : KernelClasses::entries()) {
    INFO(id);
    tiny::Grid grid(kind.axes.size(), {16});
    grid.back() = tiny::powers(1, 10);
    auto rows = rows_of(id, grid, [](const Coordinates&) { return 100; });
    rows.words.clear();
    const auto set = fit_kernel_set(rows, tiny::gpu(), {}, nullptr);
    for (const auto& word : kind.words) CHECK(set.words.at(word) == "?");
    const auto read = read_kernel_sets("a.table", write_kernel_sets("tiny", {set}));
    if (!read) FAIL(read.error().render());
  }
}

TEST_CASE(
    "cross errors are one a row, in the order of the rows, and no row is "
    "skipped") {
  for (const std::size_t count : {2, 3, 5, 7, 8, 20}) {
    INFO(count << " rows");
    auto grid = tiny::powers(9, 28);
    grid.resize(count);
    // a saw that no law and no neighbour tells
    std::size_t at = 0;
    const auto rows =
        rows_of("nccl", {grid}, [&](const Coordinates&) { return at++ % 2 ? 50.0 : 20.0; });
    std::vector<double> errors;
    const auto set = fit_kernel_set(rows, tiny::gpu(), {}, &errors);
    REQUIRE(errors.size() == count);
    for (const double e : errors) CHECK(e > 0.05);
    CHECK(set.error_median > 0.05);
    CHECK(set.error_p90 >= set.error_median);
  }
  auto rows = rows_of("gemm", gemm_grid, law_of("gemm", gemm_law));
  const std::size_t at = 12 * 14 + 6;
  slow_down(rows, at, 3);
  std::vector<double> errors;
  fit_kernel_set(rows, tiny::gpu(), {}, &errors);
  REQUIRE(errors.size() == rows.rows.size());
  CHECK(std::max_element(errors.begin(), errors.end()) - errors.begin() == std::ptrdiff_t(at));
  CHECK(errors[at] == Approx(2.0 / 3).epsilon(0.05));
}

TEST_CASE("a shape tolerance makes the table smaller and its error hardly larger") {
  // a bend that straight lines between a third of the shapes follow
  tiny::Grid grid{{1024, 4096}, {}, tiny::powers(0, 12)};
  for (double k = 512; k <= 16384; k += 512) grid[1].push_back(k);
  const auto law = law_of("gemm", gemm_law);
  const auto rows = rows_of(
      "gemm", grid,
      [&](const Coordinates& x) { return law(x) * (1 + 0.02 * doubling(x[1] / 512)); }, 0.01);
  KernelFitOptions options;
  const auto all = fit_kernel_set(rows, tiny::gpu(), options, nullptr);
  CHECK(all.shapes.size() == 64);
  std::size_t before = cells_of(all);
  for (const double tolerance : {0.02, 0.05}) {
    options.shape_tolerance = tolerance;
    const auto some = fit_kernel_set(rows, tiny::gpu(), options, nullptr);
    CHECK(cells_of(some) < cells_of(all) * 3 / 4);
    CHECK(cells_of(some) <= before);
    before = cells_of(some);
    CHECK(some.error_median < all.error_median + tolerance / 2);
    // the first and the last of a size stay: between them is no guess
    CHECK(some.shapes.front() == all.shapes.front());
    CHECK(some.shapes.back() == all.shapes.back());
  }
}

TEST_CASE("columns are at most as many as asked for") {
  std::vector<double> columns;
  for (int m = 1; m <= 60; ++m) columns.push_back(m * 64);
  Noise noise(0.3, 7);
  const auto rows = rows_of("gemm", {{1024, 2048}, {2048, 4096}, columns},
                            [&](const Coordinates&) { return 50 * noise(); });
  KernelFitOptions options;
  options.folds = 0;
  for (const std::size_t most : {8, 28}) {
    options.columns_max = most;
    const auto set = fit_kernel_set(rows, tiny::gpu(), options, nullptr);
    CHECK(set.columns.size() <= most);
    CHECK(set.columns.front() == columns.front());
    CHECK(set.columns.back() == columns.back());
  }
}

TEST_CASE("what was judged is what is written") {
  const auto rows = rows_of("gemm", gemm_grid, law_of("gemm", gemm_law), 0.05);
  const auto set = fit_kernel_set(rows, tiny::gpu(), {}, nullptr);
  auto read = read_kernel_sets("gemm.table", write_kernel_sets("tiny", {set}));
  if (!read) FAIL(read.error().render());
  read->front().prepare(tiny::gpu());
  CHECK(read->front().error_median == Approx(set.error_median).margin(1e-4));
  for (const auto& row : rows.rows)
    CHECK(read->front().predict(row.x.data()).us == set.predict(row.x.data()).us);
}

TEST_CASE("the same rows give the same bytes, in whatever order a file has them") {
  const process::TemporaryFolder folder;
  const auto rows = rows_of("gemm", gemm_grid, law_of("gemm", gemm_law), 0.05);
  std::vector<std::string> lines;
  for (const auto& row : rows.rows)
    lines.push_back(fmt::format("formula,bfloat16,{},{},{},{:.6g}\n", row.x[0], row.x[1], row.x[2],
                                row.time_us / 1000));
  const auto fitted = [&] {
    std::string text = "kernel_source,gemm_dtype,n,k,m,latency_ms\n";
    for (const auto& line : lines) text += line;
    const auto import = import_aiconfigurator(folder.write("gemm__sglang_0.5.14.csv", text));
    if (!import) FAIL(import.error().render());
    REQUIRE(import->sets.size() == 1);
    REQUIRE(import->sets[0].rows.size() == rows.rows.size());
    std::vector<double> errors;
    const auto set = fit_kernel_set(import->sets[0], tiny::gpu(), {}, &errors);
    std::string out = write_kernel_sets("tiny", {set});
    for (const double e : errors) out += fmt::format(" {}", e);
    return out;
  };
  const auto first = fitted();
  CHECK(fitted() == first);
  std::mt19937 random(3);
  for (std::size_t i = lines.size(); i-- > 1;) std::swap(lines[i], lines[random() % (i + 1)]);
  CHECK(fitted() == first);
}

TEST_CASE("errors are judged apart for the experts of decode and of prefill") {
  KernelRows rows;
  rows.kernel_class = "moe";
  rows.rows.resize(3);
  rows.rows[0].x = {8, 256, 6144, 2048, 1, 8, 16};
  rows.rows[1].x = {8, 256, 6144, 2048, 1, 8, 256};
  rows.rows[2].x = {8, 256, 6144, 2048, 1, 8, 257};
  const auto parts = judged_parts(rows, {0.1, 0.2, 0.3});
  REQUIRE(parts.size() == 2);
  CHECK(parts[0].name == "moe_decode");
  CHECK(parts[0].errors == std::vector<double>{0.1, 0.2});
  CHECK(parts[1].name == "moe_prefill");
  CHECK(parts[1].errors == std::vector<double>{0.3});
  CHECK(judged_name("gemm", {1, 1, 1}) == "gemm");
}

TEST_CASE(
    "a summary of errors has their median, p90 and worst, and nothing of "
    "nothing") {
  const auto s = summarise({0.5, 0.1, 0.2, 0.4, 0.3});
  CHECK(s.points == 5);
  CHECK(s.median == 0.3);
  CHECK(s.p90 == 0.5);
  CHECK(s.worst == 0.5);
  CHECK(summarise({}).points == 0);
  CHECK(summarise({}).worst == 0);
}
