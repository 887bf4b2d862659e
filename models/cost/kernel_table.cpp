#include "models/cost/kernel_table.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "sim/base/assert.hpp"

double doubling(double x) {
  int exponent = 0;
  const double mantissa = std::frexp(std::max(x, 0.5), &exponent);  // in [0.5, 1)
  return exponent - 1 + (2 * mantissa - 1);
}

// What one prediction carries down the tree.
struct KernelSet::Walk {
  const double* x;
  std::size_t column = 0;  // between this column and the next
  double weight = 0;       // of the next
  bool exact = true;
  bool extrapolated = false;
  double place[kernel_axes_max];
};

KernelSet::Tree KernelSet::grow(std::vector<std::size_t> order) const {
  Tree tree;
  if (order.empty()) return tree;  // a class whose only size is the curve's
  std::vector<std::uint32_t> rows(shapes.size());
  std::iota(rows.begin(), rows.end(), 0U);
  std::sort(rows.begin(), rows.end(), [&](std::uint32_t a, std::uint32_t b) {
    for (const std::size_t axis : order)
      if (shapes[a][axis] != shapes[b][axis]) return shapes[a][axis] < shapes[b][axis];
    return a < b;
  });
  tree.levels.resize(order.size());
  // a range of rows per node of the level above
  std::vector<std::pair<std::uint32_t, std::uint32_t>> ranges{
      {0U, static_cast<std::uint32_t>(rows.size())}};
  for (std::size_t level = 0; level < order.size(); ++level) {
    auto& nodes = tree.levels[level];
    std::vector<std::pair<std::uint32_t, std::uint32_t>> below;
    for (std::size_t r = 0; r < ranges.size(); ++r) {
      const auto first = static_cast<std::uint32_t>(nodes.size());
      for (std::uint32_t i = ranges[r].first; i < ranges[r].second;) {
        const double value = shapes[rows[i]][order[level]];
        std::uint32_t j = i;
        while (j < ranges[r].second && shapes[rows[j]][order[level]] == value) ++j;
        nodes.push_back({value, doubling(value), rows[i], rows[i]});
        below.emplace_back(i, j);
        i = j;
      }
      if (level > 0) {
        tree.levels[level - 1][r].begin = first;
        tree.levels[level - 1][r].end = static_cast<std::uint32_t>(nodes.size());
      }
    }
    ranges = std::move(below);
  }
  tree.order = std::move(order);
  return tree;
}

void KernelSet::prepare(const GpuSpec& gpu) {
  class_ = KernelClasses::find(kernel_class);
  SIM_ASSERT(class_ && parameters.size() == class_->parameters.size());
  context_ = class_->context(gpu, words);
  column_place_.clear();
  for (const double c : columns) column_place_.push_back(doubling(c));
  filled_ = cells;
  const std::size_t width = columns.size();
  for (std::size_t row = 0; row < shapes.size(); ++row) {
    double* cell = filled_.data() + row * width;
    std::size_t last = width;  // the last kept cell
    for (std::size_t c = 0; c < width; ++c) {
      if (!(cell[c] > 0)) continue;
      for (std::size_t gap = last == width ? 0 : last + 1; gap < c; ++gap) {
        if (last == width) {
          cell[gap] = cell[c];
          continue;
        }
        const double w =
            (column_place_[gap] - column_place_[last]) / (column_place_[c] - column_place_[last]);
        cell[gap] = cell[last] + w * (cell[c] - cell[last]);
      }
      last = c;
    }
    for (std::size_t c = last == width ? 0 : last + 1; c < width; ++c)
      cell[c] = last == width ? 1 : cell[last];
  }
  trees_.clear();
  const std::size_t axes = class_->axes.size() - 1;
  std::vector<std::size_t> order(axes);
  std::iota(order.begin(), order.end(), std::size_t{0});
  trees_.push_back(grow(order));
  // Two plain axes make a grid: walk it both ways, so that a missing shape is judged by its
  // neighbours in both.
  if (axes == 2 && class_->axes[0].between == Between::interpolate) trees_.push_back(grow({1, 0}));
}

