#pragma once

#include <cstdint>

/// Tokens of a page of the KV pool (SGLang) or a block of it (vLLM): 1 to 65,536. Converts to and
/// from a plain number; a number of tokens (0 to 2^48) is divided by it without a division.
class PageSize {
 public:
  constexpr PageSize(int tokens)
      : tokens_(tokens), reciprocal_(~std::uint64_t{0} / static_cast<std::uint64_t>(tokens)) {}
  constexpr operator int() const { return tokens_; }

  /// Whole pages in so many tokens.
  friend constexpr std::int64_t operator/(std::int64_t tokens, PageSize page) {
    // With m = floor((2^64 - 1) / d) = (2^64 - 1 - r) / d, r < d:
    // (n + 1) m / 2^64 = (n + 1) / d - (n + 1) (1 + r) / (d 2^64), below (n + 1) / d and, as long
    // as (n + 1) (1 + r) <= 2^64, not below n / d: its whole part is that of n / d.
    __extension__ typedef unsigned __int128 u128;
    return static_cast<std::int64_t>(
        static_cast<u128>(static_cast<std::uint64_t>(tokens) + 1) * page.reciprocal_ >> 64);
  }
  friend constexpr std::int64_t operator%(std::int64_t tokens, PageSize page) {
    return tokens - tokens / page * page.tokens_;
  }
  friend constexpr std::int64_t operator/(int tokens, PageSize page) {
    return std::int64_t{tokens} / page;
  }
  friend constexpr std::int64_t operator%(int tokens, PageSize page) {
    return std::int64_t{tokens} % page;
  }

 private:
  int tokens_;
  std::uint64_t reciprocal_;
};

/// Pages that so many tokens need.
constexpr std::int64_t pages_for(std::int64_t tokens, PageSize page) {
  return (tokens + page - 1) / page;
}
