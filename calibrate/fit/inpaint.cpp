#include "calibrate/fit/inpaint.hpp"

#include <algorithm>
#include <cmath>

#include "models/cost/kernel_table.hpp"

RaggedGrid::RaggedGrid(const KernelClass& kind)
    : kind_(kind), values_(kind.axes.size()), places_(kind.axes.size()) {}

void RaggedGrid::add(const Coordinates& x, double ratio) {
  points_.emplace_back(x, std::log(ratio));
}

std::uint64_t RaggedGrid::key(const Index& at) const {
  std::uint64_t out = 0;
  for (std::size_t a = 0; a < values_.size(); ++a)
    out = out * values_[a].size() + static_cast<std::uint64_t>(at[a]);
  return out;
}

const double* RaggedGrid::find(const Index& at) const {
  const auto it = known_.find(key(at));
  return it == known_.end() ? nullptr : &it->second;
}

std::vector<int> RaggedGrid::beside(const Index& at, std::size_t axis) const {
  std::vector<int> out;
  if (kind_.axes[axis].between == Between::nearest) return out;
  Index probe = at;
  for (const int side : {-1, 1})
    for (int step = 1; step <= 2; ++step) {
      probe[axis] = at[axis] + side * step;
      if (probe[axis] < 0 || probe[axis] >= static_cast<int>(values_[axis].size())) break;
      if (!find(probe)) continue;
      out.push_back(probe[axis]);
      break;
    }
  return out;
}

std::optional<RaggedGrid::Neighbours> RaggedGrid::around(const Index& at, std::size_t axis) const {
  const auto both = beside(at, axis);
  if (both.size() < 2) return {};
  const auto& place = places_[axis];
  const auto p = [&](int k) { return place[static_cast<std::size_t>(k)]; };
  return Neighbours{both[0], both[1], (p(at[axis]) - p(both[0])) / (p(both[1]) - p(both[0]))};
}

std::optional<double> RaggedGrid::rise(Index at, std::size_t axis, int from) const {
  const double* here = find(at);
  at[axis] = from;
  const double* there = find(at);
  if (!here || !there) return {};
  return *here - *there;
}

std::optional<double> RaggedGrid::along(const Index& at, std::size_t axis) const {
  const auto n = around(at, axis);
  if (!n) return {};
  Index probe = at;
  probe[axis] = n->below;
  const double low = *find(probe);
  probe[axis] = n->above;
  return low + n->weight * (*find(probe) - low);
}

std::optional<double> RaggedGrid::bend(const Index& at, std::size_t axis) const {
  const double* here = find(at);
  const auto line = here ? along(at, axis) : std::nullopt;
  if (!line) return {};
  return *here - *line;
}

std::optional<RaggedGrid::Index> RaggedGrid::index(const Coordinates& x) const {
  Index at{};
  for (std::size_t a = 0; a < values_.size(); ++a) {
    const auto& values = values_[a];
    const auto it = std::lower_bound(values.begin(), values.end(), x[a]);
    if (it == values.end() || *it != x[a]) return {};
    at[a] = static_cast<int>(it - values.begin());
  }
  return at;
}

std::optional<double> RaggedGrid::apply(const Estimator& e, const Index& at) const {
  if (e.kind == 0) return along(at, e.a);
  if (e.kind >= 7) return carried(e, at);
  const auto n = around(at, e.a);
  if (!n) return {};
  if (e.kind == 1) {  // a cubic through two known points on either side
    const auto& place = places_[e.a];
    std::vector<std::pair<double, double>> points;
    Index probe = at;
    const auto collect = [&](int from, int step) {
      int found = 0;
      for (int k = from; k >= 0 && k < static_cast<int>(place.size()) && found < 2; k += step) {
        probe[e.a] = k;
        if (const double* v = find(probe)) {
          points.emplace_back(place[static_cast<std::size_t>(k)], *v);
          ++found;
        }
      }
      return found == 2;
    };
    if (!collect(n->below, -1) || !collect(n->above, 1)) return {};
    const double x = place[static_cast<std::size_t>(at[e.a])];
    double sum = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      double w = 1;
      for (std::size_t j = 0; j < 4; ++j)
        if (j != i) w *= (x - points[j].first) / (points[i].first - points[j].first);
      sum += w * points[i].second;
    }
    // a cubic may swing beyond what it passes through; not far
    const double low = std::min(points[0].second, points[2].second),
                 high = std::max(points[0].second, points[2].second);
    return std::clamp(sum, low - 0.3, high + 0.3);
  }
  if (e.kind == 3) {  // along the diagonal where the product of both sizes stays the same
    const auto diagonal = [&](int step) -> std::optional<double> {
      const int i = at[e.a] + step;
      if (i < 0 || i >= static_cast<int>(places_[e.a].size())) return {};
      const double shift = places_[e.a][static_cast<std::size_t>(i)] -
                           places_[e.a][static_cast<std::size_t>(at[e.a])];
      const auto& place = places_[e.b];
      const double want = place[static_cast<std::size_t>(at[e.b])] - shift;
      auto it = std::lower_bound(place.begin(), place.end(), want - 0.3);
      if (it == place.end() || *it > want + 0.3) return {};
      Index probe = at;
      probe[e.a] = i;
      probe[e.b] = static_cast<int>(it - place.begin());
      const double* v = find(probe);
      return v ? std::optional<double>(*v) : std::nullopt;
    };
    const auto up = diagonal(1), down = diagonal(-1);
    if (!up || !down) return {};
    return (*up + *down) / 2;
  }
  if (e.kind == 6) {
    Coordinates x{};
    for (std::size_t a = 0; a < values_.size(); ++a)
      x[a] = values_[a][static_cast<std::size_t>(at[a])];
    const RaggedGrid& other = *siblings_[e.b];
    const auto there = other.index(x);
    const auto bent = there ? other.bend(*there, e.a) : std::nullopt;
    if (!bent) return {};
    return *along(at, e.a) + *bent;
  }
  if (e.kind > 3) {
    const int step = e.kind == 4 ? -1 : 1;
    Index probe = at;
    for (int i = 1; i <= 2; ++i) {
      probe[e.b] = at[e.b] + i * step;
      if (probe[e.b] < 0 || probe[e.b] >= static_cast<int>(values_[e.b].size())) break;
      if (const auto bent = bend(probe, e.a)) return *along(at, e.a) + *bent;
    }
    return {};
  }
  const auto m = around(at, e.b);
  if (!m) return {};
  double corners = 0;
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      Index probe = at;
      probe[e.a] = i ? n->above : n->below;
      probe[e.b] = j ? m->above : m->below;
      const double* v = find(probe);
      if (!v) return {};
      corners += *v * (i ? n->weight : 1 - n->weight) * (j ? m->weight : 1 - m->weight);
    }
  const double x = *along(at, e.a), y = *along(at, e.b);
  return std::clamp(x + y - corners, std::min(x, y) - 0.3, std::max(x, y) + 0.3);
}

