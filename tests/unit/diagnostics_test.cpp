#include "sim/base/diagnostics.hpp"

#include <algorithm>

#include <rapidcheck.h>
#include <catch2/catch.hpp>

namespace {

std::shared_ptr<const Source> source(std::string name, std::string text) {
  return std::make_shared<Source>(Source{std::move(name), std::move(text)});
}

}  // namespace

TEST_CASE("an error shows its place, its line, a caret under the column and the hint") {
  const auto box = source("box.yaml", "schema: 1\nlinks:\n  - bandwith: 55 GB/s\n");
  Diagnostics d;
  d.error({box, 3, 5}, "unknown key 'bandwith' in link", "did you mean 'bandwidth'?");
  CHECK(d.render() ==
        "box.yaml:3:5: error: unknown key 'bandwith' in link\n"
        "   3 |   - bandwith: 55 GB/s\n"
        "     |     ^\n"
        "  did you mean 'bandwidth'?\n");
}

TEST_CASE("the caret of column one stands under the first character") {
  Diagnostics d;
  d.error({source("a", "x: 1"), 1, 1}, "wrong");
  CHECK(d.render() == "a:1:1: error: wrong\n   1 | x: 1\n     | ^\n");
}

TEST_CASE("tabs before the column stay tabs, so that the caret lands under its character") {
  Diagnostics d;
  d.error({source("a", "\tk:\tv"), 1, 5}, "wrong");
  CHECK(d.render() == "a:1:5: error: wrong\n   1 | \tk:\tv\n     | \t  \t^\n");
}

TEST_CASE("a character of several bytes takes one place before the caret") {
  Diagnostics d;
  // Columns count bytes; "é" is two of them.
  d.error({source("a", "caf\xc3\xa9: x"), 1, 8}, "wrong");
  CHECK(d.render() == "a:1:8: error: wrong\n   1 | caf\xc3\xa9: x\n     |       ^\n");
}

TEST_CASE("an error about a whole file or about no file shows no line") {
  Diagnostics d;
  d.error({source("box.yaml", "x: 1"), 0, 0}, "more than one document");
  d.error({}, "nothing given");
  CHECK(d.render() ==
        "box.yaml: error: more than one document\n"
        "input: error: nothing given\n");
}

TEST_CASE("a caret beyond the end of its line or file does not hurt") {
  Diagnostics d;
  d.error({source("a", "x"), 1, 4}, "wrong");
  d.error({source("b", "x"), 9, 2}, "wrong");
  CHECK(d.render() ==
        "a:1:4: error: wrong\n   1 | x\n     |    ^\n"
        "b:9:2: error: wrong\n   9 | \n     |  ^\n");
}

TEST_CASE("lines are counted from one and end before their line break") {
  const Source s{"a", "one\ntwo\r\n\nfour"};
  CHECK(s.line(1) == "one");
  CHECK(s.line(2) == "two");
  CHECK(s.line(3).empty());
  CHECK(s.line(4) == "four");
  CHECK(s.line(5).empty());
}

TEST_CASE("errors come in the order of the text, whatever the order in which they were found") {
  const auto a = source("a", "1\n2\n3\n");
  Diagnostics d;
  d.error({a, 3, 1}, "third");
  d.error({a, 1, 2}, "second");
  d.error({a, 1, 1}, "first");
  const auto text = d.render();
  CHECK(text.find("first") < text.find("second"));
  CHECK(text.find("second") < text.find("third"));
}

TEST_CASE("errors of several files come file by file, in the order in which the files came up") {
  CHECK(rc::check("each file once, its lines in order", [] {
    const std::vector<std::shared_ptr<const Source>> sources = {source("a", ""), source("b", ""),
                                                                source("c", "")};
    const auto places = *rc::gen::container<std::vector<std::pair<int, int>>>(
        rc::gen::pair(rc::gen::inRange(0, 3), rc::gen::inRange(1, 9)));
    Diagnostics d;
    std::vector<std::string> names;  // as they came up
    for (const auto& [s, line] : places) {
      d.error({sources[static_cast<std::size_t>(s)], line, 1}, "x");
      const auto& name = sources[static_cast<std::size_t>(s)]->name;
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    std::string expected;
    for (const auto& name : names)
      for (int line = 1; line < 9; ++line)
        for (const auto& [s, at] : places)
          if (at == line && sources[static_cast<std::size_t>(s)]->name == name)
            expected += name + ":" + std::to_string(line) + ":1: error: x\n   " +
                        std::to_string(line) + " | \n     | ^\n";
    RC_ASSERT(d.render() == expected);
  }));
}

TEST_CASE("appending keeps all errors") {
  Diagnostics a, b;
  a.error({}, "one");
  b.error({}, "two");
  b.error({}, "three");
  a.append(b);
  CHECK(a.size() == 3);
  CHECK(b.size() == 2);
  CHECK(a.list()[2].message == "three");
  CHECK_FALSE(a.empty());
  CHECK(Diagnostics().empty());
}

TEST_CASE("a slip of the fingers finds its word") {
  const std::vector<std::string> words = {"bandwidth", "latency", "kind", "between"};
  CHECK(nearest("bandwith", words) == "bandwidth");    // one missing
  CHECK(nearest("bandwidthh", words) == "bandwidth");  // one too many
  CHECK(nearest("latancy", words) == "latency");       // one wrong
  CHECK(nearest("knid", words) == "kind");             // two swapped: one edit
  CHECK(nearest("colour", words).empty());
  CHECK(nearest("x", {}).empty());
  CHECK(nearest("kind", words) == "kind");
}

TEST_CASE("without a near word all known ones are listed") {
  CHECK(suggestion("bandwith", {"bandwidth"}) == "did you mean 'bandwidth'?");
  CHECK(suggestion("zzzzzz", {"sglang", "vllm"}) == "known: sglang, vllm");
  CHECK(suggestion("zzzzzz", {}).empty());
}

TEST_CASE("a word with one edit is never too far, one that shares nothing always is") {
  CHECK(rc::check("one edit", [] {
    const auto letter = rc::gen::inRange('a', 'n');
    const auto word = *rc::gen::nonEmpty(rc::gen::container<std::string>(letter));
    const auto at = *rc::gen::inRange<std::size_t>(0, word.size());
    auto replaced = word, dropped = word, added = word;
    replaced[at] = 'z';
    added.insert(at, "z");
    dropped.erase(at, 1);
    RC_ASSERT(nearest(replaced, {word}) == word);
    RC_ASSERT(nearest(added, {word}) == word);
    if (word.size() > 1) RC_ASSERT(nearest(dropped, {word}) == word);
    RC_ASSERT(nearest(std::string(word.size() + 3, 'z'), {word}).empty());
  }));
}
