#include "sim/base/random.hpp"

#include <bit>
#include <cmath>

#include "sim/base/assert.hpp"

namespace {

std::uint64_t splitmix(std::uint64_t& x) {
  std::uint64_t z = (x += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace

RandomStream::RandomStream(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a of the name
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  std::uint64_t x = hash ^ splitmix(seed);
  for (auto& word : state_) word = splitmix(x);
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

NumpyLegacyRandom::NumpyLegacyRandom(std::uint32_t seed) {
  state_[0] = seed;
  for (std::uint32_t i = 1; i < state_.size(); ++i)
    state_[i] = 1812433253U * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
}

std::uint32_t NumpyLegacyRandom::next_u32() {
  constexpr std::size_t n = 624, m = 397;
  if (next_ == n) {
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint32_t y = (state_[i] & 0x80000000U) | (state_[(i + 1) % n] & 0x7fffffffU);
      state_[i] = state_[(i + m) % n] ^ (y >> 1) ^ ((y & 1U) ? 0x9908b0dfU : 0U);
    }
    next_ = 0;
  }
  std::uint32_t y = state_[next_++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680U;
  y ^= (y << 15) & 0xefc60000U;
  return y ^ (y >> 18);
}

double NumpyLegacyRandom::random() {
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