std::optional<double> RaggedGrid::carried(const Estimator& e, const Index& at) const {
  double sum = 0;
  int found = 0;
  for (const int from : beside(at, e.a)) {
    Index known = at;
    known[e.a] = from;
    const auto add = [&](const std::optional<double>& step) {
      if (!step) return;
      sum += *find(known) + *step;
      ++found;
    };
    if (e.kind == 7) {
      for (const int near : beside(known, e.b)) {
        Index neighbour = at;
        neighbour[e.b] = near;
        add(rise(neighbour, e.a, from));
      }
      continue;
    }
    Coordinates x{}, y{};
    for (std::size_t a = 0; a < values_.size(); ++a) {
      x[a] = values_[a][static_cast<std::size_t>(at[a])];
      y[a] = values_[a][static_cast<std::size_t>(known[a])];
    }
    const RaggedGrid& other = *siblings_[e.b];
    const auto there = other.index(x), start = other.index(y);
    if (there && start) add(other.rise(*there, e.a, (*start)[e.a]));
  }
  if (found == 0) return {};
  return sum / found;
}

void RaggedGrid::learn() {
  const std::size_t axes = values_.size();
  for (std::size_t a = 0; a < axes; ++a) {
    auto& values = values_[a];
    for (const auto& [x, v] : points_) values.push_back(x[a]);
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    for (const double value : values) places_[a].push_back(doubling(value));
  }
  for (const auto& [x, v] : points_) known_[key(*index(x))] = v;
  for (std::size_t a = 0; a < axes; ++a) {
    if (kind_.axes[a].between == Between::nearest) continue;
    estimators_.push_back({0, a, 0, 0});
    estimators_.push_back({1, a, 0, 0});
    for (std::size_t b = 0; b < siblings_.size(); ++b) {
      estimators_.push_back({6, a, b, 0});
      estimators_.push_back({8, a, b, 0});
    }
    for (std::size_t b = 0; b < axes; ++b)
      if (b != a && kind_.axes[b].between == Between::interpolate) {
        estimators_.push_back({4, a, b, 0});
        estimators_.push_back({5, a, b, 0});
        if (a + 1 == axes) estimators_.push_back({7, a, b, 0});
      }
    for (std::size_t b = a + 1; b < axes; ++b)
      if (kind_.axes[b].between == Between::interpolate) {
        estimators_.push_back({2, a, b, 0});
        estimators_.push_back({3, a, b, 0});
      }
  }
  // each estimator on known points, as if they were not (it never reads the point itself)
  const std::size_t stride = std::max<std::size_t>(1, points_.size() / 600);
  std::vector<double> errors;
  for (auto& e : estimators_) {
    errors.clear();
    for (std::size_t i = 0; i < points_.size(); i += stride)
      if (const auto got = apply(e, *index(points_[i].first)))
        errors.push_back(std::min(0.7, std::abs(*got - points_[i].second)));
    if (errors.size() < 5) {
      e.error = 1;
      continue;
    }
    // between the median and the p90: both are judged
    std::sort(errors.begin(), errors.end());
    e.error = errors[errors.size() / 2] + 0.3 * errors[errors.size() * 9 / 10] + 1e-4;
  }
  std::sort(estimators_.begin(), estimators_.end(),
            [](const Estimator& x, const Estimator& y) { return x.error < y.error; });
}

std::optional<double> RaggedGrid::estimate(const Coordinates& x) const {
  const auto place = index(x);
  if (!place) return {};  // not on the grid
  const Index& at = *place;
  // The weighted median of the best few: at a cliff some of them look across it. Siblings show the
  // cliff, so with them more may speak.
  const std::size_t voices = siblings_.empty() ? 6 : 14;
  std::vector<std::pair<double, double>> votes;
  double weights = 0;
  for (const auto& e : estimators_) {
    if (votes.size() == voices) break;
    if (const auto got = apply(e, at)) {
      votes.emplace_back(*got, 1 / e.error);
      weights += votes.back().second;
    }
  }
  if (votes.empty()) return {};
  std::sort(votes.begin(), votes.end());
  double below = 0;
  for (std::size_t i = 0; i < votes.size(); ++i) {
    below += votes[i].second;
    if (2 * below >= weights) return std::exp(votes[i].first);
  }
  return std::exp(votes.back().first);
}
