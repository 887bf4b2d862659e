#include "sim/base/settings.hpp"

#include <algorithm>

#include <catch2/catch.hpp>

#include "sim/scenario/yaml.hpp"

namespace {

Settings yaml(const std::string& text) {
  auto settings = parse_yaml("test.yaml", text);
  if (!settings) FAIL(settings.error().render());
  return *settings;
}

Settings value(const std::string& text) { return Settings::scalar(text, {}); }

std::string at(const Settings& s, const std::string& path) {
  const Settings* found = s.at(path);
  return found ? found->is_scalar() ? found->text() : "(not a scalar)" : "(none)";
}

/// What a reader finds wrong with a text.
template <class Read>
Reading read(const std::string& text, Read&& reader) {
  const Settings settings = yaml(text);
  Reading reading;
  {
    Section section(settings, "engine", reading);
    reader(section);
  }
  return reading;
}

const ResolvedValue* used(const Reading& reading, const std::string& path) {
  for (const auto& v : reading.values)
    if (v.path == path) return &v;
  return nullptr;
}

}  // namespace

// ---- the tree ----

TEST_CASE("a dotted path leads through maps and, by index, through lists") {
  const Settings s = yaml("a: {b: {c: 1}}\nlinks: [{w: 5}, {w: 6}]\n");
  CHECK(at(s, "a.b.c") == "1");
  CHECK(at(s, "links.0.w") == "5");
  CHECK(at(s, "links.1.w") == "6");
  CHECK(at(s, "links.2.w") == "(none)");
  CHECK(at(s, "links.-1.w") == "(none)");
  CHECK(at(s, "links.first.w") == "(none)");
  CHECK(at(s, "a.x") == "(none)");
  CHECK(at(s, "a.b.c.d") == "(none)");
  CHECK(at(s, "a.b") == "(not a scalar)");
  CHECK(s.at("") == &s);
}

TEST_CASE("setting a path replaces what stands there and makes maps on the way") {
  Settings s = yaml("a: {b: 1}\nlist: [x, {k: 1}]\n");
  s.set("a.b", value("2"));
  CHECK(at(s, "a.b") == "2");
  s.set("new.deep.path", value("3"));
  CHECK(at(s, "new.deep.path") == "3");
  s.set("a.b.c", value("4"));  // a scalar gives way to a map
  CHECK(at(s, "a.b.c") == "4");
  s.set("list.0", value("y"));
  s.set("list.1.k", value("5"));
  CHECK(at(s, "list.0") == "y");
  CHECK(at(s, "list.1.k") == "5");
  CHECK(s.find("list")->items().size() == 2);
}

TEST_CASE("what was set is what is found, and nothing else moves") {
  for (const char* path : {"a", "a.b", "list.1", "list.0.k", "new", "new.er"}) {
    Settings s = yaml("a: {b: 1, c: 2}\nlist: [{k: 1}, 2]\nz: 9\n");
    s.set(path, value("here"));
    INFO(path);
    CHECK(at(s, path) == "here");
    CHECK(at(s, "z") == "9");
    s.set(path, value("there"));
    CHECK(at(s, path) == "there");
  }
}

TEST_CASE("merging goes leaf by leaf: maps merge, everything else replaces") {
  Settings s = yaml("a: {b: 1, c: 2}\nlist: [1, 2, 3]\nm: {x: 1}\nkeep: 7\n");
  s.merge(yaml("a: {c: 3, d: 4}\nlist: [9]\nm: 5\nfresh: {y: 1}\n"));
  CHECK(at(s, "a.b") == "1");
  CHECK(at(s, "a.c") == "3");
  CHECK(at(s, "a.d") == "4");
  CHECK(s.find("list")->items().size() == 1);
  CHECK(at(s, "list.0") == "9");
  CHECK(at(s, "m") == "5");
  CHECK(at(s, "fresh.y") == "1");
  CHECK(at(s, "keep") == "7");
}