double KernelSet::cell(Walk& walk, std::size_t row) const {
  const std::size_t at = row * columns.size() + walk.column;
  if (walk.weight == 0) {
    walk.exact = walk.exact && cells[at] > 0;
    return filled_[at];
  }
  return filled_[at] + walk.weight * (filled_[at + 1] - filled_[at]);
}

double KernelSet::ratio(const Tree& tree, Walk& walk, std::size_t level, std::uint32_t begin,
                        std::uint32_t end) const {
  const auto& nodes = tree.levels[level];
  const std::size_t axis = tree.order[level];
  const double x = walk.x[axis];
  const auto first = nodes.begin() + begin, last = nodes.begin() + end;
  auto above = std::lower_bound(first, last, x,
                                [](const Node& node, double value) { return node.value < value; });
  const auto below = [&](const Node& node) {
    if (level + 1 < tree.order.size()) return ratio(tree, walk, level + 1, node.begin, node.end);
    return cell(walk, node.begin);
  };
  if (above != last && above->value == x) return below(*above);
  walk.exact = false;
  if (above == last) {
    --above;
    walk.extrapolated |= x > 2 * above->value;
    return below(*above);
  }
  if (above == first) {
    walk.extrapolated |= 2 * x < above->value;
    return below(*above);
  }
  const auto left = above - 1;
  const double w = (walk.place[axis] - left->place) / (above->place - left->place);
  if (class_->axes[axis].between == Between::nearest) return below(w < 0.5 ? *left : *above);
  const double a = below(*left);
  return a + w * (below(*above) - a);
}

TableAnswer KernelSet::predict(const double* x) const {
  TableAnswer out;
  out.error = error_median;
  Walk walk{x, 0, 0, true, false, {}};
  double r = 1;
  if (!shapes.empty()) {
    const std::size_t curve = class_->axes.size() - 1;
    for (std::size_t a = 0; a <= curve; ++a) walk.place[a] = doubling(x[a]);
    const auto above = std::lower_bound(columns.begin(), columns.end(), x[curve]);
    if (above == columns.end()) {
      walk.column = columns.size() - 1;
      walk.exact = false;
      walk.extrapolated = x[curve] > 2 * columns.back();
    } else if (*above == x[curve] || above == columns.begin()) {
      walk.column = static_cast<std::size_t>(above - columns.begin());
      walk.exact = *above == x[curve];
      walk.extrapolated = 2 * x[curve] < *above;
    } else {
      walk.column = static_cast<std::size_t>(above - columns.begin()) - 1;
      walk.weight = (walk.place[curve] - column_place_[walk.column]) /
                    (column_place_[walk.column + 1] - column_place_[walk.column]);
      walk.exact = false;
    }
    const auto all = [&](const Tree& tree) {
      if (tree.levels.empty()) return cell(walk, 0);
      return ratio(tree, walk, 0, 0, static_cast<std::uint32_t>(tree.levels[0].size()));
    };
    r = all(trees_[0]);
    const bool measured = walk.exact;
    if (trees_.size() > 1 && !measured) r = (r + all(trees_[1])) / 2;
    out.provenance = measured            ? Provenance::measured
                     : walk.extrapolated ? Provenance::fitted
                                         : Provenance::interpolated;
    out.extrapolated = walk.extrapolated;
  }
  const KernelBound bound = class_->bound(context_, x);
  out.us = std::max({law_us(x) * r, bound.arithmetic_us, bound.memory_us});
  return out;
}

TableAnswer KernelSet::predict_cold(const double* x) const {
  TableAnswer out = predict(x);
  if (!class_->cold) return out;
  const double least = class_->cold(context_, parameters.data(), x);
  if (least > out.us) {
    out.us = least;
    out.provenance = Provenance::fitted;
  }
  return out;
}

// ---- text ----

namespace {

// Sizes are counts: zero, or whole numbers that differ on the doubling scale as well.
constexpr double size_max = 1e12;

bool is_size(double value) { return value >= 0 && value <= size_max && value == std::floor(value); }

// Without rounding: a measured size must be found again.
std::string size_text(double value) { return fmt::format("{:.17g}", value); }

}  // namespace

