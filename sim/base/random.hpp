#pragma once

#include <array>
#include <cstdint>
#include <string_view>

/// A stream of random bits with a name. Streams of one seed are independent of each other and of
/// the order in which they are made, so adding a consumer does not move the others.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::string_view name);
  std::uint64_t next();
  /// Uniform in [0, 1), 53 bits.
  double uniform();

 private:
  std::array<std::uint64_t, 4> state_;  // xoshiro256**
};

/// NumPy's legacy global generator (`np.random.seed(n)`), bit for bit: MT19937 seeded with
/// init_genrand. It is what sglang.bench_serving draws lengths and arrivals from.
class NumpyLegacyRandom {
 public:
  explicit NumpyLegacyRandom(std::uint32_t seed);
  std::uint32_t next_u32();
  /// `np.random.random()`: 53 bits from two outputs.
  double random();
  /// `np.random.randint(low, high)`: uniform in [low, high), by masked rejection.
  std::int64_t randint(std::int64_t low, std::int64_t high);
  /// `np.random.exponential(scale)`.
  double exponential(double scale);

 private:
  std::array<std::uint32_t, 624> state_;
  std::size_t next_ = 624;
};
