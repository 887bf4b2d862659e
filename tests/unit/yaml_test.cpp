#include "sim/scenario/yaml.hpp"

#include <algorithm>
#include <filesystem>

#include <rapidcheck.h>
#include <catch2/catch.hpp>

namespace {

Settings good(const std::string& text) {
  auto settings = parse_yaml("t.yaml", text);
  if (!settings) FAIL(settings.error().render());
  return *settings;
}

Diagnostics bad(const std::string& text) {
  auto settings = parse_yaml("t.yaml", text);
  INFO(text);
  REQUIRE_FALSE(settings.has_value());
  REQUIRE_FALSE(settings.error().empty());
  return settings.error();
}

/// Every place lies inside the text, its line and column counted from one.
bool places_are_inside(const Settings& s, int lines) {
  if (s.where().line < 1 || s.where().line > lines || s.where().column < 1) return false;
  for (const auto& item : s.items())
    if (!places_are_inside(item, lines)) return false;
  for (const auto& entry : s.entries())
    if (entry.where.line < 1 || entry.where.line > lines || entry.where.column < 1 ||
        !places_are_inside(entry.value, lines))
      return false;
  return true;
}

}  // namespace

TEST_CASE("scalars, lists and maps keep their text, their order and their places from one") {
  const Settings s = good("b: 55 GB/s\na:\n  - x\n  - {k: v}\n");
  REQUIRE(s.is_map());
  CHECK(s.entries()[0].key == "b");
  CHECK(s.entries()[0].where.text() == "t.yaml:1:1");
  CHECK(s.entries()[0].value.text() == "55 GB/s");
  CHECK(s.entries()[0].value.where().text() == "t.yaml:1:4");
  CHECK(s.entries()[1].key == "a");
  CHECK(s.entries()[1].where.text() == "t.yaml:2:1");
  const Settings& list = s.entries()[1].value;
  REQUIRE(list.is_sequence());
  CHECK(list.items()[0].where().text() == "t.yaml:3:5");
  CHECK(list.items()[1].entries()[0].where.text() == "t.yaml:4:6");
  CHECK(list.items()[1].entries()[0].value.where().text() == "t.yaml:4:9");
}

TEST_CASE("values stay text: on, 1e3 and 07 are for their readers to judge") {
  const Settings s = good("a: on\nb: 1e3\nc: 07\nd: \"5 us\"\ne: >-\n  two\n  lines\n");
  CHECK(s.find("a")->text() == "on");
  CHECK(s.find("b")->text() == "1e3");
  CHECK(s.find("c")->text() == "07");
  CHECK(s.find("d")->text() == "5 us");
  CHECK(s.find("e")->text() == "two lines");
}

TEST_CASE("a duplicate key is an error at every level, at the second one") {
  CHECK(bad("a: 1\nb: 2\na: 3\n").list().at(0).where.text() == "t.yaml:3:1");
  CHECK(bad("a: 1\na: 3\n").list().at(0).message == "key 'a' appears twice");
  CHECK(bad("top:\n  x: 1\n  x: 2\n").list().at(0).where.text() == "t.yaml:3:3");
  CHECK(bad("- {k: 1, k: 2}\n").list().at(0).where.text() == "t.yaml:1:10");
  CHECK(bad("a: [{b: {c: 1, c: 2}}]\n").list().at(0).message == "key 'c' appears twice");
  CHECK(bad("a: 1\na: 2\nb: {c: 1, c: 2}\n").size() == 2);
  good("a: {x: 1}\nb: {x: 1}\n");  // the same word in two maps is fine
}

TEST_CASE("an empty value has the place of its key") {
  const Settings s = good("a: 1\nb:\nc: {d: , e: 1}\nf: ~\n");
  CHECK(s.find("b")->is_null());
  CHECK(s.find("b")->where().text() == "t.yaml:2:1");
  CHECK(s.find("c")->find("d")->is_null());
  CHECK(s.find("c")->find("d")->where().line == 3);
  CHECK(s.find("f")->is_null());
  CHECK(s.find("f")->where().line == 4);
}

TEST_CASE("an empty file reads as an empty map or as nothing, not as an error") {
  for (const char* text : {"", "\n", "# only a comment\n", "---\n", "{}"}) {
    const Settings s = good(text);
    CHECK((s.is_map() || s.is_null()));
    CHECK(s.entries().empty());
  }
}

