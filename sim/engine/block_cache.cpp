// vLLM V1's prefix cache. Full blocks are cached under all that is said up to their end. One queue
// holds the blocks that nobody uses: new ones are taken at its head and lose what they said; a
// request's blocks go to its tail, the last block first, so that beginnings live longest; a hit
// pulls blocks out again. A block that several requests use goes back when the last one leaves.
//
// Blocks are never touched one by one. A `Node` is a run of blocks that were cached together, a
// `Copy` is one physical copy of it: a request that computes what is cached already keeps its own
// blocks, as in vLLM, and the first cached copy answers. The queue is a list of copies and of
// counts of blocks that say nothing; its head eats a copy from the last block on.
//
// Source: vllm-project/vllm, v1/core/block_pool.py (@002f3491; unchanged in what is modelled here
// in 2026-05). Left out: several KV groups, extra keys; the null block is taken off the pool. What
// a request generates is cached when it leaves, not block by block: nobody can ask for it earlier.

#include <utility>
#include <vector>

#include "sim/base/assert.hpp"
#include "sim/engine/kv_cache.hpp"
#include "sim/engine/prefix_tree.hpp"

namespace {

using CopyId = std::int32_t;
constexpr NodeId root = root_node;
constexpr std::int32_t nobody = no_node;

struct alignas(64) Node {
  Runs runs;
  std::int64_t start = 0, pages = 0;  // blocks before it, of it
  std::uint64_t hash = 0;
  NodeId parent = nobody;
  NodeId child = nobody;
  std::int32_t children = 0;
  CopyId first = nobody;  // of its copies, in the order of caching
};

struct Copy {
  NodeId node = nobody;     // nobody: blocks that say nothing
  std::int64_t blocks = 0;  // of these; a copy has its node's
  std::int32_t users = 0;
  CopyId next = nobody;  // copy of the same node
  CopyId rest = nobody;  // where it goes on for those who used it before its node was split
  CopyId before = nobody, after = nobody;  // in the queue
  bool queued = false;
};

/// The copies that one request uses, each with its rests up to the next one's start.
using Used = boost::container::small_vector<CopyId, 6>;

class BlockCache final : public KvCache {
 public:
  BlockCache(std::int64_t blocks, PageSize block_size)
      : KvCache(blocks, block_size), block_(block_size), tree_(block_size) {
    queue_unused(blocks);
  }

  // Looking is no use of it: only hold() pulls blocks out of the queue.
  std::int64_t match(const Content& content, std::int64_t limit) override {
    settle();
    matched_ = tree_.walk(content, limit / block_);
    matched_tokens_ = matched_.pages * block_;
    return matched_tokens_;
  }

  void hold(KvHold& hold, const Content& content, std::int64_t tokens) override {
    SIM_ASSERT(hold.handle < 0 && tokens % block_ == 0);
    settle();
    const std::int32_t handle = make_used();
    if (tokens > 0) {
      if (tokens != matched_tokens_) matched_ = tree_.walk(content, tokens / block_);
      SIM_ASSERT(matched_.pages * block_ == tokens);
      NodeId node = matched_.node;
      if (matched_.into < at(node).pages) node = split(node, matched_.into);
      matched_tokens_ = -1;
      Used& list = used_[static_cast<std::size_t>(handle)];
      for (; node != root; node = at(node).parent) {
        const CopyId copy = at(node).first;
        list.push_back(copy);
        // It stays in the queue, unseen, and so keeps its place if it is let go.
        if (copies(copy).users++ == 0) evictable_ -= at(node).pages;
      }
      std::reverse(list.begin(), list.end());
    }
    hold = {tokens, tokens, handle};
  }

  void let_go(KvHold& hold) override {
    SIM_ASSERT(hold.tokens == hold.shared);
    settle();
    for (const CopyId id : all_used(hold)) {
      Copy& c = copies(id);
      if (--c.users > 0) continue;
      SIM_ASSERT(c.queued);
      evictable_ += at(c.node).pages;
    }
    forget(hold);
  }

  void publish(KvHold& hold, const Content& content, std::int64_t tokens) override {
    settle();
    cache(hold, content, tokens);
  }

