#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "models/cost/kernel_class.hpp"

/// The measured ratios of one set as points of a ragged grid, and estimates of points that are
/// missing from it. Which neighbours tell most differs from kernel to kernel (a tile edge along m,
/// a smooth slope along the batch), so each kind of estimate is first tried on points that are
/// known.
class RaggedGrid {
 public:
  explicit RaggedGrid(const KernelClass& kind);
  /// `x`: all coordinates; `ratio`: measured time over law.
  void add(const Coordinates& x, double ratio);
  /// A grid of the same class that was measured alike but for one word (another routing, another
  /// element type): where it has a point, it shows how a curve bends there. Must outlive this one.
  void add_sibling(const RaggedGrid& sibling) { siblings_.push_back(&sibling); }
  /// Fixes the axes and ranks the estimators; call once, after the last `add`.
  void learn();
  /// An estimate of the ratio from its neighbours; nothing where there are none.
  std::optional<double> estimate(const Coordinates& x) const;
  const std::vector<std::vector<double>>& axes() const { return values_; }

 private:
  using Index = std::array<int, kernel_axes_max>;
  struct Neighbours {
    int below = -1, above = -1;
    double weight = 0;  // of the one above
  };
  struct Estimator {
    int kind;  // 0: along a; 1: four points along a; 2: along a and b with their twist;
               // 3: along the diagonal of equal a x b
               // 4, 5: along a, bent as the neighbour below, above along b
               // 6: along a, bent as sibling b
               // 7: from the nearest point along a, by the step that the neighbours along b make
               // 8: the same with the step of sibling b; both reach the ends of a curve
    std::size_t a, b;
    double error;
  };
  std::uint64_t key(const Index& at) const;
  const double* find(const Index& at) const;
  std::optional<Neighbours> around(const Index& at, std::size_t axis) const;
  std::optional<double> apply(const Estimator& estimator, const Index& at) const;
  std::optional<double> along(const Index& at, std::size_t axis) const;
  std::optional<double> carried(const Estimator& estimator, const Index& at) const;

  /// The points next to it along `axis` that are known, one on each side at most two steps away.
  std::vector<int> beside(const Index& at, std::size_t axis) const;
  /// By how much this grid rises from position `from` along `axis` to the point.
  std::optional<double> rise(Index at, std::size_t axis, int from) const;
  /// How far the point lies off the line between its neighbours along `axis`, in this grid.
  std::optional<double> bend(const Index& at, std::size_t axis) const;
  std::optional<Index> index(const Coordinates& x) const;

  const KernelClass& kind_;
  std::vector<const RaggedGrid*> siblings_;
  std::vector<std::pair<Coordinates, double>> points_;
  std::vector<std::vector<double>> values_, places_;
  std::unordered_map<std::uint64_t, double> known_;
  std::vector<Estimator> estimators_;
};
