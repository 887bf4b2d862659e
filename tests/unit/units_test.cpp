#include "sim/base/units.hpp"

#include <cmath>
#include <limits>

#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include "sim/base/settings.hpp"

namespace {

template <class T>
T good(std::string_view text) {
  const auto value = parse<T>(text);
  INFO(text);
  REQUIRE(value.has_value());
  return *value;
}

template <class T>
ParseError bad(std::string_view text) {
  const auto value = parse<T>(text);
  INFO(text);
  REQUIRE_FALSE(value.has_value());
  return value.error();
}

bool close(double a, double b, double relative) {
  return std::abs(a - b) <= relative * std::abs(b);
}

}  // namespace

TEST_CASE("a time is read in every unit from picoseconds to hours") {
  CHECK(good<Duration>("7 ps").ps() == 7);
  CHECK(good<Duration>("360 ns").ps() == 360'000);
  CHECK(good<Duration>("4 us").ps() == 4'000'000);
  CHECK(good<Duration>("1.5 ms").ps() == 1'500'000'000);
  CHECK(good<Duration>("1 s").ps() == 1'000'000'000'000);
  CHECK(good<Duration>("2 min").ps() == 120'000'000'000'000);
  CHECK(good<Duration>("1 h").ps() == 3'600'000'000'000'000);
}

TEST_CASE("GB is 10^9 bytes and GiB is 2^30") {
  CHECK(good<Bytes>("1 GB").count() == 1'000'000'000);
  CHECK(good<Bytes>("1 GiB").count() == 1'073'741'824);
  CHECK(good<Bytes>("1 B").count() == 1);
  CHECK(good<Bytes>("3 kB").count() == 3'000);
  CHECK(good<Bytes>("3 KiB").count() == 3'072);
  CHECK(good<Bytes>("2 MB").count() == 2'000'000);
  CHECK(good<Bytes>("97887 MiB").count() == 97'887LL * 1'048'576);
  CHECK(good<Bytes>("1 TB").count() == 1'000'000'000'000);
  CHECK(good<Bytes>("1 TiB").count() == 1'099'511'627'776);
  CHECK(good<BytesPerSecond>("1 GB/s").count() == 1e9);
  CHECK(good<BytesPerSecond>("1 GiB/s").count() == 1073741824.0);
  CHECK(good<BytesPerSecond>("2 kB/s").count() == 2e3);
  CHECK(good<BytesPerSecond>("2 KiB/s").count() == 2048.0);
  CHECK(good<BytesPerSecond>("2 MB/s").count() == 2e6);
  CHECK(good<BytesPerSecond>("2 MiB/s").count() == 2097152.0);
  CHECK(good<BytesPerSecond>("7 B/s").count() == 7);
  CHECK(good<BytesPerSecond>("1.792 TB/s").count() == Approx(1.792e12).epsilon(1e-15));
}

TEST_CASE("arithmetic, rates and throughputs are read in their units") {
  CHECK(good<Flops>("1 FLOP").count() == 1);
  CHECK(good<Flops>("2 GFLOP").count() == 2e9);
  CHECK(good<Flops>("1.2 TFLOP").count() == Approx(1.2e12).epsilon(1e-15));
  CHECK(good<Flops>("3 PFLOP").count() == 3e15);
  CHECK(good<FlopsPerSecond>("467.8 TFLOP/s").count() == Approx(467.8e12).epsilon(1e-15));
  CHECK(good<FlopsPerSecond>("2 PFLOP/s").count() == 2e15);
  CHECK(good<PerSecond>("16 /s").count() == 16);
  CHECK(good<PerSecond>("90 /min").count() == Approx(1.5).epsilon(1e-15));
  CHECK(good<PerSecond>("7200 /h").count() == Approx(2).epsilon(1e-15));
  CHECK(good<TokensPerSecond>("196 tok/s").count() == 196);
  CHECK(good<TokensPerSecond>("196 tokens/s").count() == 196);
  CHECK(good<Tokens>("4096").count() == 4096);
  CHECK(good<Tokens>("4096 tok").count() == 4096);
  CHECK(good<Tokens>("4096 tokens").count() == 4096);
}

TEST_CASE("inf is a rate of requests and nothing else") {
  CHECK(std::isinf(good<PerSecond>("inf").count()));
  CHECK(std::isinf(good<PerSecond>("  inf ").count()));
  bad<double>("inf");
  bad<Duration>("inf s");
  bad<Bytes>("inf GB");
  bad<BytesPerSecond>("inf GB/s");
  bad<Tokens>("inf");
  bad<double>("nan");
  bad<PerSecond>("nan /s");
}

TEST_CASE("a percentage is a number, and only a number may be one") {
  CHECK(good<double>("15 %") == 0.15);
  CHECK(good<double>("15%") == 0.15);
  CHECK(good<double>("-50 %") == -0.5);
  CHECK(good<double>("0.15") == 0.15);
  bad<int>("15 %");
  bad<Tokens>("15 %");
  bad<Bytes>("15 %");
  bad<double>("15 s");
}

TEST_CASE("a bare number is an error where a unit is needed, and the hint shows how to write it") {
  CHECK(bad<Duration>("5").message == "'5' needs a unit");
  CHECK(bad<Duration>("5").hint == "write '5 s'; units: s, ms, us, ns, ps, min, h");
  CHECK(bad<Bytes>("5").hint.find("GiB") != std::string::npos);
  CHECK(bad<BytesPerSecond>("5").hint.find("GB/s") != std::string::npos);
  CHECK(bad<PerSecond>("16").hint == "write '16 /s' or 'inf'");
  bad<FlopsPerSecond>("5");
  bad<Flops>("5");
  bad<TokensPerSecond>("196");
  CHECK(good<Tokens>("5").count() == 5);
}

TEST_CASE("a unit of another family is an error that lists the right ones") {
  CHECK(bad<Duration>("5 GB").message == "'GB' is not a unit of a time");
  CHECK(bad<Bytes>("5 GB/s").message == "'GB/s' is not a unit of an amount of memory");
  CHECK(bad<BytesPerSecond>("5 GB").message == "'GB' is not a unit of a bandwidth");
  CHECK(bad<BytesPerSecond>("5 GB").hint.find("GB/s") != std::string::npos);
  // Units are words: case matters, since MB and mB are not the same thing to everybody.
  bad<Bytes>("5 gb");
  bad<Bytes>("5 KB");
  bad<Bytes>("5 Gb");
  bad<Duration>("5 sec");
  bad<PerSecond>("5 tok/s");
  bad<FlopsPerSecond>("5 TFLOPS");
}

TEST_CASE("what does not start with a number is no quantity") {
  for (const char* text : {"", " ", "fast", "GB", "- 5 GB", "+", "--5 GB", "+-5 GB", "0x10 GB",
                           "1..5 GB", "5 GB GB", "5,0 GB"}) {
    bad<Bytes>(text);
    bad<Duration>(text);
    bad<int>(text);
    bad<double>(text);
    bad<PerSecond>(text);
  }
  CHECK(bad<Bytes>("fast").message == "'fast' is not an amount of memory");
  CHECK(bad<Bytes>("fast").hint == "write for example '96 GiB'");
}

TEST_CASE("spaces around and inside a quantity, a plus sign and exponents are allowed") {
  CHECK(good<Bytes>(" 96 GiB\t") == good<Bytes>("96GiB"));
  CHECK(good<Duration>("+4 us").ps() == 4'000'000);
  CHECK(good<Duration>("4e-6 s").ps() == 4'000'000);
  CHECK(good<int>("1e3") == 1000);
}

TEST_CASE("values beyond the range of their type are errors") {
  CHECK(good<int>("2147483647") == std::numeric_limits<int>::max());
  CHECK(good<int>("-2147483648") == std::numeric_limits<int>::min());
  bad<int>("2147483648");
  bad<int>("-2147483649");
  bad<std::int64_t>("1e30");
  bad<std::int64_t>("1e400");
  bad<Bytes>("1e30 TB");
  bad<Bytes>("1e300 TB");
  bad<Tokens>("1e30");
  // The clock runs for 26 days; a duration may take up to 11.6 of them.
  CHECK(good<Duration>("1e6 s").ps() == 1'000'000'000'000'000'000);
  bad<Duration>("1.1e6 s");
  bad<Duration>("1e300 h");
  bad<Duration>("-1e300 h");
}

TEST_CASE("a rate whose number is finite but whose value is not is an error") {
  bad<BytesPerSecond>("1e300 TB/s");
  bad<FlopsPerSecond>("1e300 PFLOP/s");
  bad<Flops>("-1e300 PFLOP");
}

TEST_CASE("negative quantities are read as such: whether they make sense is the reader's rule") {
  CHECK(good<Duration>("-4 us").ps() == -4'000'000);
  CHECK(good<Bytes>("-1 KiB").count() == -1024);
  CHECK(good<int>("-7") == -7);
  CHECK(good<BytesPerSecond>("-1 GB/s").count() == -1e9);
}

TEST_CASE("counts are whole") {
  CHECK(good<int>("256.0") == 256);
  bad<int>("1.5");
  bad<Tokens>("1.5");
  bad<std::int64_t>("0.1");
  bad<int>("5 tok");
  // 0.1 GiB is 107,374,182.4 bytes: memory is rounded to whole bytes.
  CHECK(good<Bytes>("0.1 GiB").count() == 107'374'182);
}

TEST_CASE("on, true and yes are on; off, false and no are off; the rest is neither") {
  for (const char* text : {"on", "true", "yes", " on "}) CHECK(good<bool>(text));
  for (const char* text : {"off", "false", "no"}) CHECK_FALSE(good<bool>(text));
  for (const char* text : {"", "On", "1", "0", "onn", "on off"}) bad<bool>(text);
}

TEST_CASE("no text makes a parser crash") {
  CHECK(rc::check("any text parses or is refused", [](const std::string& junk, int n) {
    for (const std::string& text :
         {junk, std::to_string(n) + junk, std::to_string(n) + " " + junk}) {
      parse<bool>(text), parse<int>(text), parse<std::int64_t>(text), parse<double>(text);
      parse<Duration>(text), parse<Bytes>(text), parse<Tokens>(text), parse<Flops>(text);
      parse<BytesPerSecond>(text), parse<FlopsPerSecond>(text), parse<PerSecond>(text);
      parse<TokensPerSecond>(text);
      const auto scaled = scale_text(text, 2);
      if (text.empty()) RC_ASSERT(scaled.empty());
    }
  }));
}

TEST_CASE("printed counts and words read back exactly") {
  CHECK(rc::check("int, int64, tokens and bool", [](int n, bool on) {
    RC_ASSERT(*parse<int>(text(n)) == n);
    const std::int64_t wide = std::int64_t{n} * 1'000'003;
    RC_ASSERT(*parse<std::int64_t>(text(wide)) == wide);
    RC_ASSERT(*parse<Tokens>(text(Tokens(wide))) == Tokens(wide));
    RC_ASSERT(*parse<bool>(text(on)) == on);
  }));
}

TEST_CASE("printed quantities read back to the digits that were printed") {
  CHECK(rc::check("double and rates: six digits; times: three; bytes and bandwidths: three", [] {
    const double mantissa = *rc::gen::inRange(1'000'000, 9'999'999) * 1e-6;
    const double x = mantissa * std::pow(10.0, *rc::gen::inRange(-6, 15));
    RC_ASSERT(close(*parse<double>(text(x)), x, 5.1e-6));
    RC_ASSERT(close(parse<PerSecond>(text(PerSecond(x)))->count(), x, 5.1e-6));
    RC_ASSERT(close(parse<TokensPerSecond>(text(TokensPerSecond(x)))->count(), x, 5.1e-6));
    RC_ASSERT(close(parse<FlopsPerSecond>(text(FlopsPerSecond(x)))->count(), x, 5.1e-6));
    const auto rate = BytesPerSecond(std::abs(x) + 1e3);
    RC_ASSERT(close(parse<BytesPerSecond>(text(rate))->count(), rate.count(), 5.1e-3));
    const double seconds = mantissa * std::pow(10.0, *rc::gen::inRange(-11, 6));
    const auto time = Duration::from_seconds(*rc::gen::element(1, -1) * std::min(seconds, 9.9e5));
    RC_ASSERT(close(parse<Duration>(text(time))->seconds(), time.seconds(), 5.1e-3));
    const Bytes bytes(
        static_cast<std::int64_t>(mantissa * std::pow(10.0, *rc::gen::inRange(0, 9))));
    // Four digits below a GiB, tenths of a GiB above.
    const double off = std::abs(parse<Bytes>(text(bytes))->real() - bytes.real());
    RC_ASSERT(off <=
              std::max(1.0, bytes.count() < (1 << 30) ? 5.1e-4 * bytes.real() : 0.051 * (1 << 30)));
  }));
}

TEST_CASE("printed times and bandwidths take the unit that needs no exponent") {
  CHECK(text(Duration::from_us(4.94)) == "4.94 us");
  CHECK(text(Duration::from_us(48.55)) == "48.5 us");
  CHECK(text(Duration::from_seconds(0.0482)) == "48.2 ms");
  CHECK(text(Duration::from_us(999.7)) == "1 ms");
  CHECK(text(Duration::picoseconds(999'700)) == "1 us");
  CHECK(text(Duration::from_seconds(12345)) == "12345 s");
  CHECK(text(Duration()) == "0 ns");
  CHECK(text(BytesPerSecond(22e9)) == "22 GB/s");
  CHECK(text(BytesPerSecond(999.7e6)) == "0.9997 GB/s");
  CHECK(text(BytesPerSecond(10000e9)) == "10000 GB/s");
  CHECK(text(12_KiB) == "12 KiB");
  CHECK(text(Bytes(1023)) == "1023 B");
  CHECK(text(Bytes(97'887LL << 20)) == "95.6 GiB");
  CHECK(rc::check("no exponent from a picosecond to eleven days, from a MB/s to 10 PB/s", [] {
    const double mantissa = *rc::gen::inRange(1'000'000, 9'999'999) * 1e-6;
    const auto time = Duration::from_seconds(mantissa * std::pow(10.0, *rc::gen::inRange(-12, 5)));
    RC_ASSERT(text(time).find('e') == std::string::npos);
    const auto rate = BytesPerSecond(mantissa * std::pow(10.0, *rc::gen::inRange(6, 15)));
    RC_ASSERT(text(rate).find('e') == std::string::npos);
  }));
}

TEST_CASE("large numbers are grouped by thousands") {
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(1000) == "1,000");
  CHECK(grouped(9166) == "9,166");
  CHECK(grouped(-1234567) == "-1,234,567");
  CHECK(grouped(std::numeric_limits<std::int64_t>::max()) == "9,223,372,036,854,775,807");
  CHECK(grouped(std::numeric_limits<std::int64_t>::min()) == "-9,223,372,036,854,775,808");
}

TEST_CASE("scaling a text scales its number and keeps its unit") {
  CHECK(scale_text("22 GB/s", 2) == "44 GB/s");
  CHECK(scale_text("4 us", 0.5) == "2 us");
  CHECK(scale_text("10", 3) == "30");
  CHECK(scale_text("15 %", 2) == "30 %");
  CHECK(scale_text("22GB/s", 2) == "44 GB/s");
  CHECK(scale_text("inf", 2).empty());
  CHECK(scale_text("", 2).empty());
  CHECK(scale_text("on", 2).empty());
  CHECK(rc::check("the scaled text parses to the scaled value, to the last bits", [] {
    const double x = *rc::gen::inRange(1, 1'000'000) * 1e-3;
    const double factor = *rc::gen::inRange(1, 10'000) * 1e-3;
    const auto scaled = scale_text(text(BytesPerSecond(x * 1e9)), factor);
    const double before = parse<BytesPerSecond>(text(BytesPerSecond(x * 1e9)))->count();
    RC_ASSERT(close(parse<BytesPerSecond>(scaled)->count(), before * factor, 1e-14));
  }));
}
