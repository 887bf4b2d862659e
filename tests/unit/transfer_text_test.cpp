#include "sim/scenario/transfer_text.hpp"

#include <algorithm>

#include <rapidcheck.h>
#include <catch2/catch.hpp>

namespace {

bool same(const std::vector<Copy>& a, const std::vector<Copy>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Copy& x, const Copy& y) {
    return x.from == y.from && x.to == y.to && x.bytes == y.bytes;
  });
}

std::vector<Copy> copies(const std::string& text, int gpus = 8) {
  Diagnostics errors;
  auto out = parse_copies(text, gpus, Bytes(4), {}, errors);
  INFO(errors.render());
  CHECK(errors.empty());
  return out;
}

std::vector<Bytes> sizes(const std::string& text) {
  Diagnostics errors;
  auto out = parse_sizes(text, {}, errors);
  INFO(errors.render());
  CHECK(errors.empty());
  return out;
}

void check_wrong(const std::string& flows, std::size_t count, const std::string& said) {
  Diagnostics errors;
  parse_copies(flows, 8, Bytes(4), {}, errors);
  INFO(flows << "\n" << errors.render());
  CHECK(errors.size() == count);
  CHECK(errors.render().find(said) != std::string::npos);
  for (const auto& d : errors.list()) CHECK_FALSE(d.hint.empty());
}

}  // namespace

TEST_CASE("copies that were printed parse to the same copies") {
  CHECK(rc::check([] {
    const int gpus = *rc::gen::inRange(1, 40);
    const auto count = *rc::gen::inRange(1, 12);
    std::vector<Copy> all;
    for (int i = 0; i < count; ++i) {
      const int from = *rc::gen::inRange(-1, gpus), to = *rc::gen::inRange(-1, gpus);
      if (from != to) all.push_back({from, to, Bytes(7)});
    }
    RC_PRE(!all.empty());
    Diagnostics errors;
    const auto again = parse_copies(text(all), gpus, Bytes(7), {}, errors);
    RC_ASSERT(errors.empty());
    RC_ASSERT(same(again, all));
  }));
}

TEST_CASE("sizes that were printed parse to the same sizes") {
  CHECK(rc::check([] {
    const auto count = *rc::gen::inRange(1, 12);
    std::vector<Bytes> all;
    for (int i = 0; i < count; ++i) {
      const auto shift = *rc::gen::inRange(0, 30);
      all.emplace_back(*rc::gen::inRange<std::int64_t>(1, 1000) << shift);
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    Diagnostics errors;
    RC_ASSERT(parse_sizes(text(all), {}, errors) == all);
    RC_ASSERT(errors.empty());
  }));
}

TEST_CASE("no text of flows or sizes makes a copy to itself, out of range, or no error at all") {
  CHECK(rc::check([] {
    const auto word = *rc::gen::container<std::string>(
        rc::gen::elementOf(std::string("0123489.>,<hostgpu -allKiB")));
    Diagnostics errors;
    const auto parsed = parse_copies(word, 4, Bytes(1), {}, errors);
    RC_ASSERT(!errors.empty() || !parsed.empty());
    for (const Copy& c : parsed) {
      RC_ASSERT(c.from != c.to);
      RC_ASSERT(c.from >= -1 && c.from < 4 && c.to >= -1 && c.to < 4);
    }
    Diagnostics wrong;
    const auto all = parse_sizes(word, {}, wrong);
    RC_ASSERT(!wrong.empty() || !all.empty());
    RC_ASSERT(std::is_sorted(all.begin(), all.end()));
  }));
}

TEST_CASE("flows pair ranges up, spread one end over a range, and name the host") {
  CHECK(text(copies("0>4,1>5")) == "0>4,1>5");
  CHECK(text(copies("0..3>4..7")) == "0>4,1>5,2>6,3>7");
  CHECK(text(copies("0..1>>0..2")) == "0>1,0>2,1>0,1>2");
  CHECK(text(copies("0>1..3")) == "0>1,0>2,0>3");
  CHECK(text(copies("1..3>0")) == "1>0,2>0,3>0");
  CHECK(text(copies("0>host, host>3")) == "0>host,host>3");
  CHECK(text(copies("host>0..1")) == "host>0,host>1");
  CHECK(text(copies("0<>1")) == "0>1,1>0");
  CHECK(text(copies(" gpu0 > gpu4 ")) == "0>4");
  CHECK(text(copies("all-to-all", 3)) == "0>1,0>2,1>0,1>2,2>0,2>1");
  CHECK(copies("all-to-all").size() == 56);
  CHECK(text(copies("0..1>>2..3")) == "0>2,0>3,1>2,1>3");
  CHECK(text(copies("0..7>>0..7")) == text(copies("all-to-all")));
}

TEST_CASE("wrong flows are all reported, each with a way out") {
  check_wrong("0>0", 1, "copies GPU 0 to itself");
  check_wrong("host>host", 1, "copies host memory to itself");
  check_wrong("0>8", 1, "there is no GPU 8");
  check_wrong("0..3>4..6", 1, "does not pair up: 4 to 3");
  check_wrong("0..3>0..3", 4, "to itself");
  check_wrong("3..1>0", 1, "runs backwards");
  check_wrong("x", 1, "'x' is no flow");
  check_wrong("", 1, "'' is no flow");
  check_wrong("0>1,,9>2,a>b", 4, "no GPU and no range");
  Diagnostics alone;
  parse_copies("all-to-all", 1, Bytes(1), {}, alone);
  CHECK(alone.size() == 1);
}

TEST_CASE("sizes are the powers of two of a range, and those of a list, once and ascending") {
  CHECK(text(sizes("1KiB..8KiB")) == "1KiB,2KiB,4KiB,8KiB");
  // 512, 1,024 ... 268,435,456: the next power of two is more than 512 MB = 512,000,000
  CHECK(sizes("512B..512MB").size() == 20);
  CHECK(sizes("512B..512MB").back() == Bytes(std::int64_t{1} << 28));
  CHECK(text(sizes("3 KiB..5 KiB")) == "4KiB");
  CHECK(text(sizes("64KiB, 4KiB, 4096B")) == "4KiB,64KiB");
  CHECK(text(sizes("1536B")) == "1536B");
  for (const char* bad :
       {"", "4", "x", "0B", "-4KiB", "3KiB..3KiB", "8KiB..4KiB", "4KiB,", "9TiB"}) {
    Diagnostics errors;
    parse_sizes(bad, {}, errors);
    INFO(bad);
    CHECK(errors.size() == 1);
  }
}
