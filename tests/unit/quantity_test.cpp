#include "sim/base/quantity.hpp"

#include <type_traits>

#include <rapidcheck.h>
#include <catch2/catch.hpp>

namespace {

template <class A, class B>
concept Addable = requires(A a, B b) {
  a + b;
};
template <class A, class B>
concept Subtractable = requires(A a, B b) {
  a - b;
};
template <class A, class B>
concept Multipliable = requires(A a, B b) {
  a* b;
};
template <class A, class B>
concept Divisible = requires(A a, B b) {
  a / b;
};
template <class A, class B>
concept Comparable = requires(A a, B b) {
  a < b;
};
template <class A, class B>
concept Equatable = requires(A a, B b) {
  a == b;
};

template <class A, class B>
constexpr bool strangers =
    !Addable<A, B> && !Addable<B, A> && !Subtractable<A, B> && !Subtractable<B, A> &&
    !Comparable<A, B> && !Equatable<A, B> && !Multipliable<A, B> && !Multipliable<B, A> &&
    !std::is_convertible_v<A, B> && !std::is_convertible_v<B, A> &&
    !std::is_constructible_v<A, B> && !std::is_constructible_v<B, A>;

}  // namespace

TEST_CASE("quantities of different kinds do not mix") {
  STATIC_REQUIRE(strangers<Bytes, Tokens>);
  STATIC_REQUIRE(strangers<Bytes, Flops>);
  STATIC_REQUIRE(strangers<Bytes, BytesPerSecond>);
  STATIC_REQUIRE(strangers<Bytes, Duration>);
  STATIC_REQUIRE(strangers<Tokens, Duration>);
  STATIC_REQUIRE(strangers<Flops, FlopsPerSecond>);
  STATIC_REQUIRE(strangers<BytesPerSecond, FlopsPerSecond>);
  STATIC_REQUIRE(strangers<PerSecond, TokensPerSecond>);
  STATIC_REQUIRE(strangers<BytesPerToken, Bytes>);
  STATIC_REQUIRE(strangers<TimePoint, Bytes>);
}

TEST_CASE("a plain number is no quantity until it is told which") {
  STATIC_REQUIRE_FALSE(std::is_convertible_v<int, Bytes>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<double, Flops>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<int, Duration>);
  STATIC_REQUIRE_FALSE(std::is_constructible_v<Duration, std::int64_t>);
  STATIC_REQUIRE_FALSE(std::is_constructible_v<TimePoint, Duration>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<Bytes, std::int64_t>);
  STATIC_REQUIRE_FALSE(Addable<Bytes, int>);
  STATIC_REQUIRE_FALSE(Addable<Duration, int>);
  STATIC_REQUIRE_FALSE(Comparable<Bytes, int>);
}

TEST_CASE("moments subtract to lengths of time and do not add") {
  STATIC_REQUIRE_FALSE(Addable<TimePoint, TimePoint>);
  STATIC_REQUIRE_FALSE(Addable<Duration, TimePoint>);
  STATIC_REQUIRE_FALSE(Multipliable<TimePoint, int>);
  STATIC_REQUIRE(std::is_same_v<decltype(TimePoint() - TimePoint()), Duration>);
  STATIC_REQUIRE(std::is_same_v<decltype(TimePoint() + Duration()), TimePoint>);
  CHECK((TimePoint::at(5_us) - TimePoint::at(2_us)) == 3_us);
  CHECK((TimePoint::at(5_us) - 2_us) == TimePoint::at(3_us));
  CHECK(TimePoint::at(5_us) < TimePoint::never());
}

TEST_CASE("the products that mean something are the only ones") {
  STATIC_REQUIRE(std::is_same_v<decltype(Bytes() / BytesPerSecond(1)), Duration>);
  STATIC_REQUIRE(std::is_same_v<decltype(Flops() / FlopsPerSecond(1)), Duration>);
  STATIC_REQUIRE(std::is_same_v<decltype(Tokens() * BytesPerToken()), Bytes>);
  STATIC_REQUIRE(std::is_same_v<decltype(Bytes() / Bytes(1)), double>);
  STATIC_REQUIRE_FALSE(Divisible<Bytes, FlopsPerSecond>);
  STATIC_REQUIRE_FALSE(Divisible<Flops, BytesPerSecond>);
  STATIC_REQUIRE_FALSE(Divisible<Bytes, Duration>);
  STATIC_REQUIRE_FALSE(Multipliable<Bytes, Bytes>);
  STATIC_REQUIRE_FALSE(Multipliable<Duration, Duration>);
  // 64 bytes at 50 GB/s: 1.28 ns. A clock of nanoseconds would call it one.
  CHECK((Bytes(64) / 50.0_GBps).ps() == 1280);
  CHECK((Flops(1e12) / FlopsPerSecond(400e12)).ps() == 2'500'000'000);
  CHECK((Tokens(1000) * BytesPerToken(100'152)).count() == 100'152'000);
  CHECK(12_KiB / 4_KiB == 3.0);
}

TEST_CASE("a duration rounds to the nearest picosecond, halves away from zero") {
  CHECK(Duration::from_seconds(1.4e-12).ps() == 1);
  CHECK(Duration::from_seconds(1.6e-12).ps() == 2);
  CHECK(Duration::from_seconds(-1.4e-12).ps() == -1);
  CHECK(Duration::from_seconds(-1.6e-12).ps() == -2);
  CHECK(Duration::from_seconds(0.4e-12).ps() == 0);
  CHECK(Duration::from_us(4.94).ps() == 4'940'000);
  CHECK(Duration::from_seconds(0).ps() == 0);
  CHECK(Duration::picoseconds(1000).scaled(1.0014).ps() == 1001);
  CHECK(Duration::picoseconds(1000).scaled(1.0016).ps() == 1002);
}

TEST_CASE("a duration survives the way through floating point for a thousand seconds") {
  CHECK(rc::check("to seconds, milliseconds and microseconds and back", [] {
    const std::int64_t ps =
        *rc::gen::inRange<std::int64_t>(-1'000'000'000'000'000, 1'000'000'000'000'000);
    const auto d = Duration::picoseconds(ps);
    RC_ASSERT(Duration::from_seconds(d.seconds()) == d);
    RC_ASSERT(Duration::from_seconds(d.ms() * 1e-3) == d);
    RC_ASSERT(Duration::from_us(d.us()) == d);
    RC_ASSERT(d.scaled(1.0) == d);
  }));
}

TEST_CASE("sums of durations do not depend on their order") {
  CHECK(rc::check("forwards and backwards", [](const std::vector<std::int32_t>& parts) {
    Duration forwards, backwards;
    for (const auto p : parts) forwards += Duration::picoseconds(p);
    for (auto p = parts.rbegin(); p != parts.rend(); ++p) backwards += Duration::picoseconds(*p);
    RC_ASSERT(forwards == backwards);
  }));
}