Letters::Letters(double step) {
  // plain products, so that a table means the same on every machine
  ratios_['P'] = 1;
  for (std::size_t i = 'P' + 1; i < ratios_.size(); ++i) ratios_[i] = ratios_[i - 1] * step;
  for (std::size_t i = 'P'; i-- > 0;) ratios_[i] = ratios_[i + 1] / step;
}

char Letters::letter(double value) const {
  char best = '!';
  for (char c = '!'; c <= '~'; ++c)
    if (c != '-' && std::abs(ratio(c) / value - 1) < std::abs(ratio(best) / value - 1)) best = c;
  return best;
}

std::string write_kernel_sets(const std::string& gpu, const std::vector<KernelSet>& sets) {
  SIM_ASSERT(!sets.empty());
  const KernelClass& kind = *KernelClasses::find(sets.front().kernel_class);
  const std::size_t row_axes = kind.axes.size() - 1;
  std::string out = fmt::format(
      "# {0}: a law for each back end, and measured time / law at\n#   {1}.\n"
      "# Cells in thousandths, or as letters: 'P' is 1.00 and every further letter (ASCII) a "
      "step more;\n# '-' is as between its neighbours. A line '/' states the leading sizes of the "
      "rows "
      "below it.\n# error: median and p90 on whole shapes left out of the fit. docs/models/"
      "kernel-tables.md\nclass {2}\ngpu {3}\n",
      kind.help,
      [&] {
        std::string axes;
        for (const auto& axis : kind.axes) axes += (axes.empty() ? "" : ", ") + axis.column;
        return axes;
      }(),
      sets.front().kernel_class, gpu);
  for (const auto& set : sets) {
    const std::size_t width = set.columns.size();
    const bool letters = set.letter_step > 0;
    const Letters code(letters ? set.letter_step : 2);
    out += fmt::format("\nset {} {}\n", set.engine, set.version);
    for (const auto& [word, value] : set.words) out += fmt::format("word {} {}\n", word, value);
    out += fmt::format("source {}\nrows {}\nerror {:.4f} {:.4f}\nlaw", set.source,
                       set.rows_measured, set.error_median, set.error_p90);
    for (const double p : set.parameters) out += fmt::format(" {:.4g}", p);
    out += letters ? fmt::format("\ncells letters {}\ncolumns", set.letter_step)
                   : "\ncells thousandths\ncolumns";
    for (const double c : set.columns) out += " " + size_text(c);
    out += "\n";
    for (std::size_t row = 0; row < set.shapes.size(); ++row) {
      const auto& shape = set.shapes[row];
      bool same = row > 0;
      for (std::size_t a = 0; a + 1 < row_axes; ++a)
        same = same && shape[a] == set.shapes[row - 1][a];
      if (!same && row_axes > 1) {
        out += "/";
        for (std::size_t a = 0; a + 1 < row_axes; ++a) out += " " + size_text(shape[a]);
        out += "\n";
      }
      out += (row_axes > 0 ? size_text(shape[row_axes - 1]) : "*") + ":";
      if (letters) out += " ";
      for (std::size_t c = 0; c < width; ++c) {
        const double cell = set.cells[row * width + c];
        if (letters)
          out += cell > 0 ? code.letter(cell) : '-';
        else
          out += cell > 0 ? fmt::format(" {}", std::llround(cell * 1000)) : " -";
      }
      out += "\n";
    }
  }
  return out;
}

