#pragma once

// The two prefix caches page by page, token by token, with nothing clever in them: what the ones in
// sim/engine must equal.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/engine/kv_cache.hpp"

namespace naive {

using Token = std::pair<std::int64_t, std::int64_t>;  // stream, offset
using Said = std::vector<Token>;

inline Said say(const Content& content, std::int64_t tokens) {
  Said out;
  for (const Segment& s : content.segments())
    for (std::int64_t i = 0; i < s.tokens && static_cast<std::int64_t>(out.size()) < tokens; ++i)
      out.emplace_back(s.stream, s.offset + i);
  return out;
}

inline std::vector<Said> pages_of(const Content& content, std::int64_t tokens, int page) {
  const Said all = say(content, tokens);
  std::vector<Said> out;
  for (auto at = all.begin(); all.end() - at >= page; at += page) out.emplace_back(at, at + page);
  return out;
}

/// SGLang's tree as its source has it: keys are lists of pages, eviction looks at all leaves.
class RadixCache final : public KvCache {
 public:
  RadixCache(std::int64_t pages, int page_size, std::string policy)
      : KvCache(pages, page_size), page_(page_size), policy_(std::move(policy)) {
    root_.lock_ref = 1;
    handles_.push_back(&root_);
  }

  std::int64_t locked() const { return held(root_); }

  std::int64_t match(const Content& content, std::int64_t limit) override {
    const auto [node, pages] = match_prefix(pages_of(content, limit, page_));
    last_ = node;
    return pages * page_;
  }
  void hold(KvHold& hold, const Content&, std::int64_t tokens) override {
    hold = {tokens, tokens, handle(tokens == 0 ? &root_ : last_)};
    add_lock(node(hold), 1);
    count();
  }
  void let_go(KvHold& hold) override {
    add_lock(node(hold), -1);
    hold = {};
    count();
  }
  void publish(KvHold& hold, const Content& content, std::int64_t tokens) override {
    const auto key = pages_of(content, tokens, page_);
    const std::int64_t had = insert(key);
    unused_ += std::max<std::int64_t>(0, had - hold.shared / page_);
    Node* const now = match_prefix(key).first;
    add_lock(node(hold), -1);
    add_lock(now, 1);
    hold.shared = static_cast<std::int64_t>(key.size()) * page_;
    hold.handle = handle(now);
    count();
  }
  void release(KvHold& hold, const Content& content, std::int64_t computed, bool keep) override {
    const std::int64_t own = hold.own_pages(page_);
    if (keep) {
      const auto key = pages_of(content, computed, page_);
      const auto pages = static_cast<std::int64_t>(key.size());
      unused_ += own - (pages - insert(key));
    } else {
      unused_ += own;
    }
    add_lock(node(hold), -1);
    hold = {};
    count();
  }

 private:
  struct Node {
    std::vector<Said> key;
    std::map<Said, std::unique_ptr<Node>> children;
    Node* parent = nullptr;
    int lock_ref = 0;
    std::int64_t accessed = 0, created = 0;
  };

  void hand_out(std::int64_t pages) override {
    while (unused_ < pages) evict_one();
    unused_ -= pages;
    count();
  }
  void count() { evictable_ = evictable(root_); }

  Node* node(const KvHold& hold) const { return handles_[static_cast<std::size_t>(hold.handle)]; }
  std::int64_t handle(Node* n) {
    handles_.push_back(n);
    return static_cast<std::int64_t>(handles_.size() - 1);
  }

  static std::int64_t evictable(const Node& n) {
    std::int64_t sum = n.lock_ref == 0 ? static_cast<std::int64_t>(n.key.size()) : 0;
    for (const auto& [page, child] : n.children) sum += evictable(*child);
    return sum;
  }
  static std::int64_t held(const Node& n) {
    std::int64_t sum = n.lock_ref > 0 ? static_cast<std::int64_t>(n.key.size()) : 0;
    for (const auto& [page, child] : n.children) sum += held(*child);
    return sum;
  }

  static std::size_t common(const std::vector<Said>& a, const std::vector<Said>& b,
                            std::size_t from) {
    std::size_t n = 0;
    while (n < a.size() && from + n < b.size() && a[n] == b[from + n]) ++n;
    return n;
  }

  std::pair<Node*, std::int64_t> match_prefix(const std::vector<Said>& key) {
    Node* n = &root_;
    std::size_t done = 0;
    const std::int64_t now = ++clock_;
    while (done < key.size() && n->children.count(key[done]) > 0) {
      Node* child = n->children[key[done]].get();
      child->accessed = now;
      const std::size_t same = common(child->key, key, done);
      done += same;
      n = same < child->key.size() ? split(child, same) : child;
    }
    return {n, static_cast<std::int64_t>(done)};
  }

  std::int64_t insert(const std::vector<Said>& key) {
    const auto [n, had] = match_prefix(key);
    if (had < static_cast<std::int64_t>(key.size())) {
      auto leaf = std::make_unique<Node>();
      leaf->key.assign(key.begin() + had, key.end());
      leaf->parent = n;
      leaf->accessed = leaf->created = ++clock_;
      const Said first = leaf->key.front();
      n->children[first] = std::move(leaf);
    }
    return had;
  }

