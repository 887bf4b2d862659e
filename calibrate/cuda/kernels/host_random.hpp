#pragma once

#include <cstdint>

/// Uniform numbers in [0, 1) for inputs that the host makes: splitmix64 (Steele, Lea, Flood 2014).
struct HostRandom {
  std::uint64_t state;
  std::uint64_t next() {
    std::uint64_t x = state += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
  }
  double operator()() { return static_cast<double>(next() >> 11) * 0x1p-53; }
};