Expected<std::vector<KernelSet>> read_kernel_sets(const std::string& name,
                                                  const std::string& text) {
  std::vector<KernelSet> sets;
  Diagnostics errors;
  std::shared_ptr<Source> source;
  int number = 0;
  const KernelClass* kind = nullptr;
  std::string kernel_class, gpu;
  const auto fail = [&](std::size_t column, std::string message, std::string hint = {}) {
    if (!source) {
      source = std::make_shared<Source>();
      source->name = name;
      source->text = text;
    }
    errors.error({source, number, static_cast<int>(column) + 1}, std::move(message),
                 std::move(hint));
  };
  Coordinates leading{};
  std::vector<int> set_lines;
  bool letters = false, led = false;
  Letters alphabet(1.025);
  std::string_view rest = text;
  while (!rest.empty() && errors.size() < 20) {
    const auto end = rest.find('\n');
    const auto line = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    ++number;
    if (end == std::string_view::npos) fail(line.size(), "the file ends within this line");
    if (line.empty() || line[0] == '#') continue;
    std::size_t at = 0, began = 0;  // began: where the last number did
    const auto word = [&]() -> std::string_view {
      while (at < line.size() && line[at] == ' ') ++at;
      const auto from = at;
      while (at < line.size() && line[at] != ' ') ++at;
      return line.substr(from, at - from);
    };
    const auto remainder = [&]() -> std::string {
      return std::string(line.substr(std::min(line.size(), at + 1)));
    };
    const auto value = [&](double& out, char stop = ' ') {
      while (at < line.size() && line[at] == ' ') ++at;
      began = at;
      const auto [p, code] = std::from_chars(line.data() + at, line.data() + line.size(), out);
      const auto used = static_cast<std::size_t>(p - line.data());
      if (code != std::errc() || !std::isfinite(out) ||
          (used < line.size() && line[used] != ' ' && line[used] != stop)) {
        fail(at, "a number is wanted here");
        at = line.size();
        return false;
      }
      at = used;
      return true;
    };
    const auto size = [&](double& out, char stop = ' ') {
      if (!value(out, stop)) return false;
      if (is_size(out)) return true;
      fail(began, "a size is a whole number up to 1e12");
      return false;
    };
    const auto more = [&] {
      while (at < line.size() && line[at] == ' ') ++at;
      return at < line.size();
    };
    const std::size_t row_axes = kind ? kind->axes.size() - 1 : 0;
    if (line[0] == '/') {
      at = 1;
      leading.fill(0);
      led = true;
      bool good = true;
      for (std::size_t a = 0; a + 1 < row_axes && good; ++a) good = size(leading[a]);
      if (good && (more() || row_axes < 2))
        fail(at,
             fmt::format("{} leading sizes are wanted", std::max<std::size_t>(1, row_axes) - 1));
      continue;
    }
    if ((line[0] >= '0' && line[0] <= '9') || line[0] == '*') {
      if (sets.empty() || !kind || sets.back().columns.empty()) {
        fail(0, "a row of a table before its columns");
        break;
      }
      auto& set = sets.back();
      Coordinates shape = leading;
      if (line[0] == '*' ? row_axes > 0 : row_axes == 0) {
        fail(0, row_axes > 0 ? "a size is wanted here" : "'*' is wanted here");
        continue;
      }
      if (row_axes == 0)
        at = 1;
      else if (!size(shape[row_axes - 1], ':'))
        continue;
      if (at >= line.size() || line[at] != ':') {
        fail(at, "':' is wanted after the size");
        continue;
      }
      ++at;
      if (row_axes > 1 && !led) {
        fail(0, "a line '/' with the leading sizes is wanted before the rows");
        break;
      }
      if (!set.shapes.empty() && !(set.shapes.back() < shape)) {
        fail(0, "shapes must ascend");
        continue;
      }
      set.shapes.push_back(shape);
      std::size_t n = 0;
      bool good = true;
      if (letters) {
        for (++at; at < line.size(); ++at, ++n) {
          if (line[at] < '!' || line[at] > '~') fail(at, "a cell is a letter or '-'");
          set.cells.push_back(line[at] == '-' ? 0 : alphabet.ratio(line[at]));
        }
      } else {
        while (more() && good) {
          double cell = 0;
          if (line[at] == '-' && (at + 1 == line.size() || line[at + 1] == ' ')) {
            ++at;
          } else {
            good = value(cell);
            if (good && !(cell >= 1 && cell <= 1e9 && is_size(cell)))
              fail(began, "a ratio is a whole number of thousandths, and positive");
          }
          set.cells.push_back(cell / 1000);
          ++n;
        }
      }
      if (n != set.columns.size()) {
        if (good) fail(line.size(), fmt::format("{} cells for {} columns", n, set.columns.size()));
        // dropped, not filled up: short rows of a wide table would take the square of the file
        set.cells.resize(set.cells.size() - n);
        set.shapes.pop_back();
      }
      continue;
    }
    const auto key = word();
    if (key == "class") {
      if (kind) {
        fail(0, "a file has one class");
        break;
      }
      kernel_class = std::string(word());
      kind = KernelClasses::find(kernel_class);
      if (!kind) {
        fail(6, fmt::format("unknown kernel class '{}'", kernel_class),
             suggestion(kernel_class, KernelClasses::names()));
        break;
      }
    } else if (key == "gpu") {
      gpu = std::string(word());
    } else if (!kind) {
      fail(0, "the file must open with its class");
      break;
    } else if (key == "set") {
      sets.emplace_back();
      sets.back().kernel_class = kernel_class;
      sets.back().measured_on = gpu;
      sets.back().engine = std::string(word());
      sets.back().version = std::string(word());
      if (sets.back().version.empty()) fail(at, "'set ENGINE VERSION' opens a set");
      set_lines.push_back(number);
      letters = false;
    } else if (sets.empty()) {
      fail(0, fmt::format("unknown key '{}'", key), "'set ENGINE VERSION' opens a set");
      break;
    } else if (key == "word") {
      const std::string id(word());
      sets.back().words[id] = remainder();
    } else if (key == "source") {
      sets.back().source = remainder();
    } else if (key == "rows") {
      double n = 0;
      if (size(n)) sets.back().rows_measured = static_cast<std::size_t>(n);
    } else if (key == "error") {
      value(sets.back().error_median) && value(sets.back().error_p90);
    } else if (key == "law") {
      double p = 0;
      bool good = true;
      while (more() && (good = value(p))) {
        if (!(p > 1e-12 && p < 1e12)) fail(began, "the numbers of a law are positive");
        sets.back().parameters.push_back(p);
      }
      if (!good) break;
      if (sets.back().parameters.size() != kind->parameters.size()) {
        fail(0, fmt::format("the law of '{}' has {} numbers, not {}", kernel_class,
                            kind->parameters.size(), sets.back().parameters.size()));
        break;
      }
    } else if (key == "cells") {
      const auto form = word();
      letters = form == "letters";
      double step = 0;
      if (letters && value(step)) {
        if (step < 1.001 || step > 1.5)
          fail(6, "a step between 1.001 and 1.5 is wanted");
        else
          alphabet = Letters(sets.back().letter_step = step);
      }
      if (!letters && form != "thousandths") {
        fail(6, "cells are 'letters' or 'thousandths'");
        break;
      }
    } else if (key == "columns") {
      double c = 0;
      led = false;
      auto& columns = sets.back().columns;
      if (!columns.empty()) {
        fail(0, "a set has one line of columns");
        break;
      }
      while (more() && size(c)) {
        if (!columns.empty() && c <= columns.back()) fail(began, "columns must ascend");
        columns.push_back(c);
      }
    } else {
      fail(0, fmt::format("unknown key '{}'", key),
           suggestion(key, {"class", "gpu", "set", "word", "source", "rows", "error", "law",
                            "cells", "columns"}));
    }
  }
  if (!kind && errors.empty()) fail(0, "the file must open with its class");
  for (std::size_t i = 0; i < sets.size() && errors.empty(); ++i) {
    const auto& set = sets[i];
    number = set_lines[i];
    if (kind && set.parameters.size() != kind->parameters.size() && errors.empty())
      fail(0, fmt::format("set {} {} has no law", set.engine, set.version));
    if (kind)
      for (const auto& id : kind->words)
        if (!set.words.count(id) && errors.empty())
          fail(0, fmt::format("set {} {} lacks the word '{}'", set.engine, set.version, id));
  }
  if (!errors.empty()) return tl::unexpected(errors);
  return sets;
}
