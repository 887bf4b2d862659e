#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hardware/collective/collective.hpp"

/// One collective timed on a box over a range of sizes.
struct MeasuredCurve {
  Collective op = Collective::all_reduce;
  std::string kernel = "nccl";
  int ranks = 0;
  std::optional<Transport> transport;  // where the measurement forced one
  std::string source;
  std::map<std::int64_t, Duration> points;  // size in bytes -> time
};

/// What was measured on a box against what its law says: the factors by which a law of this box, or
/// of one derived from it by an edit, is scaled.
class Anchor {
 public:
  /// `law`: the price of a size without any anchor.
  template <class Law>
  Anchor(const MeasuredCurve& curve, Law law) : curve_(curve) {
    for (const auto& [size, time] : curve.points) {
      const CollectivePrice price = law(Bytes(size));
      if (price.time > Duration())
        points_.push_back({static_cast<double>(size), time / price.time, price.protocol,
                           price.transport, price.algorithm});
    }
  }

  const MeasuredCurve& curve() const { return curve_; }
  struct Scale {
    double factor = 1;
    bool covered = false;  // the size lies between measured ones
    bool exact = false;    // it is one of them
  };
  /// The factor for a price of this size. Between two sizes of the price's own protocol segment on
  /// their logarithms; at the edge of a segment the nearest of it; nothing when no point of the
  /// price's transport was measured.
  std::optional<Scale> scale(Bytes size, const CollectivePrice& law) const;

 private:
  struct Point {
    double size;
    double factor;
    Protocol protocol;
    Transport transport;
    std::string algorithm;
  };
  MeasuredCurve curve_;
  std::vector<Point> points_;  // ascending
};
