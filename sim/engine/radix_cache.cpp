// SGLang's radix cache: a compressed radix tree over whole pages. A node is a run of pages that
// came together. A walk splits the node in which it ends; an insert adds at most one leaf. Whoever
// uses a node locks its path to the root; unlocked leaves are evicted whole, the least recently
// used one first. A request that leaves gives its pages to the tree, a retracted one gives them
// back.
//
// Source: sgl-project/sglang @006b0e3d, srt/mem_cache/radix_cache.py and evict_policy.py (as in
// v0.5.9, 2026-02-23). Time is a counter: the clock there never ties either.
//
// Left out: host memory (HiCache), extra keys, bigram keys of EAGLE, sliding windows. v0.5.9 evicts
// as many tokens as a pass asks for (rounded up by a page per request), later versions only what
// is missing; here it is what is missing, so that taking a, then b, equals taking a + b.
// Priorities of requests are not modelled and the plain tree never counts hits, so that `priority`
// and `lfu` order as `lru` does.

#include <set>
#include <utility>
#include <vector>

#include "sim/base/assert.hpp"
#include "sim/engine/kv_cache.hpp"
#include "sim/engine/prefix_tree.hpp"

namespace {

constexpr NodeId root = root_node, nobody = no_node;

enum class Order { least_recent, most_recent, oldest, newest };

constexpr std::pair<const char*, Order> policies[] = {
    {"lru", Order::least_recent}, {"lfu", Order::least_recent}, {"priority", Order::least_recent},
    {"mru", Order::most_recent},  {"fifo", Order::oldest},      {"filo", Order::newest}};

// Two cache lines; the first one is all that locks and evictions need.
struct alignas(64) Node {
  NodeId parent = nobody;
  NodeId child = nobody;
  std::int32_t children = 0, locks = 0;
  NodeId older = nobody, newer = nobody;
  bool listed = false;
  std::int64_t pages = 0;
  std::int64_t accessed = 0;
  std::uint64_t hash = 0;
  Runs runs;
};
static_assert(sizeof(Node) == 128);

// What orders by something else than access goes by.
struct Age {
  std::int64_t created = 0;
  std::int64_t key = 0;  // its place among the leaves, while it is there
};

struct Walk {
  NodeId node = root;      // the deepest whose pages all match
  std::int64_t pages = 0;  // down to its end
  NodeId cut = nobody;     // the rest of a node that this walk split
};

class RadixCache final : public KvCache {
 public:
  RadixCache(std::int64_t pages, PageSize page_size, Order order)
      : KvCache(pages, page_size), page_(page_size), order_(order), tree_(page_size) {
    at(root).locks = 1;
  }

  std::int64_t match(const Content& content, std::int64_t limit) override {
    settle_all();
    unfiled_ = walk(content, limit / page_);
    matched_ = unfiled_.node;
    matched_tokens_ = unfiled_.pages * page_;
    return matched_tokens_;
  }

  void hold(KvHold& hold, const Content& content, std::int64_t tokens) override {
    SIM_ASSERT(hold.handle < 0 && tokens % page_ == 0);
    settle();
    if (tokens > 0 && tokens == matched_tokens_ && unfiled_.node != root) {
      const Walk w = std::exchange(unfiled_, {});
      if (w.cut != nobody) touch(w.cut);
      touch_and_lock(w.node);
      hold = {tokens, tokens, w.node};
      return;
    }
    settle_all();
    NodeId node = root;
    if (tokens > 0) {
      node = tokens == matched_tokens_ ? matched_ : walk(content, tokens / page_).node;
      lock(node);
    }
    hold = {tokens, tokens, node};
  }

  void let_go(KvHold& hold) override {
    SIM_ASSERT(hold.tokens == hold.shared);
    settle_all();
    unlock(static_cast<NodeId>(hold.handle));
    hold = {};
  }

  void publish(KvHold& hold, const Content& content, std::int64_t tokens) override {
    const Inserted in = insert(content, tokens, hold);
    SIM_ASSERT(in.pages * page_ <= hold.tokens);
    // What the tree had already, but not from this request, was computed twice.
    unused_ += in.had - hold.shared / page_;
    touch_and_lock(in.node, static_cast<NodeId>(hold.handle));
    hold.shared = in.pages * page_;
    hold.handle = in.node;
  }

