// Traces by hand; the caches on top of it have laws of their own.

#include <vector>

#include <catch2/catch.hpp>

#include "sim/engine/prefix_tree.hpp"

namespace {

constexpr int page = 4;

struct Node {
  NodeId parent = no_node, child = no_node;
  std::int32_t children = 0;
  std::int64_t pages = 0;
  std::uint64_t hash = 0;
  Runs runs;
};

using Tree = PrefixTree<Node>;

/// Tokens of stream 1, then of another one.
Content forked(std::int64_t common, std::int64_t stream, std::int64_t tokens) {
  Content said(1, common);
  said.append({stream, 0, tokens});
  return said;
}

/// Says all of it in one new leaf, behind what is said already.
NodeId add(Tree& tree, const Content& said) {
  Tree::Walk w = tree.walk(said, said.tokens() / page);
  if (w.into < tree[w.node].pages) w.node = tree.split(w.node, w.into);
  return tree.add_leaf(w.node, RunCursor(said, w.pages * page), said.tokens() / page - w.pages);
}

}  // namespace

TEST_CASE("a prefix tree is walked to the last whole page in common") {
  Tree tree(page);
  const NodeId leaf = add(tree, Content(1, 23));  // 5 pages and 3 tokens
  CHECK(tree[leaf].pages == 5);

  const auto all = tree.walk(Content(1, 40), 10);
  CHECK((all.node == leaf && all.into == 5 && all.pages == 5));
  const auto limited = tree.walk(Content(1, 40), 2);
  CHECK((limited.node == leaf && limited.into == 2 && limited.pages == 2));
  const auto parted = tree.walk(forked(10, 2, 30), 10);  // 2 pages and 2 tokens
  CHECK((parted.node == leaf && parted.into == 2 && parted.pages == 2));
  const auto nothing = tree.walk(Content(2, 40), 10);
  CHECK((nothing.node == root_node && nothing.into == 0 && nothing.pages == 0));
}

TEST_CASE("a split node keeps its id for the rest, and what follows it") {
  Tree tree(page);
  const NodeId five = add(tree, Content(1, 20));
  const NodeId six = add(tree, forked(20, 2, 4));
  CHECK(tree[six].parent == five);

  const NodeId three = add(tree, forked(8, 3, 12));  // parts after 2 of the 5 pages
  const NodeId two = tree[three].parent;
  CHECK(tree[two].pages == 2);
  CHECK(tree[two].children == 2);
  CHECK(tree[five].pages == 3);
  CHECK(tree[five].parent == two);
  CHECK(tree[six].parent == five);
  CHECK(tree.walk(forked(20, 2, 4), 6).node == six);
  CHECK(tree.walk(forked(8, 3, 12), 5).node == three);

  // On from the end of a node, as from the root.
  const auto on = tree.walk(forked(20, 2, 4), 6, {two, 2, 2});
  CHECK((on.node == six && on.into == 1 && on.pages == 6));
}

TEST_CASE("a node finds each of many children, also when the one that it names is gone") {
  Tree tree(page);
  const NodeId stem = add(tree, Content(1, 8));
  std::vector<NodeId> leaves;
  for (int k = 2; k < 102; ++k) leaves.push_back(add(tree, forked(8, k, 4)));
  CHECK(tree[stem].children == 100);
  const auto missing = [&] {
    int n = 0;
    for (int k = 2; k < 102; ++k)
      n += tree.walk(forked(8, k, 4), 3).node != leaves[static_cast<std::size_t>(k) - 2];
    return n;
  };
  CHECK(missing() == 0);

  REQUIRE(tree[stem].child == leaves[0]);
  tree.remove_leaf(leaves[0]);
  CHECK(missing() == 1);
  tree.remove_leaf(leaves[50]);
  CHECK(missing() == 2);
  CHECK(tree[stem].children == 98);
  CHECK(tree.walk(forked(8, 2, 4), 3).node == stem);

  // Their ids serve again, with nothing left of what they said.
  const std::size_t nodes = tree.size();
  leaves[50] = add(tree, forked(8, 52, 4));
  leaves[0] = add(tree, forked(8, 2, 4));
  CHECK(tree.size() == nodes);
  CHECK(missing() == 0);
  CHECK(tree[stem].children == 100);

  // Children in the table move to the upper half of a split and are found below it.
  const NodeId first = add(tree, forked(8, 200, 12));
  const NodeId other = add(tree, [] {
    Content said = forked(8, 200, 4);
    said.append({201, 0, 8});
    return said;
  }());
  CHECK(tree[first].pages == 2);
  CHECK(tree[tree[first].parent].pages == 1);
  CHECK(tree[other].parent == tree[first].parent);
  CHECK(tree.walk(forked(8, 200, 12), 5).node == first);
  CHECK(missing() == 0);
}

TEST_CASE("a leaf grows and shrinks at its end") {
  Tree tree(page);
  const Content said(1, 40);
  const NodeId leaf = add(tree, Content(1, 8));
  tree.extend_leaf(leaf, RunCursor(said, 8), 3);
  CHECK(tree[leaf].pages == 5);
  CHECK(tree[leaf].runs.size() == 1);  // one run that goes on
  CHECK(tree.walk(said, 10).pages == 5);
  tree.shorten_leaf(leaf, 4);
  CHECK(tree[leaf].pages == 1);
  CHECK(tree.walk(said, 10).pages == 1);
}