TEST_CASE("merging a tree into itself or nothing into it changes nothing") {
  const Settings before = yaml("a: {b: 1, c: [1, 2]}\nd: 4\n");
  Settings s = before;
  s.merge(before);
  s.merge(yaml("{}"));
  CHECK(s.entries().size() == 2);
  CHECK(at(s, "a.b") == "1");
  CHECK(at(s, "a.c.1") == "2");
  CHECK(at(s, "d") == "4");
}

TEST_CASE("a removed key is gone, a missing one does not matter") {
  Settings s = yaml("a: 1\nb: 2\n");
  s.remove("a");
  s.remove("x");
  CHECK(s.entries().size() == 1);
  CHECK(at(s, "a") == "(none)");
  CHECK(at(s, "b") == "2");
}

TEST_CASE("a change of a copy leaves the original as it was, and the other way round") {
  const Settings before = yaml("a: {b: 1, c: [1, {k: 2}]}\nd: 4\n");
  Settings s = before, other = before;
  CHECK(s.shares_all_with(before));
  s.set("a.c.1.k", value("3"));
  other.merge(yaml("a: {b: 5}\n"));
  other.remove("d");
  CHECK(at(before, "a.c.1.k") == "2");
  CHECK(at(before, "a.b") == "1");
  CHECK(at(before, "d") == "4");
  CHECK(at(s, "a.c.1.k") == "3");
  CHECK(at(s, "a.b") == "1");
  CHECK(at(other, "a.b") == "5");
  CHECK(at(other, "a.c.1.k") == "2");
  CHECK_FALSE(s.shares_all_with(before));
  CHECK_FALSE(other.shares_all_with(before));
}

TEST_CASE("a value keeps its place through set and merge") {
  Settings s = yaml("a: 1\n");
  s.merge(yaml("\n\nb: 2\n"));
  CHECK(s.at("b")->where().line == 3);
  CHECK(s.at("a")->where().line == 1);
  s.set("c.d", *yaml("x: 5").find("x"));
  CHECK(s.at("c.d")->where().column == 4);
}

// ---- reading a section ----

TEST_CASE("an unknown key is an error at its place with the nearest known key") {
  const auto r = read("page_sise: 64\n", [](Section& s) { s.optional<int>("page_size", 1); });
  CHECK(r.errors.render() ==
        "test.yaml:1:1: error: unknown key 'page_sise' in engine\n"
        "   1 | page_sise: 64\n"
        "     | ^\n"
        "  did you mean 'page_size'?\n");
}

TEST_CASE("an unknown key that is near nothing lists the keys that are still open") {
  const auto r = read("zzzzzz: 1\nseed: 2\n", [](Section& s) {
    s.optional<int>("seed", 1);
    s.optional<int>("requests", 1);
    s.optional<bool>("overlap", true);
  });
  REQUIRE(r.errors.size() == 1);
  CHECK(r.errors.list()[0].hint == "known: requests, overlap");
}

TEST_CASE("a section that passes its keys on complains about none") {
  const auto r = read("a: 1\nb: 2\n", [](Section& s) { s.ignore_rest(); });
  CHECK(r.errors.empty());
}

TEST_CASE("all errors are found in one go") {
  const auto r = read("a: x\nb: 5 GB\nc: 7\nextra: 1\n", [](Section& s) {
    s.required<int>("a");
    s.required<Duration>("b");
    s.required<int>("c", between(1, 5));
    s.required<int>("absent");
  });
  CHECK(r.errors.size() == 5);
  const auto text = r.errors.render();
  CHECK(text.find("a: 'x' is not a whole number") != std::string::npos);
  CHECK(text.find("b: 'GB' is not a unit of a time") != std::string::npos);
  CHECK(text.find("c: '7' must lie between 1 and 5") != std::string::npos);
  CHECK(text.find("engine needs 'absent'") != std::string::npos);
  CHECK(text.find("unknown key 'extra' in engine") != std::string::npos);
}

