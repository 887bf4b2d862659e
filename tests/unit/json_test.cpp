#include "sim/base/json.hpp"

#include <cmath>

#include <catch2/catch.hpp>

namespace {

JsonError error_of(const std::string& text) {
  const auto parsed = parse_json(text);
  REQUIRE_FALSE(parsed);
  return parsed.error();
}

}  // namespace

TEST_CASE("JSON values are read with their places") {
  const std::string text = "{\"a\": [1, -2.5e3, true, null],\n \"b\": {\"c\": \"x\\u00e9\\n\"}}";
  const auto parsed = parse_json(text);
  REQUIRE(parsed);
  const Json* a = parsed->find("a");
  REQUIRE(a);
  REQUIRE(a->items.size() == 4);
  CHECK(a->items[0].whole() == 1);
  CHECK(a->items[1].number == -2500);
  CHECK(a->items[2].is(Json::Kind::boolean));
  CHECK(a->items[3].is(Json::Kind::null));
  const Json* c = parsed->find("b")->find("c");
  REQUIRE(c);
  CHECK(c->text == "x\xc3\xa9\n");
  CHECK(line_and_column(text, c->at) == std::pair(2, 13));
  CHECK_FALSE(parsed->find("z"));
  CHECK_FALSE(a->items[1].find("z"));
}

TEST_CASE("Python's infinities are numbers, and no whole ones") {
  const auto parsed = parse_json("[Infinity, -Infinity, NaN, 1.5, 1e300]");
  REQUIRE(parsed);
  CHECK(parsed->items[0].number > 1e308);
  CHECK(parsed->items[1].number < -1e308);
  CHECK(std::isnan(parsed->items[2].number));
  for (const auto& item : parsed->items) CHECK_FALSE(item.whole());
}

TEST_CASE("what is no JSON is refused where it goes wrong") {
  CHECK(error_of("").at == 0);
  CHECK(error_of("{\"a\": }").at == 6);
  CHECK(error_of("[1 2]").at == 3);
  CHECK(error_of("{\"a\": 1, \"a\": 2}").at == 9);
  CHECK(error_of("[1] x").at == 4);
  CHECK(error_of("\"abc").at == 4);
  CHECK(error_of("\"\\q\"").at == 2);
  CHECK(error_of("nan").at == 0);
  CHECK(error_of("[-]").at == 1);
  CHECK(error_of(std::string(100, '[')).message == "more than 64 levels");
}
