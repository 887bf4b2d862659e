#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/engine/id_table.hpp"
#include "sim/engine/runs.hpp"

using NodeId = std::int32_t;
inline constexpr NodeId root_node = 0, no_node = -1;

/// What a node of a PrefixTree has. How it lies in memory, and what else, is its cache's business.
template <class Node>
concept PrefixNode = requires(Node n, Runs runs) {
  NodeId{n.parent};          // no_node of the root
  NodeId{n.child};           // the one that is not in the table; no_node for none
  std::int32_t{n.children};  // how many, with that one
  std::int64_t{n.pages};     // of its own
  std::uint64_t{n.hash};     // of parent and first page, while it is in the table
  n.runs = runs;             // what its pages say
};

/// A compressed prefix tree over whole pages: a node is a run of pages that came together, its path
/// from the root is all that is said up to its end. Most nodes have one child, which they name;
/// further ones are found by parent and first page in a hash table. Ids of removed nodes are used
/// again; references hold until the next split() or add_leaf(). What a cache keeps in a node of its
/// own, it sets itself: a node may have served before.
template <PrefixNode Node>
class PrefixTree {
 public:
  struct Walk {
    NodeId node = root_node;  // the deepest that goes the same way
    std::int64_t into = 0;    // its pages that do
    std::int64_t pages = 0;   // that do, from the root on
  };

  explicit PrefixTree(PageSize page) : page_(page), nodes_(1) {}

  Node& operator[](NodeId id) { return nodes_[static_cast<std::size_t>(id)]; }
  const Node& operator[](NodeId id) const { return nodes_[static_cast<std::size_t>(id)]; }
  /// One more than the largest id so far.
  std::size_t size() const { return nodes_.size(); }

  /// The child of `node` that goes on as `here` does, or no_node, and how many of its pages do, at
  /// most `most`; `here` goes on behind them if these are all that may.
  std::pair<NodeId, std::int64_t> step(NodeId node, RunCursor& here, std::int64_t most) const {
    const Node& n = (*this)[node];
    if (n.children == 0) return {no_node, 0};
    if (n.child != no_node) {
      if (const std::int64_t same = common(n.child, here, most); same > 0) return {n.child, same};
      if (n.children == 1) return {no_node, 0};
    }
    return step_in_table(node, here, most);
  }

  /// As far as `content` goes the same way, at most `most` pages, on from the end of a node.
  Walk walk(const Content& content, std::int64_t most, Walk w = {}) const {
    RunCursor here(content, w.pages * page_);
    while (w.pages < most) {
      const auto [child, same] = step(w.node, here, most - w.pages);
      if (child == no_node) break;
      w = {child, same, w.pages + same};
      if (same < (*this)[child].pages) break;
    }
    return w;
  }

  /// One more child of `parent`, of the next `pages` pages; no other may begin with the first.
  NodeId add_leaf(NodeId parent, const RunCursor& here, std::int64_t pages) {
    const NodeId leaf = make();
    Node& n = (*this)[leaf];
    append_runs(n.runs, here, pages * page_);
    n.pages = pages;
    n.parent = parent;
    n.child = no_node;
    n.children = 0;
    Node& p = (*this)[parent];
    ++p.children;
    if (p.child == no_node) {
      p.child = leaf;
    } else {
      n.hash = hash_runs(parent, here, page_);
      table_.insert(n.hash, leaf);
    }
    return leaf;
  }

  void remove_leaf(NodeId leaf) {
    const Node& n = (*this)[leaf];
    Node& parent = (*this)[n.parent];
    if (parent.child == leaf)
      parent.child = no_node;
    else
      table_.erase(n.hash, leaf);
    --parent.children;
    spare_.push_back(leaf);
  }

  /// The next `pages` pages come behind its own.
  void extend_leaf(NodeId leaf, const RunCursor& here, std::int64_t pages) {
    Node& n = (*this)[leaf];
    append_runs(n.runs, here, pages * page_);
    n.pages += pages;
  }

  /// Its last `pages` pages go; it must have more.
  void shorten_leaf(NodeId leaf, std::int64_t pages) {
    Node& n = (*this)[leaf];
    drop_last(n.runs, pages * page_);
    n.pages -= pages;
  }

  /// Returns the new node of the first `pages` pages of `lower`, which keeps the rest and its
  /// children.
  NodeId split(NodeId lower, std::int64_t pages) {
    const NodeId upper = make();
    Node& u = (*this)[upper];
    Node& l = (*this)[lower];
    split_runs(l.runs, pages * page_, u.runs);
    u.pages = pages;
    l.pages -= pages;
    u.parent = l.parent;
    if (NodeId& child = (*this)[u.parent].child; child == lower) {
      child = upper;
    } else {
      u.hash = l.hash;
      table_.erase(l.hash, lower);
      table_.insert(u.hash, upper);
    }
    u.child = lower;
    u.children = 1;
    l.parent = upper;
    return upper;
  }

 private:
  /// Apart, so that the way to a child that is named stays short.
  [[gnu::noinline]] std::pair<NodeId, std::int64_t> step_in_table(NodeId node, RunCursor& here,
                                                                  std::int64_t most) const {
    RunCursor behind = here;
    std::int64_t same = 0;
    const NodeId child = table_.find(hash_runs(node, here, page_), [&](NodeId id) {
      if ((*this)[id].parent != node) return false;
      same = common(id, behind, most);
      return same > 0;
    });
    if (child != no_node) here = behind;
    return {child, same};
  }

  std::int64_t common(NodeId id, RunCursor& here, std::int64_t most) const {
    const Node& n = (*this)[id];
    return common_pages(n.runs, n.pages, here, most, page_);
  }

  NodeId make() {
    if (spare_.empty()) {
      nodes_.emplace_back();
      return static_cast<NodeId>(nodes_.size() - 1);
    }
    const NodeId id = spare_.back();
    spare_.pop_back();
    (*this)[id].runs.clear();
    return id;
  }

  PageSize page_;
  std::vector<Node> nodes_;
  std::vector<NodeId> spare_;
  IdTable table_;
};