TEST_CASE("rules on values say what would be right") {
  const auto r = read("a: 0\nb: -1 us\nc: 9\nd: 3\n", [](Section& s) {
    s.required<int>("a", positive<int>());
    s.required<Duration>("b", at_least(Duration()));
    s.required<int>("c", between(1, 8));
    CHECK(s.required<int>("d", at_least(3)) == 3);
  });
  CHECK(r.errors.size() == 3);
  CHECK(r.errors.list()[0].message == "a: '0' must be greater than zero");
  CHECK(r.errors.list()[1].message == "b: '-1 us' must be at least 0 ns");
  CHECK(r.errors.list()[2].message == "c: '9' must lie between 1 and 8");
}

TEST_CASE("a default stands in for an absent key only, and is recorded as such") {
  const auto r = read("given: 7\nbroken: x\n", [](Section& s) {
    CHECK(s.optional<int>("given", 1) == 7);
    CHECK(s.optional<int>("absent", 2) == 2);
    CHECK(s.optional<int>("broken", 3) == 3);
    CHECK_FALSE(s.maybe<int>("nothing").has_value());
    CHECK(s.optional<Duration>("pause", 5_us) == 5_us);
  });
  REQUIRE(used(r, "engine.given"));
  CHECK(used(r, "engine.given")->value == "7");
  CHECK(used(r, "engine.given")->origin == "test.yaml:1:8");
  REQUIRE(used(r, "engine.absent"));
  CHECK(used(r, "engine.absent")->value == "2");
  CHECK(used(r, "engine.absent")->origin == "default");
  CHECK(used(r, "engine.pause")->value == "5 us");
  CHECK_FALSE(used(r, "engine.nothing"));
  CHECK_FALSE(used(r, "engine.broken"));
  CHECK(r.errors.size() == 1);
}

TEST_CASE("a map or a list where one value belongs is an error, as is an empty value") {
  const auto r = read("a: {b: 1}\nc: [1]\nd:\n", [](Section& s) {
    s.required<int>("a");
    s.required<int>("c");
    s.required<int>("d");
  });
  REQUIRE(r.errors.size() == 3);
  CHECK(r.errors.list()[0].message == "engine.a must be a single value");
  CHECK(r.errors.list()[2].message == "engine.d must be a single value");
  CHECK(r.errors.list()[2].where.line == 3);
}

TEST_CASE("a section that is no map is an error, an absent one reads as empty") {
  Reading reading;
  const Settings list = yaml("[1, 2]");
  {
    Section s(list, "engine", reading);
    CHECK_FALSE(s.has("x"));
  }
  CHECK(reading.errors.list().at(0).message == "engine must be a map of keys and values");
  Reading absent;
  {
    Section s(nullptr, "engine", absent);
    CHECK(s.optional<int>("x", 5) == 5);
  }
  CHECK(absent.errors.empty());
  {
    Section s(nullptr, "engine", absent);
    s.required<int>("x");
  }
  CHECK(absent.errors.list().at(0).message == "engine needs 'x'");
}

TEST_CASE("a word must be one of the allowed ones") {
  const auto r = read("kind: sglnag\nmode: zz\n", [](Section& s) {
    s.word("kind", {"sglang", "vllm"});
    s.word("mode", {"fast", "slow"});
    CHECK(s.word("absent", {"x", "y"}, "y") == "y");
    s.word("needed", {"x"});
  });
  REQUIRE(r.errors.size() == 3);
  CHECK(r.errors.list()[0].message == "'sglnag' is not a valid kind");
  CHECK(r.errors.list()[0].hint == "did you mean 'sglang'?");
  CHECK(r.errors.list()[1].hint == "known: fast, slow");
  CHECK(r.errors.list()[2].message == "engine needs 'needed'");
  CHECK(used(r, "engine.absent")->origin == "default");
}