  void release(KvHold& hold, const Content& content, std::int64_t computed, bool keep) override {
    SIM_ASSERT(hold.handle >= 0);
    std::int64_t own = hold.own_pages(page_);
    const auto held = static_cast<NodeId>(hold.handle);
    if (keep) {
      const Inserted in = insert(content, std::min(computed, hold.tokens), hold);
      own -= in.pages - in.had;
      touch_and_unlock(in.node, held);
    } else {
      settle_all();
      unlock(held);
    }
    SIM_ASSERT(own >= 0);
    unused_ += own;
    hold = {};
    SIM_ASSERT(available() <= total());
  }

 private:
  struct Inserted {
    NodeId node;
    std::int64_t pages, had;  // down to its end, in the tree before
  };

  Node& at(NodeId id) { return tree_[id]; }
  Age& age(NodeId id) { return ages_[static_cast<std::size_t>(id)]; }

  // ---- the tree ----

  /// From the end of a node down to `pages` pages from the beginning.
  Walk walk(const Content& content, std::int64_t pages, Walk from = {}) {
    const auto w = tree_.walk(content, pages, {from.node, at(from.node).pages, from.pages});
    if (w.into == at(w.node).pages) return {w.node, w.pages};
    return {split(w.node, w.into), w.pages, w.node};
  }

  /// Returns the new node of the first `pages` pages; the old one keeps the rest and its children.
  NodeId split(NodeId lower, std::int64_t pages) {
    const NodeId upper = tree_.split(lower, pages);
    Node& u = at(upper);
    u.locks = at(lower).locks;
    u.accessed = at(lower).accessed;
    created(upper);
    if (by_access() && u.locks == 0) link_after(upper, lower);
    return upper;
  }

  /// What `hold` has locked is there already. The caller touches the path.
  Inserted insert(const Content& content, std::int64_t tokens, const KvHold& hold) {
    settle_all();
    matched_tokens_ = -1;
    const std::int64_t shared = hold.shared / page_;
    const std::int64_t pages = std::max(std::min(tokens, content.tokens()) / page_, shared);
    Walk w{static_cast<NodeId>(hold.handle), shared};
    if (at(w.node).children > 0) w = walk(content, pages, w);
    const std::int64_t had = w.pages;
    if (had < pages) {
      if (!by_access()) leave(w.node);
      w.node = tree_.add_leaf(w.node, RunCursor(content, had * page_), pages - had);
      at(w.node).locks = 0;
      evictable_ += pages - had;
      created(w.node);
    }
    if (w.cut != nobody) touch(w.cut);
    return {w.node, pages, had};
  }

  void created(NodeId id) {
    ++clock_;
    if (by_access()) return;
    if (ages_.size() < tree_.size()) ages_.resize(tree_.size());
    age(id).created = clock_;
  }

  void hand_out(std::int64_t pages) override {
    if (unused_ < pages) file_match();
    while (unused_ < pages) evict();
    unused_ -= pages;
  }

  void evict() {
    NodeId victim = oldest_;
    if (!by_access()) victim = leaves_.empty() ? nobody : leaves_.begin()->second;
    SIM_ASSERT(victim != nobody && at(victim).children == 0 && at(victim).locks == 0);
    matched_tokens_ = -1;
    leave(victim);
    const NodeId parent = at(victim).parent;
    unused_ += at(victim).pages;
    evictable_ -= at(victim).pages;
    tree_.remove_leaf(victim);
    if (!by_access() && at(parent).children == 0 && at(parent).locks == 0) enter(parent);
  }

  // ---- locks ----

  /// From `node` up to, not with, an ancestor of it.
  void lock(NodeId node, NodeId above = root) {
    for (; node != above; node = at(node).parent) {
      Node& n = at(node);
      if (n.locks++ > 0) continue;
      evictable_ -= n.pages;
      leave(node);
    }
  }

  void unlock(NodeId node) {
    for (; node != root; node = at(node).parent) {
      Node& n = at(node);
      SIM_ASSERT(n.locks > 0);
      if (--n.locks > 0) continue;
      evictable_ += n.pages;
      if (by_access() || n.children == 0) enter(node);
    }
  }

