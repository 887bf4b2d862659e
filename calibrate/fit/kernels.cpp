#include "calibrate/fit/kernels.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>

#include <Eigen/Dense>

#include "calibrate/fit/inpaint.hpp"
#include "sim/base/assert.hpp"

namespace {

// Every `stride`-th row, so that a fit costs the same however long the table is.
std::vector<const KernelRow*> sample(const std::vector<KernelRow>& rows, std::size_t most) {
  std::vector<const KernelRow*> out;
  const std::size_t stride = std::max<std::size_t>(1, (rows.size() + most - 1) / most);
  for (std::size_t i = 0; i < rows.size(); i += stride) out.push_back(&rows[i]);
  return out;
}

// Shapes and curves of the rows: (coordinates without the last) -> (last, time), both ascending.
using Curves = std::map<Coordinates, std::vector<std::pair<double, double>>>;

Curves curves_of(const std::vector<KernelRow>& rows, std::size_t axes) {
  Curves out;
  for (const auto& row : rows) {
    Coordinates shape{};
    std::copy(row.x.begin(), row.x.begin() + static_cast<std::ptrdiff_t>(axes) - 1, shape.begin());
    out[shape].emplace_back(row.x[axes - 1], row.time_us);
  }
  for (auto& [shape, curve] : out) std::sort(curve.begin(), curve.end());
  return out;
}

// One curve as ratio over place on the doubling scale.
struct Curve {
  std::vector<double> place, ratio;
  std::vector<std::size_t> column;
};

// Mean and largest error when only the columns in `knots` are kept of a curve.
double curve_error(const Curve& curve, const std::vector<char>& knots) {
  double sum = 0;
  std::size_t last = curve.place.size();
  const std::size_t n = curve.place.size();
  const auto add = [&](double got, double want) { sum += std::min(0.5, std::abs(got / want - 1)); };
  for (std::size_t i = 0; i < n; ++i) {
    if (!knots[curve.column[i]]) continue;
    if (last == n) {
      for (std::size_t j = 0; j < i; ++j) add(curve.ratio[i], curve.ratio[j]);
    } else {
      for (std::size_t j = last + 1; j < i; ++j) {
        const double w =
            (curve.place[j] - curve.place[last]) / (curve.place[i] - curve.place[last]);
        add(curve.ratio[last] + w * (curve.ratio[i] - curve.ratio[last]), curve.ratio[j]);
      }
    }
    last = i;
  }
  if (last == n) return 0.5;
  for (std::size_t j = last + 1; j < n; ++j) add(curve.ratio[last], curve.ratio[j]);
  return sum / static_cast<double>(n);
}

// The columns worth keeping: greedily the one that lowers the mean error most.
std::vector<char> choose_columns(const std::vector<Curve>& curves, std::size_t width,
                                 std::size_t most) {
  std::vector<char> kept(width, 0);
  // a single curve costs nothing to keep whole, and its bumps (NCCL's protocols) are the point of
  // it
  if (width <= 6 || (curves.size() == 1 && width <= most)) return std::vector<char>(width, 1);
  kept.front() = kept.back() = 1;
  std::vector<const Curve*> some;
  const std::size_t stride = std::max<std::size_t>(1, curves.size() / 150);
  for (std::size_t i = 0; i < curves.size(); i += stride) some.push_back(&curves[i]);
  const auto cost = [&] {
    double sum = 0;
    for (const auto* c : some) sum += curve_error(*c, kept);
    return sum / static_cast<double>(some.size());
  };
  double now = cost();
  for (std::size_t n = 2; n < std::min(most, width); ++n) {
    double best = now;
    std::size_t which = width;
    for (std::size_t c = 0; c < width; ++c) {
      if (kept[c]) continue;
      kept[c] = 1;
      const double with = cost();
      kept[c] = 0;
      if (with < best) best = with, which = c;
    }
    if (which == width || (now - best < 0.0004 && n > 5)) break;
    kept[which] = 1;
    now = best;
  }
  return kept;
}

// The values at the kept columns that bring the straight lines between them nearest to all points
// of a curve, in absolute deviation: single slow samples (clocks, neighbours) do not pull.
void draw_through(const Curve& curve, const std::vector<double>& place, double* cells) {
  const std::size_t width = place.size();
  struct Point {
    std::size_t left;  // between this column and the next
    double weight, ratio;
  };
  std::vector<Point> points;
  std::vector<char> touched(width, 0);
  for (std::size_t i = 0; i < curve.ratio.size(); ++i) {
    const double x = curve.place[i];
    auto right =
        static_cast<std::size_t>(std::lower_bound(place.begin(), place.end(), x) - place.begin());
    if (right == width) right = width - 1;
    const std::size_t left = right == 0 || place[right] == x ? right : right - 1;
    const double w = left == right ? 0 : (x - place[left]) / (place[right] - place[left]);
    points.push_back({left, w, curve.ratio[i]});
    if (w < 0.99) touched[left] = 1;
    if (w > 0.01) touched[std::min(width - 1, left + 1)] = 1;
  }
  std::vector<double> value(width, 0), trust(points.size(), 1);
  double level = 0;
  for (const auto& p : points) level += p.ratio / static_cast<double>(points.size());
  for (int round = 0; round < 12; ++round) {
    // normal equations are tridiagonal; a whisper of the level keeps empty columns defined
    std::vector<double> diagonal(width, 1e-6), upper(width, 0), side(width, 1e-6 * level);
    for (std::size_t i = 0; i < points.size(); ++i) {
      const auto& p = points[i];
      const double t = trust[i], a = 1 - p.weight, b = p.weight;
      diagonal[p.left] += t * a * a;
      side[p.left] += t * a * p.ratio;
      if (p.left + 1 < width) {
        diagonal[p.left + 1] += t * b * b;
        upper[p.left] += t * a * b;
        side[p.left + 1] += t * b * p.ratio;
      }
    }
    for (std::size_t c = 1; c < width; ++c) {
      const double f = upper[c - 1] / diagonal[c - 1];
      diagonal[c] -= f * upper[c - 1];
      side[c] -= f * side[c - 1];
    }
    for (std::size_t c = width; c-- > 0;)
      value[c] = (side[c] - (c + 1 < width ? upper[c] * value[c + 1] : 0)) / diagonal[c];
    for (std::size_t i = 0; i < points.size(); ++i) {
      const auto& p = points[i];
      const double got =
          value[p.left] + (p.left + 1 < width ? p.weight * (value[p.left + 1] - value[p.left]) : 0);
      trust[i] = 1 / std::max(0.003, std::abs(got / p.ratio - 1));
    }
  }
  // only columns that some point speaks for, and nothing a wild slope invented
  const auto [low, high] = std::minmax_element(curve.ratio.begin(), curve.ratio.end());
  for (std::size_t c = 0; c < width; ++c)
    cells[c] = touched[c] ? std::clamp(value[c], *low, *high) : 0;
}

// Adds estimates where the measured grid has holes: single points of a curve and, where two sizes
// span a full grid, whole shapes.
void fill(Curves& curves, const RaggedGrid& grid, const KernelClass& kind, const KernelSet& law) {
  const std::size_t axes = kind.axes.size();
  const auto& columns = grid.axes()[axes - 1];
  // all values of the innermost size that lie within what was measured beside them
  std::map<Coordinates, std::pair<double, double>> spans;
  for (const auto& [shape, curve] : curves) {
    if (axes < 2) break;
    Coordinates prefix = shape;
    prefix[axes - 2] = 0;
    const auto [it, fresh] = spans.emplace(prefix, std::pair(shape[axes - 2], shape[axes - 2]));
    it->second.first = std::min(it->second.first, shape[axes - 2]);
    it->second.second = std::max(it->second.second, shape[axes - 2]);
  }
  for (const auto& [prefix, span] : spans)
    for (const double value : grid.axes()[axes - 2]) {
      Coordinates shape = prefix;
      shape[axes - 2] = value;
      if (value > span.first && value < span.second) curves[shape];
    }
  for (auto it = curves.begin(); it != curves.end();) {
    auto& [shape, curve] = *it;
    Coordinates x = shape;
    std::vector<std::pair<double, double>> added;
    std::size_t next = 0;
    for (const double column : columns) {
      while (next < curve.size() && curve[next].first < column) ++next;
      if (next < curve.size() && curve[next].first == column) continue;
      x[axes - 1] = column;
      if (const auto ratio = grid.estimate(x))
        added.emplace_back(column, *ratio * law.law_us(x.data()));
    }
    curve.insert(curve.end(), added.begin(), added.end());
    std::sort(curve.begin(), curve.end());
    it = curve.empty() ? curves.erase(it) : std::next(it);
  }
}

// Drops shapes that lie between two kept ones along the innermost size and say no more than those.
void thin_shapes(KernelSet& set, std::size_t axis, double tolerance) {
  const std::size_t width = set.columns.size();
  std::vector<char> kept(set.shapes.size(), 1);
  const auto same = [&](std::size_t i, std::size_t j) {
    return std::equal(set.shapes[i].begin(),
                      set.shapes[i].begin() + static_cast<std::ptrdiff_t>(axis),
                      set.shapes[j].begin());
  };
  std::vector<double> errors;
  for (std::size_t i = 1, last = 0; i + 1 < set.shapes.size(); ++i) {
    if (!kept[i - 1] || !same(i, last) || !same(i, i + 1)) {
      last = i;
      continue;
    }
    const double low = doubling(set.shapes[last][axis]), high = doubling(set.shapes[i + 1][axis]);
    const double w = (doubling(set.shapes[i][axis]) - low) / (high - low);
    errors.clear();
    for (std::size_t c = 0; c < width; ++c) {
      const double a = set.cells[last * width + c], b = set.cells[(i + 1) * width + c],
                   want = set.cells[i * width + c];
      if (want > 0) errors.push_back(a > 0 && b > 0 ? std::abs((a + w * (b - a)) / want - 1) : 1);
    }
    std::sort(errors.begin(), errors.end());
    const bool drop = !errors.empty() && errors[errors.size() / 2] < tolerance &&
                      errors[errors.size() * 9 / 10] < 3 * tolerance;
    if (drop)
      kept[i] = 0;
    else
      last = i;
  }
  std::size_t to = 0;
  for (std::size_t i = 0; i < set.shapes.size(); ++i) {
    if (!kept[i]) continue;
    set.shapes[to] = set.shapes[i];
    std::copy_n(set.cells.begin() + static_cast<std::ptrdiff_t>(i * width), width,
                set.cells.begin() + static_cast<std::ptrdiff_t>(to * width));
    ++to;
  }
  set.shapes.resize(to);
  set.cells.resize(to * width);
}

// Rounds the cells to what will be written, so that what ships is what was judged.
void write_form(KernelSet& set, bool whole_curves) {
  double largest = 1;
  std::vector<double> spread;
  for (const double cell : set.cells)
    if (cell > 0) spread.push_back(std::max(cell, 1 / cell));
  std::sort(spread.begin(), spread.end());
  if (!spread.empty()) largest = spread[(spread.size() - 1) * 999 / 1000];
  if (set.cells.size() > (whole_curves ? 20'000 : 700)) {
    const double step = std::max(1.02, std::pow(largest, 1.0 / 46));
    set.letter_step = std::ceil(step * 1000) / 1000;
  }
  const Letters code(set.letter_step > 0 ? set.letter_step : 2);
  for (double& cell : set.cells)
    if (cell > 0)
      cell = set.letter_step > 0 ? code.ratio(code.letter(cell))
                                 : std::max(0.001, std::round(cell * 1000) / 1000);
}

KernelSet build(const KernelRows& rows, const GpuSpec& gpu, std::vector<double> parameters,
                const KernelFitOptions& options, const std::vector<const KernelRows*>& siblings) {
  KernelSet set;
  set.kernel_class = rows.kernel_class;
  set.engine = rows.engine;
  set.version = rows.version;
  set.words = rows.words;
  for (const auto& word : KernelClasses::find(rows.kernel_class)->words)
    set.words.emplace(word, "?");  // neither the table nor its manifest says
  set.source = rows.source;
  set.rows_measured = rows.rows.size();
  set.parameters = std::move(parameters);
  const KernelClass& kind = *KernelClasses::find(rows.kernel_class);
  set.prepare(gpu);  // the bare law
  const std::size_t axes = kind.axes.size();
  Curves curves = curves_of(rows.rows, axes);
  // siblings by the same law: only how their curves bend is used
  std::deque<RaggedGrid> others;
  RaggedGrid grid(kind);
  for (const KernelRows* sibling : siblings) {
    RaggedGrid& other = others.emplace_back(kind);
    for (const auto& row : sibling->rows) other.add(row.x, row.time_us / set.law_us(row.x.data()));
    other.learn();
    grid.add_sibling(other);
  }
  for (const auto& row : rows.rows) grid.add(row.x, row.time_us / set.law_us(row.x.data()));
  grid.learn();
  fill(curves, grid, kind, set);

  std::map<double, std::size_t> columns;
  for (const auto& row : rows.rows) columns.emplace(row.x[axes - 1], 0);
  std::vector<double> values;
  for (auto& [value, index] : columns) {
    index = values.size();
    values.push_back(value);
  }
  std::vector<Curve> ratios;
  for (const auto& [shape, curve] : curves) {
    Curve c;
    Coordinates x = shape;
    for (const auto& [value, time] : curve) {
      x[axes - 1] = value;
      c.place.push_back(doubling(value));
      c.ratio.push_back(time / set.law_us(x.data()));
      c.column.push_back(columns[value]);
    }
    ratios.push_back(std::move(c));
  }
  const auto kept = options.whole_curves
                        ? std::vector<char>(values.size(), 1)
                        : choose_columns(ratios, values.size(), options.columns_max);
  std::vector<double> place;
  for (std::size_t c = 0; c < values.size(); ++c)
    if (kept[c]) {
      set.columns.push_back(values[c]);
      place.push_back(doubling(values[c]));
    }
  const std::size_t width = set.columns.size();
  std::size_t row = 0;
  for (const auto& [shape, curve] : curves) {
    set.shapes.push_back(shape);
    set.cells.resize(set.cells.size() + width, 0);
    double* cells = set.cells.data() + row * width;
    const Curve& c = ratios[row];
    draw_through(c, place, cells);
    ++row;
  }
  if (options.shape_tolerance > 0 && axes > 1 &&
      kind.axes[axes - 2].between == Between::interpolate)
    thin_shapes(set, axes - 2, options.shape_tolerance);
  write_form(set, options.whole_curves);
  set.prepare(gpu);
  return set;
}

}  // namespace

std::vector<double> fit_law(const KernelRows& rows, const GpuSpec& gpu) {
  const KernelClass& kind = *KernelClasses::find(rows.kernel_class);
  const LawContext context = kind.context(gpu, rows.words);
  const auto points = sample(rows.rows, 1500);
  const auto n = static_cast<Eigen::Index>(points.size());
  const auto count = static_cast<Eigen::Index>(kind.parameters.size());
  Eigen::VectorXd p(count);  // logarithms: every parameter is positive
  for (Eigen::Index i = 0; i < count; ++i)
    p(i) = std::log(kind.parameters[static_cast<std::size_t>(i)].guess);
  const auto clamp = [&](Eigen::VectorXd& q) {
    for (Eigen::Index i = 0; i < count; ++i) {
      const auto& range = kind.parameters[static_cast<std::size_t>(i)];
      q(i) = std::clamp(q(i), std::log(range.lower), std::log(range.upper));
    }
  };
  const auto residuals = [&](const Eigen::VectorXd& q) {
    std::vector<double> values(static_cast<std::size_t>(count));
    for (Eigen::Index i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = std::exp(q(i));
    Eigen::VectorXd r(n);
    for (Eigen::Index i = 0; i < n; ++i) {
      const KernelRow& row = *points[static_cast<std::size_t>(i)];
      r(i) = std::log(kind.law(context, values.data(), row.x.data()) / row.time_us);
    }
    return r;
  };
  // Huber at 15 %: a few kernels that behave otherwise do not bend the law
  const auto weight = [](double r) { return std::abs(r) < 0.15 ? 1.0 : 0.15 / std::abs(r); };
  const auto cost = [&](const Eigen::VectorXd& r) {
    double sum = 0;
    for (Eigen::Index i = 0; i < n; ++i)
      sum += std::abs(r(i)) < 0.15 ? r(i) * r(i) / 2 : 0.15 * (std::abs(r(i)) - 0.075);
    return sum;
  };
  const auto slopes = [&](const Eigen::VectorXd& q, const Eigen::VectorXd& r) {
    Eigen::MatrixXd out(n, count);
    for (Eigen::Index i = 0; i < count; ++i) {
      Eigen::VectorXd moved = q;
      moved(i) += 1e-5;
      out.col(i) = (residuals(moved) - r) / 1e-5;
    }
    return out;
  };
  // Levenberg-Marquardt from `q`; the cost it comes to.
  const auto descend = [&](Eigen::VectorXd& q) {
    Eigen::VectorXd r = residuals(q);
    double now = cost(r), damping = 1e-2;
    for (int iteration = 0; iteration < 80 && damping < 1e8; ++iteration) {
      const Eigen::MatrixXd jacobian = slopes(q, r);
      Eigen::VectorXd w(n);
      for (Eigen::Index i = 0; i < n; ++i) w(i) = weight(r(i));
      const Eigen::MatrixXd normal = jacobian.transpose() * w.asDiagonal() * jacobian;
      const Eigen::VectorXd gradient = jacobian.transpose() * (w.asDiagonal() * r);
      bool better = false;
      while (damping < 1e8) {
        Eigen::MatrixXd system = normal;
        for (Eigen::Index i = 0; i < count; ++i)
          system(i, i) += damping * (normal(i, i) + 1e-6 * static_cast<double>(n));
        Eigen::VectorXd next = q - system.ldlt().solve(gradient);
        clamp(next);
        const Eigen::VectorXd tried = residuals(next);
        const double c = cost(tried);
        if (c < now) {
          better = now - c > 1e-6 * now;
          q = next;
          r = tried;
          now = c;
          damping = std::max(1e-9, damping / 5);
          break;
        }
        damping *= 5;
      }
      if (!better) break;
    }
    return now;
  };
  double best = descend(p);
  // A term that others hide has no slope and stays at its guess, right or wrong: bring it forward.
  const auto hidden = [&](Eigen::Index i) {
    return slopes(p, residuals(p)).col(i).cwiseAbs().maxCoeff() == 0;
  };
  for (Eigen::Index i = 0; i < count; ++i) {
    if (!hidden(i)) continue;
    for (const double factor : {0.5, 0.1, 2.0, 10.0}) {
      Eigen::VectorXd q = p;
      q(i) += std::log(factor);
      clamp(q);
      if (residuals(q) == residuals(p)) continue;
      const double c = descend(q);
      if (c >= 0.98 * best) continue;  // noise alone gains a little
      best = c;
      p = q;
      break;
    }
  }
  std::vector<double> out;
  for (Eigen::Index i = 0; i < count; ++i) {
    // as it will be printed, so that what is written is what was judged
    const double value = std::exp(p(i));
    const double scale = std::pow(10, 3 - std::floor(std::log10(value)));
    out.push_back(std::round(value * scale) / scale);
  }
  return out;
}

KernelErrors summarise(std::vector<double> errors) {
  KernelErrors out;
  out.points = errors.size();
  if (errors.empty()) return out;
  std::sort(errors.begin(), errors.end());
  out.median = errors[errors.size() / 2];
  out.p90 = errors[std::min(errors.size() - 1, errors.size() * 9 / 10)];
  out.worst = errors.back();
  return out;
}

KernelSet fit_kernel_set(const KernelRows& rows, const GpuSpec& gpu,
                         const KernelFitOptions& options, std::vector<double>* cross_errors,
                         const std::vector<const KernelRows*>& siblings) {
  const KernelClass& kind = *KernelClasses::find(rows.kernel_class);
  const auto parameters = fit_law(rows, gpu);
  KernelSet set = build(rows, gpu, parameters, options, siblings);
  // leave whole shapes out; with too few shapes, single points
  std::map<Coordinates, std::size_t> shapes;
  const auto key = [&](const KernelRow& row, std::size_t axes) {
    Coordinates x{};
    std::copy(row.x.begin(), row.x.begin() + static_cast<std::ptrdiff_t>(axes), x.begin());
    return x;
  };
  std::size_t axes = kind.shape_axes;
  for (const auto& row : rows.rows) shapes.emplace(key(row, axes), 0);
  if (shapes.size() < 8) {
    axes = kind.axes.size();
    shapes.clear();
    for (const auto& row : rows.rows) shapes.emplace(key(row, axes), 0);
  }
  const int folds = std::min<int>(options.folds, static_cast<int>(shapes.size()));
  std::size_t at = 0;  // folds by a stride through the sorted shapes, scrambled a little
  for (auto& [shape, index] : shapes) {
    index = shapes.size() > static_cast<std::size_t>(folds) ? at * 2654435761U % 1000003U : at;
    ++at;
  }
  std::vector<double> errors(rows.rows.size(), 0);
  for (int fold = 0; fold < folds && folds > 1; ++fold) {
    KernelRows train = rows;
    train.rows.clear();
    std::vector<std::size_t> test;
    for (std::size_t i = 0; i < rows.rows.size(); ++i) {
      const auto& row = rows.rows[i];
      if (static_cast<int>(shapes[key(row, axes)] % static_cast<std::size_t>(folds)) == fold)
        test.push_back(i);
      else
        train.rows.push_back(row);
    }
    if (test.empty() || train.rows.empty()) continue;
    const KernelSet part = build(train, gpu, parameters, options, {});
    for (const std::size_t i : test)
      errors[i] = std::abs(part.predict(rows.rows[i].x.data()).us / rows.rows[i].time_us - 1);
  }
  const auto summary = summarise(errors);
  set.error_median = summary.median;
  set.error_p90 = summary.p90;
  if (cross_errors) *cross_errors = std::move(errors);
  return set;
}

std::string judged_name(const std::string& kernel_class, const Coordinates& x) {
  const KernelClass& kind = *KernelClasses::find(kernel_class);
  if (kernel_class != "moe") return kernel_class;
  return x[kind.axes.size() - 1] <= 256 ? "moe_decode" : "moe_prefill";
}

std::vector<JudgedPart> judged_parts(const KernelRows& rows, const std::vector<double>& errors) {
  std::map<std::string, std::vector<double>> parts;
  for (std::size_t i = 0; i < rows.rows.size(); ++i)
    parts[judged_name(rows.kernel_class, rows.rows[i].x)].push_back(errors[i]);
  std::vector<JudgedPart> out;
  for (auto& [name, list] : parts) out.push_back({name, std::move(list)});
  return out;
}

std::vector<const KernelRows*> siblings_of(const KernelRows& rows,
                                           const std::vector<KernelRows>& all) {
  static const std::vector<std::string> may_differ{"distribution", "nccl_dtype", "kv_cache_dtype",
                                                   "score_mode", "model"};
  std::vector<const KernelRows*> out;
  for (const auto& other : all) {
    if (&other == &rows || other.kernel_class != rows.kernel_class || other.engine != rows.engine ||
        other.version != rows.version)
      continue;
    std::size_t different = 0;
    bool allowed = true;
    for (const auto& [word, value] : rows.words) {
      const auto it = other.words.find(word);
      if (it != other.words.end() && it->second == value) continue;
      ++different;
      allowed =
          allowed && std::find(may_differ.begin(), may_differ.end(), word) != may_differ.end();
    }
    if (different == 1 && allowed && out.size() < 3) out.push_back(&other);
  }
  return out;
}
