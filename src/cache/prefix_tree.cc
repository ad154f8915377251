#include "cache/prefix_tree.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace anabranch {
namespace {

int common_prefix(std::span<const int> a, std::span<const int> b) {
  const size_t n = std::min(a.size(), b.size());
  return static_cast<int>(std::mismatch(a.begin(), a.begin() + static_cast<long>(n), b.begin()).first -
                          a.begin());
}

PrefixTree::Node* child_of(const PrefixTree::Node& node, std::span<const int> tokens) {
  for (PrefixTree::Node* child : node.children)
    if (std::ranges::equal(child->tokens, tokens)) return child;
  return nullptr;
}

bool in_use(const PrefixTree::Node& node) {
  const auto resident = [](const auto* entry) { return entry->data != nullptr; };
  return std::any_of(node.children.begin(), node.children.end(), resident) ||
         std::any_of(node.snapshots.begin(), node.snapshots.end(),
                     [&](const auto& snapshot) { return resident(snapshot.get()); });
}

// The worth that a block has of its own; -1 if it was never used without a snapshot.
double block_worth(const PrefixTree::Node& node) {
  return node.clock < 0 ? -1 : node.clock + kBlockTokens / static_cast<double>(node.bytes + 1);
}

}  // namespace

PrefixTree::Found PrefixTree::find(const PrefixKey& root, std::span<const int> tokens, int most) const {
  Found found;
  for (Node* at = node(root); at; at = child_of(*at, tokens.subspan(at->length).first(kBlockTokens))) {
    found.node = at;
    found.next = nullptr;
    found.overhang = nullptr;
    found.shared = at->length;
    const auto rest = tokens.subspan(at->length);
    for (const auto& snapshot : at->snapshots) {
      const int common = common_prefix(snapshot->tail, rest);
      if (at->length + common > found.shared) {
        found.shared = at->length + common;
        found.overhang = snapshot.get();
      }
      const bool whole = common == static_cast<int>(snapshot->tail.size());
      if (whole && snapshot->length() <= most &&
          (!found.snapshot || snapshot->length() > found.snapshot->length()))
        found.snapshot = snapshot.get();
    }
    for (Node* child : at->children) {
      const int common = common_prefix(child->tokens, rest);
      if (at->length + common <= found.shared) continue;
      found.shared = at->length + common;
      found.next = child;
      found.overhang = nullptr;
    }
    if (static_cast<int>(rest.size()) < kBlockTokens) break;
  }
  return found;
}

PrefixTree::Node* PrefixTree::node(const PrefixKey& key) const {
  const auto it = nodes_.find(key);
  return it == nodes_.end() ? nullptr : it->second.get();
}

PrefixTree::Node& PrefixTree::add_root(const PrefixKey& root) {
  auto& slot = nodes_[root];
  if (!slot) {
    slot = std::make_unique<Node>();
    slot->key = root;
    slot->watched = root == watched_root_;
  }
  return *slot;
}

PrefixTree::Node& PrefixTree::add_block(Node& parent, std::span<const int> tokens, Data data,
                                        uint64_t bytes) {
  CHECK(static_cast<int>(tokens.size()) == kBlockTokens, "a block of {} tokens", tokens.size());
  Node* node = child_of(parent, tokens);
  if (!node) {
    auto fresh = std::make_unique<Node>();
    node = fresh.get();
    node->key = next_key(parent.key, tokens);
    node->parent = &parent;
    node->length = parent.length + kBlockTokens;
    node->tokens.assign(tokens.begin(), tokens.end());
    node->watched = parent.watched;
    parent.children.push_back(node);
    nodes_[node->key] = std::move(fresh);
    if (every_block_) count_states(*node, 1);
  }
  if (!node->data) set_data(*node, std::move(data), bytes);
  return *node;
}

PrefixTree::CachedSnapshot& PrefixTree::add_snapshot(Node& node, std::span<const int> tail, Data data,
                                                     uint64_t bytes) {
  CHECK(static_cast<int>(tail.size()) < kBlockTokens, "a tail of {} tokens", tail.size());
  CachedSnapshot* snapshot = nullptr;
  for (const auto& known : node.snapshots)
    if (std::ranges::equal(known->tail, tail)) snapshot = known.get();
  if (!snapshot) {
    snapshot = node.snapshots.emplace_back(std::make_unique<CachedSnapshot>()).get();
    snapshot->node = &node;
    snapshot->tail.assign(tail.begin(), tail.end());
    snapshots_++;
    count_states(node, 1);
  }
  if (!snapshot->data) set_data(*snapshot, std::move(data), bytes);
  use(*snapshot);
  return *snapshot;
}

void PrefixTree::watch(const PrefixKey& root, bool every_block) {
  watched_root_ = root;
  every_block_ = every_block;
}

// Counts a resumable point at the node that was added (more = 1) or removed (-1), for the node and its
// ancestors, and records which blocks change for subscribers.
void PrefixTree::count_states(Node& node, int more) {
  if (!node.watched) return;
  const auto first = static_cast<std::ptrdiff_t>(changes_.size());
  for (Node* at = &node; at->parent; at = at->parent) {
    at->states += more;
    if (more > 0 && at->states == more)
      changes_.push_back({true, at->key, at->parent->key, at->length, at->tokens});
    else if (at->states == 0)
      changes_.push_back({false, at->key, at->parent->key, at->length, {}});
  }
  if (more > 0) std::reverse(changes_.begin() + first, changes_.end());
}