  /// Touches the path of `node`, and locks what lies below `held`, which is locked already.
  void touch_and_lock(NodeId node, NodeId held = root) {
    for (; node != held; node = at(node).parent) {
      Node& n = at(node);
      n.accessed = ++clock_;
      if (n.locks++ > 0) continue;
      evictable_ -= n.pages;
      leave(node);
    }
    for (; node != root; node = at(node).parent) at(node).accessed = ++clock_;
  }

  /// Touches the path of `node`, and unlocks `held` on it and all above.
  void touch_and_unlock(NodeId node, NodeId held) {
    for (; node != held; node = at(node).parent) touch(node);
    for (; node != root; node = at(node).parent) {
      Node& n = at(node);
      SIM_ASSERT(n.locks > 0);
      n.accessed = ++clock_;
      if (--n.locks > 0) continue;
      evictable_ += n.pages;
      if (by_access())
        link_after(node, newest_);
      else if (n.children == 0)
        enter(node);
    }
  }

  // ---- who goes first ----
  //
  // By least recent use all unlocked nodes are in one list. A walk uses a whole path from the root,
  // and files it child before parent: so the head of the list is always a leaf. In the other
  // orders unlocked leaves are in a set.

  bool by_access() const { return order_ == Order::least_recent; }

  /// A match is a use, filed when something else comes: hold() is what mostly comes, and takes the
  /// path out of the list.
  void file_match() {
    if (unfiled_.node != root) touch(std::exchange(unfiled_, {}));
  }
  void settle_all() {
    settle();
    file_match();
  }

  void touch(const Walk& w) {
    if (w.cut != nobody) touch(w.cut);
    for (NodeId node = w.node; node != root; node = at(node).parent) touch(node);
  }

  void touch(NodeId node) {
    Node& n = at(node);
    n.accessed = ++clock_;
    if (n.locks > 0) return;
    if (by_access() || (order_ == Order::most_recent && n.listed)) leave(node);
    if (by_access() || n.children == 0) enter(node);
  }

  void enter(NodeId node) {
    Node& n = at(node);
    if (n.listed) return;
    if (by_access()) {
      // Nearly always at the very end: only a retraction comes back with an old time.
      NodeId before = newest_;
      while (before != nobody && at(before).accessed > n.accessed) before = at(before).older;
      link_after(node, before);
      return;
    }
    Age& a = age(node);
    switch (order_) {
      case Order::most_recent:
        a.key = -n.accessed;
        break;
      case Order::newest:
        a.key = -a.created;
        break;
      default:
        a.key = a.created;
    }
    leaves_.emplace(a.key, node);
    n.listed = true;
  }

  void leave(NodeId node) {
    Node& n = at(node);
    if (!n.listed) return;
    n.listed = false;
    if (!by_access()) {
      leaves_.erase({age(node).key, node});
      return;
    }
    (n.older == nobody ? oldest_ : at(n.older).newer) = n.newer;
    (n.newer == nobody ? newest_ : at(n.newer).older) = n.older;
  }

  /// `before`: nobody for the head.
  void link_after(NodeId node, NodeId before) {
    Node& n = at(node);
    n.older = before;
    n.newer = before == nobody ? oldest_ : at(before).newer;
    (n.older == nobody ? oldest_ : at(n.older).newer) = node;
    (n.newer == nobody ? newest_ : at(n.newer).older) = node;
    n.listed = true;
  }

  PageSize page_;
  Order order_;
  std::int64_t clock_ = 0;
  PrefixTree<Node> tree_;
  std::vector<Age> ages_;  // of nodes; none by access
  NodeId oldest_ = nobody, newest_ = nobody;
  std::set<std::pair<std::int64_t, NodeId>> leaves_;
  Walk unfiled_;  // the last match(), while its nodes are not touched yet
  // Where the last match() ended, until the tree changes.
  NodeId matched_ = root;
  std::int64_t matched_tokens_ = -1;
};

}  // namespace

const Registered<KvCacheFactory> me("radix", [](std::int64_t pages, PageSize page_size,
                                                const std::string& policy) {
  for (const auto& [name, order] : policies)
    if (name == policy)
      return std::unique_ptr<KvCache>(std::make_unique<RadixCache>(pages, page_size, order));
  SIM_UNREACHABLE("the engine checks the policy's name");
});
