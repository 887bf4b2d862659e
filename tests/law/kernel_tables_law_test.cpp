// Laws of the fitted kernel tables: what holds for every table, whatever was
// measured.

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>
#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include "models/cost/kernel_tables.hpp"
#include "sim/base/versions.hpp"
#include "tests/support/kernel_sets.hpp"

namespace {

/// 1 to about a million, small ones often.
double size() {
  const int bits = *rc::gen::inRange(0, 20);
  return static_cast<double>(*rc::gen::inRange<std::int64_t>(1, (1LL << bits) + 1));
}

std::vector<double> ascending(std::size_t most) {
  std::vector<double> out;
  for (int n = *rc::gen::inRange(1, int(most) + 1); n > 0; --n) out.push_back(size());
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// Classes with one, two, three, four and seven axes; a law at any sizes is all
// they need.
std::string some_class() {
  return *rc::gen::element<std::string>("nccl", "quantise_static", "gemm", "generation_mla",
                                        "generation_attention", "moe");
}

tiny::Grid some_grid(const KernelClass& kind) {
  tiny::Grid grid;
  for (std::size_t a = 0; a + 1 < kind.axes.size(); ++a)
    grid.push_back(ascending(kind.axes.size() > 4 ? 2 : 3));
  grid.push_back(ascending(5));
  return grid;
}

double thousandths() { return *rc::gen::inRange(200, 5000) / 1000.0; }

struct Table {
  tiny::Grid grid;
  KernelSet set;
};

/// A table whose cells are what can be written, in letters or in thousandths.
Table some_table(bool full = true) {
  const auto id = some_class();
  Table t;
  t.grid = some_grid(*KernelClasses::find(id));
  const double step = *rc::gen::element(0.0, 1.02, 1.036, 1.25);
  const Letters letters(step > 0 ? step : 2);
  t.set = tiny::set(id, t.grid, [&](const Coordinates&) {
    if (!full && *rc::gen::inRange(0, 4) == 0) return 0.0;  // not kept
    return step > 0 ? letters.ratio(letters.letter(thousandths())) : thousandths();
  });
  t.set.letter_step = step;
  if (!full) {  // holes: shapes that were not measured
    const std::size_t width = t.set.columns.size();
    for (std::size_t row = t.set.shapes.size(); row-- > 1;) {
      if (*rc::gen::inRange(0, 3) > 0) continue;
      t.set.shapes.erase(t.set.shapes.begin() + std::ptrdiff_t(row));
      const auto from = t.set.cells.begin() + std::ptrdiff_t(row * width);
      t.set.cells.erase(from, from + std::ptrdiff_t(width));
    }
  }
  t.set.prepare(tiny::gpu());
  return t;
}

Coordinates some_point(const KernelClass& kind) {
  Coordinates x{};
  for (std::size_t a = 0; a < kind.axes.size(); ++a) x[a] = size();
  return x;
}

// Between the smallest and the largest of an axis.
double within(const std::vector<double>& axis) {
  return double(*rc::gen::inRange(std::int64_t(axis.front()), std::int64_t(axis.back()) + 1));
}

double floor_us(const KernelSet& set, const Coordinates& x) {
  const auto bound = set.kind().bound(set.context(), x.data());
  return std::max(bound.arithmetic_us, bound.memory_us);
}

}  // namespace

// ---- one table ----

TEST_CASE("a measured point is returned as it was measured") {
  CHECK(rc::check([] {
    const auto t = some_table(false);
    const std::size_t width = t.set.columns.size(), curve = t.grid.size() - 1;
    for (std::size_t i = 0; i < t.set.cells.size(); ++i) {
      if (t.set.cells[i] == 0) continue;
      Coordinates x = t.set.shapes[i / width];
      x[curve] = t.set.columns[i % width];
      const auto answer = t.set.predict(x.data());
      RC_ASSERT(answer.us == std::max(t.set.law_us(x.data()) * t.set.cells[i], floor_us(t.set, x)));
      RC_ASSERT(answer.provenance == Provenance::measured);
      RC_ASSERT(!answer.extrapolated);
    }
  }));
}

TEST_CASE("between measured points the ratio lies between theirs") {
  CHECK(rc::check([] {
    const auto t = some_table();
    Coordinates x{};
    tiny::Grid corners;
    for (std::size_t a = 0; a < t.grid.size(); ++a) {
      const auto& axis = t.grid[a];
      x[a] = within(axis);
      const auto above = std::lower_bound(axis.begin(), axis.end(), x[a]);
      corners.push_back({*above});
      if (*above != x[a]) corners.back().insert(corners.back().begin(), *(above - 1));
    }
    double low = 1e9, high = 0;
    tiny::for_each_point(corners, corners.size(), [&](const Coordinates& corner) {
      const double ratio = t.set.predict(corner.data()).us / t.set.law_us(corner.data());
      if (floor_us(t.set, corner) >= t.set.predict(corner.data()).us) return;
      low = std::min(low, ratio);
      high = std::max(high, ratio);
    });
    const auto answer = t.set.predict(x.data());
    RC_ASSERT(!answer.extrapolated);
    if (answer.us <= floor_us(t.set, x) || high == 0) return;
    const double ratio = answer.us / t.set.law_us(x.data());
    RC_ASSERT(ratio <= high * (1 + 1e-12));
    // a corner under its bound counts for more than its cell
    if (low < 1e9) RC_ASSERT(ratio >= std::min(low, ratio) * (1 - 1e-12));
  }));
}

TEST_CASE("half a doubling from either neighbour the ratio is the mean of both") {
  // 1.5 times a power of two lies half-way on the doubling scale.
  auto set = tiny::set("nccl", {{1024, 2048, 8192}},
                       [](const Coordinates& x) { return x[0] == 2048 ? 1.4 : 1.0; });
  set.prepare(tiny::gpu());
  const auto ratio = [&](double bytes) { return set.predict(&bytes).us / set.law_us(&bytes); };
  CHECK(ratio(1536) == Approx(1.2));
  CHECK(ratio(4096) == Approx(1.2));
  CHECK(ratio(512) == Approx(1.0));
  CHECK(ratio(1 << 30) == Approx(1.0));
}

TEST_CASE(
    "a shape that is missing from a grid is judged by its neighbours "
    "along both sizes") {
  // m = 64, k = 2: neighbours along n say 1.0, along k 2.0.
  auto set = tiny::set("gemm", {{1, 2, 4}, {1, 2, 4}, {64}},
                       [](const Coordinates& x) { return x[0] == 2 ? 2.0 : 1.0; });
  set.shapes.erase(set.shapes.begin() + 4);
  set.cells.erase(set.cells.begin() + 4);
  set.prepare(tiny::gpu());
  const double x[] = {2, 2, 64};
  const auto answer = set.predict(x);
  CHECK(answer.us / set.law_us(x) == Approx(1.5));
  CHECK(answer.provenance == Provenance::interpolated);
}

TEST_CASE("sizes that name a model are taken from the nearest one, not mixed") {
  tiny::Grid grid{{8}, {64, 256}, {4096}, {2048}, {1}, {8}, {16}};
  auto set = tiny::set("moe", grid, [](const Coordinates& x) { return x[1] == 64 ? 1.0 : 3.0; });
  set.prepare(tiny::gpu());
  for (const auto& [experts, ratio] : {std::pair(80.0, 1.0), {120.0, 1.0}, {200.0, 3.0}}) {
    const double x[] = {8, experts, 4096, 2048, 1, 8, 16};
    CHECK(set.predict(x).us / set.law_us(x) == Approx(ratio));
  }
}

TEST_CASE("no answer is below the bound of its class, and serving is never faster") {
  CHECK(rc::check([] {
    const auto t = some_table(false);
    const auto x = some_point(t.set.kind());
    const auto answer = t.set.predict(x.data());
    RC_ASSERT(answer.us >= floor_us(t.set, x));
    RC_ASSERT(answer.us > 0);
    RC_ASSERT(std::isfinite(answer.us));
    RC_ASSERT(t.set.predict_cold(x.data()).us >= answer.us);
  }));
}

TEST_CASE(
    "only beyond twice the measured range of some size is an answer "
    "extrapolated") {
  CHECK(rc::check([] {
    const auto t = some_table();
    const auto x = some_point(t.set.kind());
    bool beyond = false, inside = true;
    for (std::size_t a = 0; a < t.grid.size(); ++a) {
      beyond |= 2 * x[a] < t.grid[a].front() || x[a] > 2 * t.grid[a].back();
      inside &= x[a] >= t.grid[a].front() && x[a] <= t.grid[a].back();
    }
    const auto answer = t.set.predict(x.data());
    RC_ASSERT(answer.extrapolated == beyond);
    if (beyond) RC_ASSERT(answer.provenance == Provenance::fitted);
    if (inside) RC_ASSERT(answer.provenance != Provenance::fitted);
  }));
}

// ---- the text of a table ----

TEST_CASE(
    "a table that is written and read again gives the same times to the "
    "last bit") {
  CHECK(rc::check([] {
    const auto t = some_table(false);
    const auto text = write_kernel_sets("tiny", {t.set});
    auto read = read_kernel_sets("tiny.table", text);
    if (!read) RC_FAIL(read.error().render());
    RC_ASSERT(read->size() == 1);
    auto& again = read->front();
    again.prepare(tiny::gpu());
    RC_ASSERT(again.words == t.set.words);
    RC_ASSERT(again.cells == t.set.cells);
    RC_ASSERT(again.shapes == t.set.shapes);
    RC_ASSERT(write_kernel_sets("tiny", *read) == text);
    for (int i = 0; i < 20; ++i) {
      const auto x = some_point(t.set.kind());
      const auto a = t.set.predict(x.data()), b = again.predict(x.data());
      RC_ASSERT(a.us == b.us);
      RC_ASSERT(a.provenance == b.provenance);
      RC_ASSERT(a.extrapolated == b.extrapolated);
    }
  }));
}

TEST_CASE(
    "sizes of more than six digits and words with spaces survive a round "
    "trip") {
  // 2^27 as 1.34218e+08 would no longer be the measured size
  auto set = tiny::set("nccl", {tiny::powers(9, 30)}, [](const Coordinates&) { return 1.25; });
  set.words["op_name"] = "all reduce";
  const auto read = read_kernel_sets("a.table", write_kernel_sets("tiny", {set}));
  if (!read) FAIL(read.error().render());
  CHECK(read->front().columns == set.columns);
  CHECK(read->front().words == set.words);
}

TEST_CASE("letters ascend, and each stands for itself") {
  for (const double step : {1.001, 1.02, 1.036, 1.1, 1.5}) {
    const Letters letters(step);
    INFO(step);
    CHECK(letters.ratio('P') == 1);
    for (char c = '!'; c < '~'; ++c) {
      CHECK(letters.ratio(static_cast<char>(c + 1)) > letters.ratio(c));
      // '-' is kept for what was not measured
      if (c != '-') CHECK(letters.letter(letters.ratio(c)) == c);
    }
  }
}

TEST_CASE("a letter is at most half a step away, or one step beside '-'") {
  CHECK(rc::check([] {
    const double step = *rc::gen::inRange(1010, 1200) / 1000.0;
    const Letters letters(step);
    const double ratio = *rc::gen::inRange(400, 2400) / 1000.0;
    RC_PRE(ratio >= letters.ratio('!') && ratio <= letters.ratio('~'));
    const char c = letters.letter(ratio);
    const double off = std::abs(letters.ratio(c) / ratio - 1);
    RC_ASSERT(off <= (c == ',' || c == '.' ? step - 1 : (step - 1) / 2) + 1e-12);
  }));
}

TEST_CASE(
    "the doubling scale ascends, counts doublings, and is straight "
    "between them") {
  for (int k = -1; k < 52; ++k) {
    CHECK(doubling(std::ldexp(1.0, k)) == k);
    CHECK(doubling(std::ldexp(1.25, k)) == k + 0.25);
  }
  CHECK(doubling(0) == -1);
  CHECK(rc::check([] {
    const double a = size(), b = size();
    RC_ASSERT((a < b) == (doubling(a) < doubling(b)));
    RC_ASSERT(doubling(2 * a) == Approx(doubling(a) + 1));
  }));
}

// ---- laws of the classes ----

namespace {

// A size that such an axis has in some model or batch.
double plausible(const std::string& axis) {
  const auto power = [](int from, int to) {
    return static_cast<double>(std::int64_t{1} << *rc::gen::inRange(from, to + 1));
  };
  const auto upto = [](std::int64_t most) {
    const int bits = *rc::gen::inRange(0, 62);
    return double(*rc::gen::inRange<std::int64_t>(1, 1 + std::min(most, std::int64_t{1} << bits)));
  };
  if (axis == "step" || axis == "kv_prefill" || axis == "kv_decode")
    return *rc::gen::inRange(0, 8) ? upto(1 << 20) : 0;
  if (axis == "prefill_chunk" || axis == "n_decode")
    return *rc::gen::inRange(0, 8) ? upto(1 << 14) : 0;
  if (axis.ends_with("heads")) return power(0, 7);
  if (axis == "num_key_value_heads" || axis == "moe_tp_size" || axis == "moe_ep_size")
    return power(0, 3);
  if (axis == "topk") return upto(16);
  if (axis == "num_experts") return power(3, 9);
  if (axis == "hidden_size" || axis == "inter_size") return 128 * upto(128);
  if (axis == "n" || axis == "k") return 32 * upto(2048);
  if (axis == "batch_size") return upto(2048);
  if (axis == "message_bytes") return 2 * upto(std::int64_t{1} << 33);
  return upto(1 << 18);  // tokens
}

Coordinates plausible_point(const KernelClass& kind) {
  Coordinates x{};
  for (std::size_t a = 0; a < kind.axes.size(); ++a) x[a] = plausible(kind.axes[a].column);
  return x;
}

LawContext some_context(const KernelClass& kind) {
  auto words = tiny::words(
      kind, *rc::gen::element<std::string>("bfloat16", "fp8", "fp8_block", "nvfp4", "w4a16_mxfp4"));
  if (words.count("head_dim"))
    words["head_dim"] = *rc::gen::element<std::string>("64", "128", "256");
  if (words.count("window_size"))
    words["window_size"] = *rc::gen::element<std::string>("0", "128", "4096");
  if (words.count("distribution"))
    words["distribution"] = *rc::gen::element<std::string>("balanced", "power_law_1.2");
  GpuSpec gpu = tiny::gpu();
  gpu.sm_count = *rc::gen::element(46, 108, 132, 188);
  gpu.l2 = Bytes(std::int64_t{*rc::gen::inRange(4, 200)} << 20);
  return kind.context(gpu, words);
}

template <class Law>
void for_each_class(Law&& law) {
  for (const auto& [id, kind] : KernelClasses::entries()) {
    INFO(id);
    CHECK(rc::check(id, [&law, &k = kind] { law(k); }));
  }
}

}  // namespace

TEST_CASE("every kernel class has a law with sane guesses and as many sizes as fit") {
  CHECK(KernelClasses::entries().size() >= 17);
  for (const auto& [id, kind] : KernelClasses::entries()) {
    INFO(id);
    CHECK(kind.axes.size() <= kernel_axes_max);
    CHECK(kind.axes.back().between == Between::interpolate);
    CHECK(kind.shape_axes >= 1);
    CHECK(kind.shape_axes <= kind.axes.size());
    CHECK_FALSE(kind.tables.empty());
    for (const auto& p : kind.parameters) {
      INFO(p.name);
      CHECK(0 < p.lower);  // the fit works on logarithms
      CHECK(p.lower < p.guess);
      CHECK(p.guess < p.upper);
    }
  }
}

TEST_CASE("every law is positive and finite at plausible sizes") {
  for_each_class([](const KernelClass& kind) {
    const auto context = some_context(kind);
    const auto x = plausible_point(kind);
    const double us = kind.law(context, tiny::guesses(kind).data(), x.data());
    RC_ASSERT(us > 0);
    RC_ASSERT(us < 1e15);
    if (kind.cold) RC_ASSERT(kind.cold(context, tiny::guesses(kind).data(), x.data()) > 0);
    const auto bound = kind.bound(context, x.data());
    RC_ASSERT(bound.arithmetic_us >= 0);
    RC_ASSERT(bound.memory_us >= 0);
  });
}

TEST_CASE("no law takes less time for more of its last size") {
  for_each_class([](const KernelClass& kind) {
    const auto context = some_context(kind);
    auto x = plausible_point(kind), y = x;
    const std::size_t curve = kind.axes.size() - 1;
    y[curve] = plausible(kind.axes[curve].column);
    // A sparse prompt of one token counts as decode, whose KV the law reads;
    // from two tokens on it hides behind the arithmetic.
    if (kind.tables.front() == "dsa_context_module") RC_PRE(x[curve] >= 2);
    RC_PRE(x[curve] <= y[curve]);
    const auto p = tiny::guesses(kind);
    RC_ASSERT(kind.law(context, p.data(), x.data()) <=
              kind.law(context, p.data(), y.data()) * (1 + 1e-9));
  });
}

TEST_CASE("twice the peak or twice the bandwidth is never slower") {
  for_each_class([](const KernelClass& kind) {
    const auto context = some_context(kind);
    const auto x = plausible_point(kind);
    const auto p = tiny::guesses(kind);
    auto peak = context, bandwidth = context;
    peak.peak *= 2;
    bandwidth.bandwidth *= 2;
    const double us = kind.law(context, p.data(), x.data()) * (1 + 1e-9);
    RC_ASSERT(kind.law(peak, p.data(), x.data()) <= us);
    RC_ASSERT(kind.law(bandwidth, p.data(), x.data()) <= us);
    const auto bound = kind.bound(context, x.data());
    RC_ASSERT(kind.bound(peak, x.data()).arithmetic_us <= bound.arithmetic_us);
    RC_ASSERT(kind.bound(bandwidth, x.data()).memory_us <= bound.memory_us);
  });
}

TEST_CASE("a law whose efficiencies are at most 1 keeps its bound") {
  for_each_class([](const KernelClass& kind) {
    const auto context = some_context(kind);
    const auto x = plausible_point(kind);
    auto p = tiny::guesses(kind);
    for (std::size_t i = 0; i < p.size(); ++i)
      if (kind.parameters[i].name.find("efficiency") != std::string::npos)
        p[i] = *rc::gen::inRange(5, 101) / 100.0;
    const auto bound = kind.bound(context, x.data());
    const double us = kind.law(context, p.data(), x.data()) * (1 + 1e-9);
    RC_ASSERT(bound.arithmetic_us <= us);
    RC_ASSERT(bound.memory_us <= us);
  });
}

// ---- which table answers ----

namespace {

std::string version_of(const std::vector<int>& numbers) {
  std::string out;
  for (const int n : numbers) out += fmt::format("{}{}", out.empty() ? "" : ".", n);
  return out;
}

std::vector<int> some_version() {
  return *rc::gen::container<std::vector<int>>(
      3,
      rc::gen::weightedOneOf<int>({{3, rc::gen::inRange(0, 30)}, {1, rc::gen::inRange(0, 999)}}));
}

}  // namespace

TEST_CASE("one version is older, or the other, or they are equal") {
  CHECK(rc::check([] {
    const auto a = some_version(), b = some_version();
    RC_ASSERT(older(version_of(a), version_of(b)) == (a < b));
  }));
  CHECK(older("0.12.0", "0.14"));
  CHECK(older("0.13.9rc2", "0.14"));
  CHECK_FALSE(older("0.14.0", "0.14"));
  CHECK_FALSE(older("0.24.0", "0.14"));
  CHECK_FALSE(older("2026-05", "0.14"));  // an image by its month
  CHECK_FALSE(older("", "0.14"));         // unknown
  CHECK_FALSE(older("nightly", "0.14"));
}

TEST_CASE("versions lie as far apart as the first number that differs") {
  CHECK(rc::check([] {
    const auto a = some_version(), b = some_version(), c = some_version();
    const auto x = version_of(a), y = version_of(b), z = version_of(c);
    RC_ASSERT(version_distance(x, x) == 0);
    RC_ASSERT(version_distance(x, y) == version_distance(y, x));
    RC_ASSERT((version_distance(x, y) == 0) == (x == y));
    const auto first = [&](const std::vector<int>& other) {
      return std::mismatch(a.begin(), a.end(), other.begin()).first - a.begin();
    };
    const auto i = first(b), j = first(c);
    if (i < j) RC_ASSERT(version_distance(x, y) > version_distance(x, z));
    if (i == j && i < 3) {
      const auto at = std::size_t(i);
      RC_ASSERT((std::abs(a[at] - b[at]) < std::abs(a[at] - c[at])) ==
                (version_distance(x, y) < version_distance(x, z)));
    }
  }));
  CHECK(version_distance("0.5.6", "0.5.6.post2") < version_distance("0.5.6", "0.5.7"));
  CHECK(version_distance("1.3.0rc20", "1.3.0rc10") < version_distance("1.3.0rc20", "1.2.0"));
  CHECK(version_distance("0.5", "0.5.0") > 0);
  // a date for a number does not outweigh the number before it
  CHECK(version_distance("0.5.9", "0.5.20260312") < version_distance("0.5.9", "0.6.0"));
}

TEST_CASE(
    "a table is found by its words, then its engine, then the nearest "
    "version") {
  using Words = std::map<std::string, std::string>;
  const std::vector<std::string> engines{"sglang", "vllm"}, versions{"0.5.9", "0.5.14", "0.19.0"},
      sources{"a", "b", "?"}, dtypes{"bfloat16", "nvfp4"};
  CHECK(rc::check([&] {
    std::vector<KernelSet> sets;
    for (int n = *rc::gen::inRange(0, 8); n > 0; --n) {
      auto set = tiny::set("gemm", {{1}, {1}, {1}}, [](const Coordinates&) { return 1.0; });
      set.engine = *rc::gen::elementOf(engines);
      set.version = *rc::gen::elementOf(versions);
      set.words = {{"kernel_source", *rc::gen::elementOf(sources)},
                   {"gemm_dtype", *rc::gen::elementOf(dtypes)}};
      set.rows_measured = *rc::gen::inRange<std::size_t>(1, 100);
      sets.push_back(std::move(set));
    }
    KernelTables tables;
    tables.add(sets, tiny::gpu());
    Words words;
    if (*rc::gen::arbitrary<bool>())
      words["kernel_source"] = *rc::gen::element<std::string>("a", "b", "");
    if (*rc::gen::arbitrary<bool>()) words["gemm_dtype"] = *rc::gen::elementOf(dtypes);
    const auto engine = *rc::gen::elementOf(engines), version = *rc::gen::elementOf(versions);
    const auto matches = [&](const KernelSet& set) {
      return std::all_of(words.begin(), words.end(), [&](const auto& w) {
        const auto& have = set.words.at(w.first);
        return w.second.empty() || have == "?" || have == w.second;
      });
    };
    const auto choice = tables.find("gemm", engine, version, words);
    RC_ASSERT((choice.set != nullptr) == std::any_of(sets.begin(), sets.end(), matches));
    RC_ASSERT(tables.find("moe", engine, version, words).set == nullptr);
    if (!choice.set) return;
    RC_ASSERT(matches(*choice.set));
    RC_ASSERT(choice.same_engine == (choice.set->engine == engine));
    RC_ASSERT(choice.same_version == (choice.same_engine && choice.set->version == version));
    RC_ASSERT(choice.substitution.empty() == choice.same_version);
    const double distance = version_distance(choice.set->version, version);
    for (const auto& set : sets) {
      if (!matches(set)) continue;
      if (set.engine == engine) RC_ASSERT(choice.same_engine);
      if (set.engine != choice.set->engine) continue;
      const double other = version_distance(set.version, version);
      RC_ASSERT(distance <= other);
      // among equals the back end with more rows
      if (distance == other) RC_ASSERT(choice.set->rows_measured >= set.rows_measured);
    }
  }));
}