TEST_CASE("broken YAML is one error with its place") {
  for (const char* text :
       {"a: [1, 2\n", "a: {b: 1\n", "a: \"open", "a: 1\n b: 2\n  c", "a: b: c\n", "\t- x",
        "a: 1\n- b\n", "&", "*nobody", "!<", "%YAML 9", "[", "}", "@", ",", ", a", "---\n,"}) {
    const auto errors = bad(text);
    INFO(text);
    CHECK(errors.size() == 1);
    CHECK(errors.list()[0].where.line >= 1);
    CHECK(errors.list()[0].message.find("this is not YAML") != std::string::npos);
  }
}

TEST_CASE("two documents in one file are an error") {
  CHECK(bad("a: 1\n---\nb: 2\n").list().at(0).message == "the file holds more than one document");
}

TEST_CASE("a key that is a list or a map is an error") {
  CHECK(bad("? [a, b]\n: 1\n").list().at(0).message == "a key must be a single word");
  CHECK(bad("? {a: b}\n: 1\n").list().at(0).message == "a key must be a single word");
}

TEST_CASE("aliases are followed") {
  const Settings s = good("base: &b {x: 1}\ncopy: *b\n");
  CHECK(s.at("copy.x")->text() == "1");
}

TEST_CASE("a file that nests too deeply or grows by aliases is refused, not followed") {
  std::string blocks;
  for (int depth = 0; depth < 100; ++depth)
    blocks += std::string(static_cast<std::size_t>(depth), ' ') + "k:\n";
  bad(blocks + std::string(100, ' ') + "k: 1\n");
  for (const int depth : {100, 1'000, 100'000}) {
    bad(std::string(static_cast<std::size_t>(depth), '['));
    bad(std::string(static_cast<std::size_t>(depth), '[') +
        std::string(static_cast<std::size_t>(depth), ']'));
    bad(std::string(static_cast<std::size_t>(depth), '{'));
  }
  // Nine aliases a level, ten levels: 3.5 thousand million nodes.
  std::string laughs = "l0: &l0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    const auto here = std::to_string(i), below = "*l" + std::to_string(i - 1);
    laughs += "l" + here + ": &l" + here + " [" + below;
    for (int j = 1; j < 9; ++j) laughs += ", " + below;
    laughs += "]\n";
  }
  CHECK(bad(laughs).list().at(0).message == "the file is too large or too deeply nested");
}

TEST_CASE("what an alias stands for nests as if it were written out") {
  const auto nested = [](int depth, const std::string& core) {
    return std::string(static_cast<std::size_t>(depth), '[') + core +
           std::string(static_cast<std::size_t>(depth), ']');
  };
  // 40 levels, and 20 or 30 around them: 62 and 72 with the map and the innermost word, of 64.
  CHECK(parse_yaml("t.yaml", "a: &a " + nested(40, "x") + "\nb: " + nested(20, "*a") + "\n"));
  bad("a: &a " + nested(40, "x") + "\nb: " + nested(30, "*a") + "\n");
}

TEST_CASE("an alias inside its own anchor ends in an error") { bad("a: &a [*a]\n"); }

TEST_CASE("no bytes crash the loader, and every place of a good file lies in it") {
  CHECK(rc::check("random bytes", [](const std::string& text) {
    const auto settings = parse_yaml("t.yaml", text);
    if (!settings) RC_ASSERT_FALSE(settings.error().render().empty());
  }));
  CHECK(rc::check("random YAML punctuation", [] {
    const auto text = *rc::gen::container<std::string>(
        rc::gen::elementOf(std::string("ab1:,-?[]{}&*!|>'\"%@`#~<= \n\n\t  \\x\xc3\xa9\xff")));
    const auto settings = parse_yaml("t.yaml", text);
    if (!settings) {
      RC_ASSERT_FALSE(settings.error().render().empty());
    } else {
      const auto lines = 1 + static_cast<int>(std::count(text.begin(), text.end(), '\n'));
      RC_ASSERT(places_are_inside(*settings, lines));
    }
  }));
}

TEST_CASE("a missing file is an error at the place that wants it") {
  const auto source = std::make_shared<Source>(Source{"s.yaml", "machine: nowhere.yaml"});
  const auto settings = load_yaml("/nonexistent/nowhere.yaml", {source, 1, 10});
  REQUIRE_FALSE(settings);
  CHECK(settings.error().list().at(0).where.text() == "s.yaml:1:10");
  CHECK(settings.error().list().at(0).message == "there is no file '/nonexistent/nowhere.yaml'");
  CHECK_FALSE(load_yaml(std::filesystem::temp_directory_path().string(), {}));
}