  void release(KvHold& hold, const Content& content, std::int64_t computed, bool keep) override {
    SIM_ASSERT(hold.handle >= 0);
    settle();
    if (keep) cache(hold, content, std::min(computed, hold.tokens));
    const std::int64_t own = hold.own_pages(block_);
    unused_ += own;
    queue_unused(own);
    const std::vector<CopyId>& all = all_used(hold);
    for (std::size_t i = all.size(); i-- > 0;) {
      Copy& c = copies(all[i]);
      if (--c.users > 0) continue;
      evictable_ += at(c.node).pages;
      if (c.queued) unlink(all[i]);
      link_before(all[i], nobody);
    }
    forget(hold);
    SIM_ASSERT(available() <= total());
  }

 private:
  Node& at(NodeId id) { return tree_[id]; }
  Copy& copies(CopyId id) { return copies_[static_cast<std::size_t>(id)]; }

  // ---- what is cached ----

  /// Returns the new node of the first `blocks` blocks; the old one keeps the rest and its
  /// children. A copy keeps its first part; a new one, its `rest`, gets the other.
  NodeId split(NodeId lower, std::int64_t blocks) {
    const NodeId upper = tree_.split(lower, blocks);
    Node& u = at(upper);
    Node& l = at(lower);
    u.start = l.start;
    l.start += blocks;
    u.first = l.first;
    l.first = nobody;
    CopyId last = nobody;
    for (CopyId id = u.first; id != nobody; id = copies(id).next) {
      const CopyId rest = make_copy();
      Copy& c = copies(id);
      Copy& r = copies(rest);
      c.node = upper;
      r.node = lower;
      r.users = c.users;
      r.rest = c.rest;
      c.rest = rest;
      (last == nobody ? l.first : copies(last).next) = rest;
      last = rest;
      if (c.queued) link_before(rest, id);
    }
    return upper;
  }

  /// The copy's last `blocks` blocks say something else from now on; nobody uses it.
  void forget_last(CopyId id, std::int64_t blocks) {
    matched_tokens_ = -1;
    NodeId node = copies(id).node;
    const bool alone = copies(at(node).first).next == nobody;
    if (blocks < at(node).pages) {
      if (alone) {
        SIM_ASSERT(at(node).children == 0);
        tree_.shorten_leaf(node, blocks);
        copies(id).rest = nobody;
        return;
      }
      // Another copy still says it all.
      split(node, at(node).pages - blocks);
      id = copies(id).rest;
      node = copies(id).node;
    }
    unlink(id);
    CopyId* link = &at(node).first;
    while (*link != id) link = &copies(*link).next;
    *link = copies(id).next;
    spare_copies_.push_back(id);
    if (!alone) return;
    SIM_ASSERT(at(node).children == 0);
    tree_.remove_leaf(node);
  }

  // ---- what a request uses ----

  /// Caches the whole blocks of the first `tokens` tokens that are not yet cached for this request.
  void cache(KvHold& hold, const Content& content, std::int64_t tokens) {
    const std::int64_t to = std::min(tokens, content.tokens()) / block_;
    std::int64_t from = hold.shared / block_;
    SIM_ASSERT(hold.handle >= 0 && to * block_ <= hold.tokens);
    if (to <= from) return;
    matched_tokens_ = -1;
    CopyId deepest = nobody;
    Used& list = used_[static_cast<std::size_t>(hold.handle)];
    if (!list.empty()) {
      deepest = list.back();
      while (end_of(deepest) < from) deepest = copies(deepest).rest;
    }
    NodeId node = deepest == nobody ? root : copies(deepest).node;
    SIM_ASSERT(at(node).start + at(node).pages == from);
    // Blocks of its own that others have cached: one more copy.
    RunCursor here(content, from * block_);
    while (from < to) {
      const auto [child, blocks] = tree_.step(node, here, to - from);
      if (child == nobody) break;
      node = child;
      if (blocks < at(child).pages) {
        if (from + blocks < to) here.advance(blocks * block_);
        node = split(child, blocks);
      }
      from += blocks;
      deepest = add_copy(node);
      list.push_back(deepest);
    }
    hold.shared = to * block_;
    if (from == to) return;
    if (deepest != nobody && at(node).children == 0 && copies(deepest).users == 1 &&
        at(node).first == deepest && copies(deepest).next == nobody) {
      // All of the node is this request's: it grows.
      tree_.extend_leaf(node, here, to - from);
      return;
    }
    const NodeId leaf = tree_.add_leaf(node, here, to - from);
    at(leaf).start = from;
    at(leaf).first = nobody;
    list.push_back(add_copy(leaf));
  }

