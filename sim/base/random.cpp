#include "sim/base/random.hpp"

#include <bit>
#include <charconv>
#include <cmath>

#include "sim/base/assert.hpp"

namespace {

std::uint64_t splitmix(std::uint64_t& x) {
  std::uint64_t z = (x += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// FNV-1a, going on from the hash of what stands before.
std::uint64_t fnv1a(std::string_view text, std::uint64_t hash = 0xcbf29ce484222325ULL) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

}  // namespace

RandomStream::RandomStream(std::uint64_t seed, std::string_view name)
    : RandomStream(seed, fnv1a(name)) {}

RandomStream::RandomStream(std::uint64_t seed, std::uint64_t hash_of_name) {
  std::uint64_t x = hash_of_name ^ splitmix(seed);
  for (auto& word : state_) word = splitmix(x);
}

RandomStreams::RandomStreams(std::uint64_t seed, std::string_view name)
    : seed_(seed), hash_(fnv1a(name)) {}

RandomStream RandomStreams::operator[](std::int64_t number) const {
  std::array<char, 20> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  return {seed_, fnv1a({digits.data(), static_cast<std::size_t>(end - digits.data())}, hash_)};
}

std::uint64_t RandomStream::next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

double RandomStream::uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

MersenneTwister::MersenneTwister(std::uint32_t seed) {
  state_[0] = seed;
  for (std::uint32_t i = 1; i < state_.size(); ++i)
    state_[i] = 1812433253U * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
}

MersenneTwister MersenneTwister::by_array(std::uint64_t seed) {
  const std::array<std::uint32_t, 2> key = {static_cast<std::uint32_t>(seed),
                                            static_cast<std::uint32_t>(seed >> 32)};
  const std::size_t words = key[1] != 0 ? 2 : 1;
  MersenneTwister out(19650218U);
  auto& mt = out.state_;
  constexpr std::size_t n = 624;
  std::size_t i = 1, j = 0;
  const auto before = [&] { return mt[i - 1] ^ (mt[i - 1] >> 30); };
  const auto advance = [&] {
    if (++i < n) return;
    mt[0] = mt[n - 1];
    i = 1;
  };
  for (std::size_t k = 0; k < n; ++k) {
    mt[i] = (mt[i] ^ (before() * 1664525U)) + key[j] + static_cast<std::uint32_t>(j);
    advance();
    if (++j == words) j = 0;
  }
  for (std::size_t k = 0; k < n - 1; ++k) {
    mt[i] = (mt[i] ^ (before() * 1566083941U)) - static_cast<std::uint32_t>(i);
    advance();
  }
  mt[0] = 0x80000000U;
  return out;
}

void MersenneTwister::twist() {
  constexpr std::size_t n = 624, m = 397;
  const auto mixed = [this](std::size_t i, std::size_t next, std::size_t far) {
    const std::uint32_t y = (state_[i] & 0x80000000U) | (state_[next] & 0x7fffffffU);
    state_[i] = state_[far] ^ (y >> 1) ^ (-(y & 1U) & 0x9908b0dfU);
  };
  for (std::size_t i = 0; i < n - m; ++i) mixed(i, i + 1, i + m);
  for (std::size_t i = n - m; i < n - 1; ++i) mixed(i, i + 1, i + m - n);
  mixed(n - 1, 0, m - 1);
  next_ = 0;
}

std::uint32_t MersenneTwister::next_u32() {
  if (next_ == state_.size()) twist();
  std::uint32_t y = state_[next_++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680U;
  y ^= (y << 15) & 0xefc60000U;
  return y ^ (y >> 18);
}

double MersenneTwister::random() {
  const double a = next_u32() >> 5, b = next_u32() >> 6;
  return (a * 67108864.0 + b) / 9007199254740992.0;
}

std::int64_t NumpyLegacyRandom::randint(std::int64_t low, std::int64_t high) {
  SIM_ASSERT(low < high && high - low <= 0xffffffffLL);
  const auto span = static_cast<std::uint32_t>(high - low - 1);
  if (span == 0) return low;  // NumPy draws nothing here
  // The smallest 2^k - 1 that covers the span.
  const auto mask =
      static_cast<std::uint32_t>(std::bit_ceil(static_cast<std::uint64_t>(span) + 1) - 1);
  std::uint32_t value = 0;
  do value = next_u32() & mask;
  while (value > span);
  return low + value;
}

double NumpyLegacyRandom::exponential(double scale) { return -std::log(1.0 - random()) * scale; }

double NumpyLegacyRandom::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  double x = 0, y = 0, r2 = 0;
  do {
    x = 2.0 * random() - 1.0;
    y = 2.0 * random() - 1.0;
    r2 = x * x + y * y;
  } while (r2 >= 1.0 || r2 == 0.0);
  const double f = std::sqrt(-2.0 * std::log(r2) / r2);
  spare_ = f * x;
  has_spare_ = true;
  return f * y;
}

double NumpyLegacyRandom::gamma(double shape, double scale) {
  return scale * standard_gamma(shape);
}

double NumpyLegacyRandom::standard_gamma(double shape) {
  SIM_ASSERT(shape > 0);
  if (shape == 1.0) return exponential(1.0);
  if (shape < 1.0) {
    for (;;) {
      const double u = random(), v = exponential(1.0);
      if (u <= 1.0 - shape) {
        const double x = std::pow(u, 1.0 / shape);
        if (x <= v) return x;
      } else {
        const double y = -std::log((1.0 - u) / shape);
        const double x = std::pow(1.0 - shape + shape * y, 1.0 / shape);
        if (x <= v + y) return x;
      }
    }
  }
  const double b = shape - 1.0 / 3.0, c = 1.0 / std::sqrt(9.0 * b);
  for (;;) {
    double x = 0, v = 0;
    do {
      x = normal();
      v = 1.0 + c * x;
    } while (v <= 0.0);
    v = v * v * v;
    const double u = random();
    if (u < 1.0 - 0.0331 * (x * x) * (x * x)) return b * v;
    if (std::log(u) < 0.5 * x * x + b * (1.0 - v + std::log(v))) return b * v;
  }
}

namespace {

// NumPy's SeedSequence: a pool of four words that every word of the seed has mixed into, by the
// hash of O'Neill's "Developing a seed_seq alternative" (2015); then as many words as asked for.
std::array<std::uint32_t, 8> seed_words(std::uint64_t seed) {
  std::array<std::uint32_t, 4> pool{};
  std::uint32_t hash = 0x43b0d7e5U;
  const auto hashed = [&hash](std::uint32_t value) {
    value ^= hash;
    hash *= 0x931e8875U;
    value *= hash;
    return value ^ (value >> 16);
  };
  const auto mixed = [](std::uint32_t x, std::uint32_t y) {
    const std::uint32_t out = 0xca01f9ddU * x - 0x4973f715U * y;
    return out ^ (out >> 16);
  };
  pool[0] = hashed(static_cast<std::uint32_t>(seed));
  pool[1] = hashed(static_cast<std::uint32_t>(seed >> 32));
  pool[2] = hashed(0);
  pool[3] = hashed(0);
  for (std::size_t from = 0; from < pool.size(); ++from)
    for (std::size_t to = 0; to < pool.size(); ++to)
      if (from != to) pool[to] = mixed(pool[to], hashed(pool[from]));
  std::array<std::uint32_t, 8> out{};
  hash = 0x8b51f9ddU;
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint32_t value = pool[i % pool.size()] ^ hash;
    hash *= 0x58f38dedU;
    value *= hash;
    out[i] = value ^ (value >> 16);
  }
  return out;
}

}  // namespace

NumpyGenerator::NumpyGenerator(std::uint64_t seed) {
  const auto words = seed_words(seed);
  // Two words make 64 bits, the lower first; two of those make 128, the upper first.
  const auto wide = [&](std::size_t i) {
    const auto u64 = [&](std::size_t k) {
      return static_cast<u128>(words[k] | static_cast<std::uint64_t>(words[k + 1]) << 32);
    };
    return u64(i) << 64 | u64(i + 2);
  };
  increment_ = wide(4) << 1 | 1;
  step();
  state_ += wide(0);
  step();
}

void NumpyGenerator::step() {
  constexpr u128 multiplier =
      static_cast<u128>(2549297995355413924ULL) << 64 | 4865540595714422341ULL;
  state_ = state_ * multiplier + increment_;
}

std::uint64_t NumpyGenerator::next_u64() {
  step();
  const auto upper = static_cast<std::uint64_t>(state_ >> 64);
  return std::rotr(upper ^ static_cast<std::uint64_t>(state_), static_cast<int>(upper >> 58));
}

std::uint32_t NumpyGenerator::next_u32() {
  if (has_upper_) {
    has_upper_ = false;
    return upper_;
  }
  const std::uint64_t both = next_u64();
  upper_ = static_cast<std::uint32_t>(both >> 32);
  has_upper_ = true;
  return static_cast<std::uint32_t>(both);
}

std::int64_t NumpyGenerator::integers(std::int64_t low, std::int64_t high) {
  SIM_ASSERT(low < high && high - low < 0xffffffffLL);
  const auto choices = static_cast<std::uint32_t>(high - low);
  if (choices == 1) return low;  // NumPy draws nothing here
  std::uint64_t product = std::uint64_t{next_u32()} * choices;
  if (auto leftover = static_cast<std::uint32_t>(product); leftover < choices) {
    const std::uint32_t threshold = -choices % choices;  // 2^32 mod choices
    while (leftover < threshold) {
      product = std::uint64_t{next_u32()} * choices;
      leftover = static_cast<std::uint32_t>(product);
    }
  }
  return low + static_cast<std::int64_t>(product >> 32);
}

std::uint32_t PythonRandom::below(std::uint64_t n) {
  SIM_ASSERT(n >= 1 && n <= 0xffffffffULL);
  const auto bits = static_cast<int>(std::bit_width(n));
  std::uint32_t r = 0;
  do r = twister_.next_u32() >> (32 - bits);
  while (r >= n);
  return r;
}
