#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

/// How many different experts a batch of tokens touches. Popularity of an expert is exp(skew z)
/// with z the normal quantiles: skew 0 is uniform routing, 0.85 fits GLM-5.x under its benchmarks
/// (53 / 89 / 136 / 185 of 256 at 8 / 16 / 32 / 64 tokens). Routing belongs to the workload as much
/// as to the model, so the skew is a parameter of the workload. Copies share what they work out,
/// also between threads.
class ExpertPopularity {
 public:
  ExpertPopularity(int experts, int experts_per_token, double skew);
  /// Expected number of distinct experts; grows with tokens, never above the number of experts.
  double distinct(std::int64_t tokens) const;
  double skew() const { return skew_; }

 private:
  struct Known {
    std::mutex guard;
    std::map<std::int64_t, double> distinct;  // by tokens
  };
  double skew_;
  std::shared_ptr<const std::vector<double>> miss_;  // that one token does not use the expert
  std::shared_ptr<Known> known_;
};
