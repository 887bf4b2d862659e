#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

/// A stream of random bits with a name. Streams of one seed are independent of each other and of
/// the order in which they are made, so adding a consumer does not move the others.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::string_view name);
  std::uint64_t next();
  /// Uniform in [0, 1), 53 bits.
  double uniform();

 private:
  friend class RandomStreams;
  RandomStream(std::uint64_t seed, std::uint64_t hash_of_name);
  std::array<std::uint64_t, 4> state_;  // xoshiro256**
};

/// Streams that a number tells apart: [12] is the stream with the number behind the name, "name12".
class RandomStreams {
 public:
  RandomStreams(std::uint64_t seed, std::string_view name);
  RandomStream operator[](std::int64_t number) const;

 private:
  std::uint64_t seed_, hash_;
};

/// MT19937 (Matsumoto and Nishimura 1998), the engine of NumPy's legacy generator and of Python's
/// `random`. They differ in how a seed fills it.
class MersenneTwister {
 public:
  /// init_genrand, as std::mt19937.
  explicit MersenneTwister(std::uint32_t seed);
  /// init_by_array of the 32-bit words of `seed`, lowest first: at least one word.
  static MersenneTwister by_array(std::uint64_t seed);

  std::uint32_t next_u32();
  /// 53 bits from two outputs, uniform in [0, 1).
  double random();

 private:
  void twist();

  std::array<std::uint32_t, 624> state_;
  std::size_t next_ = 624;
};

/// NumPy's legacy global generator (`np.random.seed(n)`), bit for bit. It is what
/// sglang.bench_serving draws lengths and arrivals from, and `vllm bench serve` its arrivals.
class NumpyLegacyRandom {
 public:
  explicit NumpyLegacyRandom(std::uint32_t seed) : twister_(seed) {}
  std::uint32_t next_u32() { return twister_.next_u32(); }
  /// `np.random.random()`: 53 bits from two outputs.
  double random() { return twister_.random(); }
  /// `np.random.randint(low, high)`: uniform in [low, high), by masked rejection.
  std::int64_t randint(std::int64_t low, std::int64_t high);
  /// `np.random.exponential(scale)`.
  double exponential(double scale);
  /// `np.random.standard_normal()`: the polar method, two at a time.
  double normal();
  /// `np.random.gamma(shape, scale)`, shape > 0: Marsaglia and Tsang 2000 above 1, Johnk's
  /// rejection below.
  double gamma(double shape, double scale);

 private:
  double standard_gamma(double shape);

  MersenneTwister twister_;
  double spare_ = 0;
  bool has_spare_ = false;
};

/// NumPy's `np.random.default_rng(seed)`, bit for bit, as far as `vllm bench serve` uses it: PCG64
/// (O'Neill 2014: 128-bit state, XSL-RR output) seeded by NumPy's SeedSequence.
class NumpyGenerator {
 public:
  explicit NumpyGenerator(std::uint64_t seed);
  std::uint64_t next_u64();
  /// The halves of an output, the lower first; the upper waits for the next call, whoever makes it.
  std::uint32_t next_u32();
  /// `rng.integers(low, high)`: uniform in [low, high), high - low < 2^32 - 1, by Lemire's
  /// rejection (2019). Draws nothing when there is no choice.
  std::int64_t integers(std::int64_t low, std::int64_t high);

 private:
  __extension__ typedef unsigned __int128 u128;
  void step();

  u128 state_ = 0, increment_ = 0;
  std::uint32_t upper_ = 0;
  bool has_upper_ = false;
};

/// Python's `random` (`random.seed(n)`), bit for bit, as far as load generators use it.
class PythonRandom {
 public:
  explicit PythonRandom(std::uint64_t seed) : twister_(MersenneTwister::by_array(seed)) {}
  double random() { return twister_.random(); }
  /// `random._randbelow(n)`: uniform in [0, n), 1 <= n < 2^32, as many bits as n has, redrawn.
  std::uint32_t below(std::uint64_t n);
  /// `random.shuffle(list)`.
  template <class T>
  void shuffle(std::vector<T>& list) {
    for (std::size_t i = list.size(); i-- > 1;) std::swap(list[i], list[below(i + 1)]);
  }

 private:
  MersenneTwister twister_;
};
