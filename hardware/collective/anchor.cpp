#include "hardware/collective/anchor.hpp"

#include <cmath>

std::optional<Anchor::Scale> Anchor::scale(Bytes size, const CollectivePrice& law) const {
  if (points_.empty()) return std::nullopt;
  const double at = size.real();
  const bool covered = at >= points_.front().size && at <= points_.back().size;
  // The nearest measured sizes below and above that go the same way.
  const Point *below = nullptr, *above = nullptr;
  for (const Point& p : points_) {
    if (p.transport != law.transport || p.protocol != law.protocol || p.algorithm != law.algorithm)
      continue;
    if (p.size <= at) below = &p;
    if (p.size >= at && !above) above = &p;
  }
  if (below && above) {
    if (below->size == above->size) return Scale{below->factor, covered, true};
    const double share = std::log(at / below->size) / std::log(above->size / below->size);
    return Scale{std::exp(std::log(below->factor) * (1 - share) + std::log(above->factor) * share),
                 covered, false};
  }
  if (below || above) return Scale{(below ? below : above)->factor, covered, false};
  // A what-if changed the protocol or the algorithm: the nearest size of the same transport.
  const Point* nearest = nullptr;
  for (const Point& p : points_)
    if (p.transport == law.transport &&
        (!nearest || std::abs(std::log(p.size / at)) < std::abs(std::log(nearest->size / at))))
      nearest = &p;
  if (!nearest) return std::nullopt;
  return Scale{nearest->factor, false, false};
}