  Node* split(Node* child, std::size_t at) {
    const auto cut = child->key.begin() + static_cast<std::ptrdiff_t>(at);
    auto upper = std::make_unique<Node>();
    upper->key.assign(child->key.begin(), cut);
    upper->parent = child->parent;
    upper->lock_ref = child->lock_ref;
    upper->accessed = upper->created = ++clock_;
    auto& place = child->parent->children[child->key.front()];
    std::unique_ptr<Node> lower = std::move(place);
    lower->key.erase(lower->key.begin(), cut);
    lower->parent = upper.get();
    const Said first = lower->key.front();
    upper->children[first] = std::move(lower);
    place = std::move(upper);
    return place.get();
  }

  void add_lock(Node* n, int by) {
    for (; n != &root_; n = n->parent) n->lock_ref += by;
  }

  std::int64_t priority(const Node& n) const {
    if (policy_ == "fifo") return n.created;
    if (policy_ == "filo") return -n.created;
    if (policy_ == "mru") return -n.accessed;
    return n.accessed;
  }
  void find_leaf(Node& n, Node*& best) const {
    for (auto& [page, child] : n.children) find_leaf(*child, best);
    if (n.children.empty() && n.lock_ref == 0 && (best == nullptr || priority(n) < priority(*best)))
      best = &n;
  }
  void evict_one() {
    Node* leaf = nullptr;
    find_leaf(root_, leaf);
    unused_ += static_cast<std::int64_t>(leaf->key.size());
    const Said first = leaf->key.front();
    leaf->parent->children.erase(first);
  }

  int page_;
  std::string policy_;
  Node root_;
  Node* last_ = &root_;
  std::vector<Node*> handles_;
  std::int64_t clock_ = 0;
};

/// vLLM's blocks one by one: a block remembers all that is said up to its end.
class BlockCache final : public KvCache {
 public:
  BlockCache(std::int64_t blocks, int block_size)
      : KvCache(blocks, block_size), page_(block_size), blocks_(static_cast<std::size_t>(blocks)) {
    for (std::size_t i = 0; i < blocks_.size(); ++i) queue_.push_back(i);
  }

  std::int64_t locked() const {
    return std::count_if(blocks_.begin(), blocks_.end(),
                         [](const Block& b) { return b.users > 0 && !b.said.empty(); });
  }

  std::int64_t match(const Content& content, std::int64_t limit) override {
    return static_cast<std::int64_t>(cached(content, limit).size()) * page_;
  }
  void hold(KvHold& hold, const Content& content, std::int64_t tokens) override {
    before_ = queue_;
    const auto found = cached(content, tokens);
    for (const std::size_t b : found)
      if (blocks_[b].users++ == 0) queue_.erase(std::find(queue_.begin(), queue_.end(), b));
    held_.push_back(found);
    hold = {tokens, tokens, static_cast<std::int64_t>(held_.size() - 1)};
    count();
  }
  /// Only right after hold(): the engine would not have touched the blocks at all.
  void let_go(KvHold& hold) override {
    for (const std::size_t b : held(hold)) --blocks_[b].users;
    queue_ = before_;
    hold = {};
    count();
  }
  void publish(KvHold& hold, const Content& content, std::int64_t tokens) override {
    const Said all = say(content, tokens);
    for (; hold.shared + page_ <= static_cast<std::int64_t>(all.size()); hold.shared += page_) {
      const std::size_t b = own_.back();
      own_.pop_back();
      blocks_[b].said.assign(all.begin(), all.begin() + hold.shared + page_);
      by_said_[blocks_[b].said].push_back(b);
      held(hold).push_back(b);
    }
  }
  void release(KvHold& hold, const Content& content, std::int64_t computed, bool keep) override {
    if (keep) publish(hold, content, computed);
    for (std::int64_t n = hold.own_pages(page_); n > 0; --n) {
      blocks_[own_.back()].users = 0;
      queue_.push_back(own_.back());
      own_.pop_back();
    }
    auto& mine = held(hold);
    for (auto b = mine.rbegin(); b != mine.rend(); ++b)
      if (--blocks_[*b].users == 0) queue_.push_back(*b);
    hold = {};
    count();
  }

 private:
  struct Block {
    Said said;
    int users = 0;
  };

  void hand_out(std::int64_t pages) override {
    for (; pages > 0; --pages) {
      const std::size_t b = queue_.front();
      queue_.pop_front();
      if (!blocks_[b].said.empty()) {
        auto& same = by_said_[blocks_[b].said];
        same.erase(std::find(same.begin(), same.end(), b));
        blocks_[b].said.clear();
      }
      blocks_[b].users = 1;
      own_.push_back(b);
    }
    count();
  }
  void count() {
    unused_ = std::count_if(queue_.begin(), queue_.end(),
                            [&](std::size_t b) { return blocks_[b].said.empty(); });
    evictable_ = static_cast<std::int64_t>(queue_.size()) - unused_;
  }

  std::vector<std::size_t>& held(const KvHold& hold) {
    return held_[static_cast<std::size_t>(hold.handle)];
  }
  std::vector<std::size_t> cached(const Content& content, std::int64_t limit) const {
    std::vector<std::size_t> out;
    const Said all = say(content, limit);
    for (auto end = all.begin(); all.end() - end >= page_;) {
      end += page_;
      const auto found = by_said_.find(Said(all.begin(), end));
      if (found == by_said_.end() || found->second.empty()) break;
      out.push_back(found->second.front());
    }
    return out;
  }

  int page_;
  std::vector<Block> blocks_;
  std::deque<std::size_t> queue_, before_;
  std::map<Said, std::vector<std::size_t>> by_said_;
  std::vector<std::size_t> own_;
  std::vector<std::vector<std::size_t>> held_;
};

}  // namespace naive
