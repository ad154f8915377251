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
         std::any_of(node.checkpoints.begin(), node.checkpoints.end(),
                     [&](const auto& checkpoint) { return resident(checkpoint.get()); });
}

// The worth that a block has of its own; -1 if it was never used without a checkpoint.
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
    for (const auto& checkpoint : at->checkpoints) {
      const int common = common_prefix(checkpoint->tail, rest);
      if (at->length + common > found.shared) {
        found.shared = at->length + common;
        found.overhang = checkpoint.get();
      }
      const bool whole = common == static_cast<int>(checkpoint->tail.size());
      if (whole && checkpoint->length() <= most &&
          (!found.checkpoint || checkpoint->length() > found.checkpoint->length()))
        found.checkpoint = checkpoint.get();
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

PrefixTree::Checkpoint& PrefixTree::add_checkpoint(Node& node, std::span<const int> tail, Data data,
                                                   uint64_t bytes) {
  CHECK(static_cast<int>(tail.size()) < kBlockTokens, "a tail of {} tokens", tail.size());
  Checkpoint* checkpoint = nullptr;
  for (const auto& known : node.checkpoints)
    if (std::ranges::equal(known->tail, tail)) checkpoint = known.get();
  if (!checkpoint) {
    checkpoint = node.checkpoints.emplace_back(std::make_unique<Checkpoint>()).get();
    checkpoint->node = &node;
    checkpoint->tail.assign(tail.begin(), tail.end());
    checkpoints_++;
    count_states(node, 1);
  }
  if (!checkpoint->data) set_data(*checkpoint, std::move(data), bytes);
  use(*checkpoint);
  return *checkpoint;
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

void PrefixTree::set_data(Checkpoint& checkpoint, Data data, uint64_t bytes) {
  if (checkpoint.data) bytes_ -= checkpoint.bytes;
  checkpoint.data = std::move(data);
  checkpoint.bytes = bytes;
  if (checkpoint.data) bytes_ += bytes;
}

void PrefixTree::remove(Checkpoint& checkpoint) {
  set_data(checkpoint, nullptr, 0);
  checkpoints_--;
  count_states(*checkpoint.node, -1);
  std::erase_if(checkpoint.node->checkpoints, [&](const auto& known) { return known.get() == &checkpoint; });
}

void PrefixTree::remove(Node& node) {
  while (!node.checkpoints.empty()) remove(*node.checkpoints.back());
  while (!node.children.empty()) remove(*node.children.back());
  set_data(node, nullptr, 0);
  if (every_block_) count_states(node, -1);
  if (node.parent) std::erase(node.parent->children, &node);
  nodes_.erase(PrefixKey(node.key));
}

// The tokens that would have to be computed again without the checkpoint, starting from the previous
// checkpoint or usable block, per byte that only it keeps in memory.
double PrefixTree::worth(const Checkpoint& checkpoint) const {
  uint64_t bytes = checkpoint.bytes + 1;
  bool alone = true;
  int before = 0;
  for (const Node* at = checkpoint.node; at && before == 0; at = at->parent) {
    if (at->clock >= 0 && at->data) {
      before = at->length;
      break;
    }
    int users = 0;
    for (const Node* child : at->children) users += child->data != nullptr;
    for (const auto& other : at->checkpoints) {
      if (!other->data) continue;
      users++;
      if (other->length() < checkpoint.length()) before = std::max(before, other->length());
    }
    alone = alone && users <= 1;
    if (alone) bytes += at->bytes;
  }
  return checkpoint.clock + (checkpoint.length() - before) / static_cast<double>(bytes);
}

void PrefixTree::release(Checkpoint& checkpoint) {
  Node* node = checkpoint.node;
  if (checkpoint.stored)
    set_data(checkpoint, nullptr, 0);
  else
    remove(checkpoint);
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
  if (!node.parent && node.children.empty() && node.checkpoints.empty()) nodes_.erase(PrefixKey(node.key));
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

void PrefixTree::not_stored(const PrefixKey& parent, const PrefixKey& checkpoint, int length) {
  Node* at = node(parent);
  if (!at) return;
  for (const auto& known : at->checkpoints) {
    if (known->length() != length || next_key(at->key, known->tail) != checkpoint) continue;
    known->stored = false;
    if (!known->data) remove(*known);
    break;
  }
  remove_if_empty_root(*at);
}

void PrefixTree::evict(uint64_t budget) {
  while (bytes_ > budget) {
    Checkpoint* point = nullptr;
    Node* block = nullptr;
    double least = std::numeric_limits<double>::infinity();
    for (const auto& [key, node] : nodes_) {
      if (node->data && !in_use(*node) && block_worth(*node) < least) {
        least = block_worth(*node);
        block = node.get();
        point = nullptr;
      }
      for (const auto& checkpoint : node->checkpoints) {
        if (!checkpoint->data) continue;
        const double w = worth(*checkpoint);
        if (w >= least) continue;
        least = w;
        point = checkpoint.get();
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
RecordHead head_of(const PrefixTree::Checkpoint& checkpoint) {
  return {RecordKind::checkpoint, next_key(checkpoint.node->key, checkpoint.tail), checkpoint.node->key,
          static_cast<uint32_t>(checkpoint.length()), checkpoint.tail};
}

}  // namespace anabranch
