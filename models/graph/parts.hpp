#pragma once

#include <string>
#include <vector>

#include "models/graph/graph.hpp"

/// The parts of a forward pass that models share whatever their attention: embedding, MLPs, routed
/// experts, head, and the all-reduces between them.
class GraphParts {
 public:
  using Operators = std::vector<Operator>;
  static constexpr std::int64_t activation = 2;  // bytes of a bf16 activation

  GraphParts(const ModelSpec& model, const GraphOptions& options) : m_(model), o_(options) {}

  static Operator small(std::string name, int launches, std::int64_t bytes_per_row,
                        Rows rows = Rows::tokens);
  /// A small kernel that writes where it has read: norms with their residual, rotary embedding.
  static Operator in_place(std::string name, std::int64_t bytes_per_row);
  void all_reduce(Operators& ops) const;  // nothing on one GPU
  Operators embedding() const;
  /// From the norm behind attention to the end of the layer.
  void feed_forward(Operators& ops, bool dense) const;
  /// `sampling_bytes` of a logit, read and written by each of the ten kernels of sampling.
  Operators head(double sampling_bytes) const;

 private:
  void mlp(Operators& ops, const std::string& group, std::int64_t inter, Precision precision,
           bool side) const;
  void moe(Operators& ops) const;

  const ModelSpec& m_;
  const GraphOptions& o_;
};