void PrefixTree::use(Node& node) {
  for (Node* at = &node; at->parent; at = at->parent) at->clock = clock_;
}

void PrefixTree::set_data(Node& node, Data data, uint64_t bytes) {
  if (node.data) bytes_ -= node.bytes;
  node.data = std::move(data);
  node.bytes = bytes;
  if (node.data) bytes_ += bytes;
}

void PrefixTree::set_data(CachedSnapshot& snapshot, Data data, uint64_t bytes) {
  if (snapshot.data) bytes_ -= snapshot.bytes;
  snapshot.data = std::move(data);
  snapshot.bytes = bytes;
  if (snapshot.data) bytes_ += bytes;
}

void PrefixTree::remove(CachedSnapshot& snapshot) {
  set_data(snapshot, nullptr, 0);
  snapshots_--;
  count_states(*snapshot.node, -1);
  std::erase_if(snapshot.node->snapshots, [&](const auto& known) { return known.get() == &snapshot; });
}

void PrefixTree::remove(Node& node) {
  while (!node.snapshots.empty()) remove(*node.snapshots.back());
  while (!node.children.empty()) remove(*node.children.back());
  set_data(node, nullptr, 0);
  if (every_block_) count_states(node, -1);
  if (node.parent) std::erase(node.parent->children, &node);
  nodes_.erase(PrefixKey(node.key));
}

// The tokens that would have to be computed again without the snapshot, starting from the previous
// snapshot or usable block, per byte that only it keeps in memory.
double PrefixTree::worth(const CachedSnapshot& snapshot) const {
  uint64_t bytes = snapshot.bytes + 1;
  bool alone = true;
  int before = 0;
  for (const Node* at = snapshot.node; at && before == 0; at = at->parent) {
    if (at->clock >= 0 && at->data) {
      before = at->length;
      break;
    }
    int users = 0;
    for (const Node* child : at->children) users += child->data != nullptr;
    for (const auto& other : at->snapshots) {
      if (!other->data) continue;
      users++;
      if (other->length() < snapshot.length()) before = std::max(before, other->length());
    }
    alone = alone && users <= 1;
    if (alone) bytes += at->bytes;
  }
  return snapshot.clock + (snapshot.length() - before) / static_cast<double>(bytes);
}

void PrefixTree::release(CachedSnapshot& snapshot) {
  Node* node = snapshot.node;
  if (snapshot.stored)
    set_data(snapshot, nullptr, 0);
  else
    remove(snapshot);
  release_up(node);
}

// Drops the node's data from memory, and the node itself if it is not on disk. Returns its parent.
PrefixTree::Node* PrefixTree::release(Node& node) {
  Node* parent = node.parent;
  if (node.stored)
    set_data(node, nullptr, 0);
  else
    remove(node);  // together with its descendants on disk, which can no longer be reached
  return parent;
}

// Releases this node and its ancestors as far as nothing in memory needs them. A root stays as long as it has
// descendants.
void PrefixTree::release_up(Node* node) {
  while (node->parent && !in_use(*node) && node->clock < 0) node = release(*node);
  remove_if_empty_root(*node);
}

void PrefixTree::remove_if_empty_root(const Node& node) {
  if (!node.parent && node.children.empty() && node.snapshots.empty()) nodes_.erase(PrefixKey(node.key));
}

void PrefixTree::not_stored(const PrefixKey& block) {
  Node* found = node(block);
  if (!found || !found->parent) return;
  found->stored = false;
  if (found->data) return;
  Node* parent = found->parent;
  remove(*found);
  remove_if_empty_root(*parent);
}

void PrefixTree::not_stored(const PrefixKey& parent, const PrefixKey& snapshot, int length) {
  Node* at = node(parent);
  if (!at) return;
  for (const auto& known : at->snapshots) {
    if (known->length() != length || next_key(at->key, known->tail) != snapshot) continue;
    known->stored = false;
    if (!known->data) remove(*known);
    break;
  }
  remove_if_empty_root(*at);
}

void PrefixTree::evict(uint64_t budget) {
  while (bytes_ > budget) {
    CachedSnapshot* point = nullptr;
    Node* block = nullptr;
    double least = std::numeric_limits<double>::infinity();
    for (const auto& [key, node] : nodes_) {
      if (node->data && !in_use(*node) && block_worth(*node) < least) {
        least = block_worth(*node);
        block = node.get();
        point = nullptr;
      }
      for (const auto& snapshot : node->snapshots) {
        if (!snapshot->data) continue;
        const double w = worth(*snapshot);
        if (w >= least) continue;
        least = w;
        point = snapshot.get();
        block = nullptr;
      }
    }
    if (!point && !block) return;
    clock_ = std::max(clock_, least);
    if (point)
      release(*point);
    else
      release_up(release(*block));
  }
}

RecordHead head_of(const PrefixTree::Node& node) {
  return {RecordKind::block, node.key, node.parent->key, static_cast<uint32_t>(node.length), node.tokens};
}
RecordHead head_of(const PrefixTree::CachedSnapshot& snapshot) {
  return {RecordKind::snapshot, next_key(snapshot.node->key, snapshot.tail), snapshot.node->key,
          static_cast<uint32_t>(snapshot.length()), snapshot.tail};
}

}  // namespace anabranch