TEST_CASE("a list of words may be a single word") {
  const auto r = read("one: a\nmany: [a, b]\nmap: {a: 1}\nmixed: [a, [b]]\n", [](Section& s) {
    CHECK(s.words("one") == std::vector<std::string>{"a"});
    CHECK(s.words("many") == std::vector<std::string>{"a", "b"});
    CHECK(s.words("absent").empty());
    s.words("map");
    s.words("mixed");
  });
  CHECK(r.errors.size() == 2);
}

TEST_CASE("a constant carries its basis, spread, source and the runs it was fitted on") {
  const auto r = read(
      "c:\n  value: 25 GB/s\n  basis: fitted\n  spread: 1.4\n  label: staging capacity\n"
      "  source: two runs\n  fitted_on: [seed 32-at-8, seed 64-at-16]\n",
      [](Section& s) {
        const auto c = s.constant<BytesPerSecond>("c");
        CHECK(c.value.count() == 25e9);
        CHECK(c.basis == Provenance::fitted);
        CHECK(c.spread == 1.4);
        CHECK(c.label == "staging capacity");
        CHECK(c.source == "two runs");
        CHECK(c.fitted_on == std::vector<std::string>{"seed 32-at-8", "seed 64-at-16"});
      });
  CHECK(r.errors.empty());
  REQUIRE(used(r, "engine.c.value"));
  CHECK(used(r, "engine.c.value")->value == "25 GB/s");
}

TEST_CASE("a bare constant takes the basis and source of its section") {
  const auto r =
      read("basis: measured\nsource: nccl-tests\nbare: 4 us\nown: {value: 5 us, basis: assumed}\n",
           [](Section& s) {
             const auto bare = s.constant<Duration>("bare");
             CHECK(bare.value == 4_us);
             CHECK(bare.basis == Provenance::measured);
             CHECK(bare.source == "nccl-tests");
             CHECK(bare.spread == 1);
             const auto own = s.constant<Duration>("own");
             CHECK(own.basis == Provenance::assumed);
             CHECK(own.source == "nccl-tests");
             CHECK(own.label == "own");
             const auto absent = s.constant<Duration>("absent", 7_us);
             CHECK(absent.value == 7_us);
           });
  CHECK(r.errors.empty());
  CHECK(used(r, "engine.absent")->origin == "default");
}

TEST_CASE("a constant is checked as a whole: unknown keys, a bad basis, a spread below one") {
  const auto r = read(
      "a: {value: 4 us, sprad: 2}\nb: {value: 4 us, basis: guessed}\nc: {value: 4 us, spread: "
      "0.5}\n"
      "d: {basis: fitted}\ne: {value: -1 us}\n",
      [](Section& s) {
        s.constant<Duration>("a");
        s.constant<Duration>("b");
        s.constant<Duration>("c");
        s.constant<Duration>("d");
        s.constant<Duration>("e", std::nullopt, positive<Duration>());
        s.constant<Duration>("f");
      });
  REQUIRE(r.errors.size() == 6);
  CHECK(r.errors.list()[0].message == "unknown key 'sprad' in engine.a");
  CHECK(r.errors.list()[0].hint == "did you mean 'spread'?");
  CHECK(r.errors.list()[1].message == "'guessed' is not a basis");
  CHECK(r.errors.list()[2].message == "spread: '0.5' must lie between 1 and 100");
  CHECK(r.errors.list()[3].message == "engine.d needs 'value'");
  CHECK(r.errors.list()[4].message == "value: '-1 us' must be greater than zero");
  CHECK(r.errors.list()[5].message == "engine needs 'f'");
}

TEST_CASE("every word for a provenance reads back, and their order runs from firm to loose") {
  for (const auto& word : provenance_names()) {
    Provenance p{};
    REQUIRE(parse_provenance(word, p));
    CHECK(name(p) == word);
  }
  Provenance p{};
  CHECK_FALSE(parse_provenance("guessed", p));
  CHECK(Provenance::exact < Provenance::measured);
  CHECK(Provenance::measured < Provenance::interpolated);
  CHECK(Provenance::interpolated < Provenance::fitted);
  CHECK(Provenance::fitted < Provenance::assumed);
}