  /// The last of the node's copies, used once.
  CopyId add_copy(NodeId node) {
    const CopyId id = make_copy();
    copies(id).node = node;
    copies(id).users = 1;
    CopyId* link = &at(node).first;
    while (*link != nobody) link = &copies(*link).next;
    *link = id;
    return id;
  }

  std::int64_t end_of(CopyId id) {
    const Node& n = at(copies(id).node);
    return n.start + n.pages;
  }

  /// In order; valid until the next call.
  const std::vector<CopyId>& all_used(const KvHold& hold) {
    all_.clear();
    const Used& list = used_[static_cast<std::size_t>(hold.handle)];
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::int64_t end =
          i + 1 < list.size() ? at(copies(list[i + 1]).node).start : hold.shared / block_;
      for (CopyId id = list[i];; id = copies(id).rest) {
        all_.push_back(id);
        if (end_of(id) == end) break;
      }
    }
    return all_;
  }

  std::int32_t make_used() {
    if (spare_used_.empty()) {
      used_.emplace_back();
      return static_cast<std::int32_t>(used_.size() - 1);
    }
    const std::int32_t handle = spare_used_.back();
    spare_used_.pop_back();
    return handle;
  }

  void forget(KvHold& hold) {
    used_[static_cast<std::size_t>(hold.handle)].clear();
    spare_used_.push_back(static_cast<std::int32_t>(hold.handle));
    hold = {};
  }

  CopyId make_copy() {
    if (spare_copies_.empty()) {
      copies_.emplace_back();
      return static_cast<CopyId>(copies_.size() - 1);
    }
    const CopyId id = spare_copies_.back();
    spare_copies_.pop_back();
    copies(id) = {};
    return id;
  }

  // ---- the queue ----

  /// From its head on.
  void hand_out(std::int64_t blocks) override {
    while (blocks > 0) {
      const CopyId id = head_;
      Copy& c = copies(id);
      if (c.users > 0) {
        unlink(id);
        continue;
      }
      if (c.node == nobody) {
        const std::int64_t n = std::min(blocks, c.blocks);
        unused_ -= n;
        blocks -= n;
        c.blocks -= n;
        if (c.blocks == 0) {
          unlink(id);
          spare_copies_.push_back(id);
        }
        continue;
      }
      const std::int64_t n = std::min(blocks, at(c.node).pages);
      evictable_ -= n;
      blocks -= n;
      forget_last(id, n);
    }
  }

  /// At the tail, `blocks` that say nothing.
  void queue_unused(std::int64_t blocks) {
    if (blocks == 0) return;
    if (tail_ != nobody && copies(tail_).node == nobody) {
      copies(tail_).blocks += blocks;
      return;
    }
    const CopyId id = make_copy();
    copies(id).blocks = blocks;
    link_before(id, nobody);
  }

  /// `next`: nobody for the tail.
  void link_before(CopyId id, CopyId next) {
    Copy& c = copies(id);
    c.after = next;
    c.before = next == nobody ? tail_ : copies(next).before;
    (c.before == nobody ? head_ : copies(c.before).after) = id;
    (c.after == nobody ? tail_ : copies(c.after).before) = id;
    c.queued = true;
  }

  void unlink(CopyId id) {
    Copy& c = copies(id);
    (c.before == nobody ? head_ : copies(c.before).after) = c.after;
    (c.after == nobody ? tail_ : copies(c.after).before) = c.before;
    c.queued = false;
  }

  PageSize block_;
  PrefixTree<Node> tree_;
  std::vector<Copy> copies_;
  std::vector<Used> used_;
  std::vector<CopyId> spare_copies_;
  std::vector<std::int32_t> spare_used_;
  std::vector<CopyId> all_;
  CopyId head_ = nobody, tail_ = nobody;
  // What the last match() found, until something changes.
  PrefixTree<Node>::Walk matched_;
  std::int64_t matched_tokens_ = -1;
};

}  // namespace

const Registered<KvCacheFactory> me("blocks", [](std::int64_t pages, PageSize page_size,
                                                 const std::string& policy) {
  SIM_ASSERT(policy == "lru");  // vLLM has no other
  return std::unique_ptr<KvCache>(std::make_unique<BlockCache>(pages, page_size));
});
