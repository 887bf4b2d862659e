#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "models/cost/cost_models.hpp"
#include "models/graph/operators.hpp"
#include "sim/step/step_model.hpp"

/// Cost models whose answers a reader can work out in the head.
namespace fake {

/// A cost model made of a function.
template <class Shape>
class Cost final : public CostModel<Shape> {
 public:
  explicit Cost(std::function<Prediction(const Shape&)> predict) : predict_(std::move(predict)) {}
  Prediction predict(const Shape& shape) const override { return predict_(shape); }

 private:
  std::function<Prediction(const Shape&)> predict_;
};

template <class Shape>
std::unique_ptr<CostModel<Shape>> cost(std::function<Prediction(const Shape&)> predict) {
  return std::make_unique<Cost<Shape>>(std::move(predict));
}

/// A kernel of so much time, of which so much is explained by arithmetic and by memory.
inline Prediction takes(Duration time, Duration arithmetic = {}, Duration memory = {}) {
  Prediction p;
  p.time = time;
  p.arithmetic = arithmetic;
  p.memory = memory;
  return p;
}

/// Every kernel of a class takes the same time whatever its shape; zero unless changed.
inline CostModels free_kernels() {
  CostModels m;
  m.gemm = cost<GemmShape>([](const GemmShape&) { return Prediction(); });
  m.batched_gemm = cost<BatchedGemmShape>([](const BatchedGemmShape&) { return Prediction(); });
  m.moe = cost<MoeShape>([](const MoeShape&) { return Prediction(); });
  m.mla_decode = cost<MlaDecodeShape>([](const MlaDecodeShape&) { return Prediction(); });
  m.mla_prefill = cost<MlaPrefillShape>([](const MlaPrefillShape&) { return Prediction(); });
  m.indexer = cost<IndexerShape>([](const IndexerShape&) { return Prediction(); });
  m.attention_decode = cost<GqaDecodeShape>([](const GqaDecodeShape&) { return Prediction(); });
  m.attention_prefill = cost<GqaPrefillShape>([](const GqaPrefillShape&) { return Prediction(); });
  m.elementwise = cost<ElementwiseShape>([](const ElementwiseShape&) { return Prediction(); });
  return m;
}

/// GPUs on one root complex with memory behind it, 10 GB/s a link, no peer access.
inline Topology star(int gpus) {
  Topology t;
  const DeviceId root = t.add(Device{"root", DeviceKind::root_complex});
  const DeviceId memory = t.add(Device{"memory", DeviceKind::host_memory});
  const auto link = [&](DeviceId a, DeviceId b, const char* kind) {
    Link l;
    l.a = a;
    l.b = b;
    l.kind = kind;
    l.bandwidth.value = BytesPerSecond(10e9);
    l.latency = Duration::from_us(1);
    l.gen = 4;
    l.lanes = 16;
    t.add(l);
  };
  link(root, memory, "memory");
  for (int i = 0; i < gpus; ++i)
    link(t.add(Device{"gpu" + std::to_string(i), DeviceKind::gpu}), root, "pcie");
  return t;
}

inline CollectivePricer pricer(int ranks) {
  Interconnect box;
  box.shm.hop_ll.value = Duration::from_us(2);
  box.shm.hop_simple = Duration::from_us(10);
  return CollectivePricer(star(ranks), box, ranks, 12.0);
}

inline Operator gemm(const char* name, std::int64_t n = 1, int launches = 1) {
  return {name, name, launches, GemmOp{n, 1}};
}

/// A step model of one operator that takes `base` + `per_token` x tokens on the GPU and `launch` on
/// the host. Owns all it needs.
class AffineStep {
 public:
  AffineStep(Duration base, Duration per_token, LaunchCosts launch)
      : costs_(free_kernels()),
        pricer_(pricer(1)),
        step_(ModelGraph{{LayerBlock{"pass", 1, {gemm("work")}}}}, costs_, pricer_,
              ExpertPopularity(1, 1, 0), launch) {
    costs_.gemm = cost<GemmShape>(
        [base, per_token](const GemmShape& s) { return takes(base + per_token * s.m); });
  }
  AffineStep(const AffineStep&) = delete;
  AffineStep& operator=(const AffineStep&) = delete;
  const StepModel& step() const { return step_; }

 private:
  CostModels costs_;
  CollectivePricer pricer_;
  StepModel step_;
};

}  // namespace fake
