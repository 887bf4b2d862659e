#include "models/cost/cost_model.hpp"

#include <algorithm>

ModelQuality read_quality(Section& section) {
  ModelQuality q;
  const auto scale = section.constant<double>("scale", 1.0, between(0.01, 100.0));
  q.provenance = scale.basis;
  q.scale = scale.value;
  q.error = section.required<double>("error", between(0.0, 10.0));
  return q;
}

Prediction predicted(double time_us, Duration arithmetic, Duration memory,
                     const ModelQuality& quality) {
  Prediction p;
  p.arithmetic = arithmetic;
  p.memory = memory;
  p.time = std::max({Duration::from_us(time_us * quality.scale), arithmetic, memory});
  p.provenance = quality.provenance;
  p.error = quality.error;
  return p;
}
