// The tree of cached token prefixes, and the policy that decides which of them stay in memory. It handles
// neither arrays nor files.
//
// A node is a block of kBlockTokens tokens. The path from a root (one for each salt) to a node is a prefix. A
// node owns its block's keys and values. A snapshot owns everything else that is needed to continue from a
// point: the end of its node, or less than a block after it, after `tail`. The data are opaque here. They are
// in memory, on disk (stored), or both; an entry that is neither is removed.
//
// Not thread-safe. Pointers are valid until the next call of a non-const function.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache/prefix_key.h"
#include "cache/record.h"

namespace anabranch {

// A change for subscribers: a prompt can be resumed after this block from now on (stored), or no longer.
struct BlockChange {
  bool stored = false;
  PrefixKey key, parent;
  int length = 0;           // tokens of the prefix that ends with the block
  std::vector<int> tokens;  // of the block; empty if it is not stored
};

class PrefixTree {
 public:
  using Data = std::shared_ptr<const void>;  // null: not in memory
  struct Node;

  struct CachedSnapshot {
    Node* node = nullptr;   // the prefix before the tail
    std::vector<int> tail;  // less than a block
    Data data;
    uint64_t bytes = 0;  // of data
    bool stored = false;
    double clock = 0;  // the tree's clock at the last use; see evict()
    int length() const { return node->length + static_cast<int>(tail.size()); }
  };
  struct Node {
    PrefixKey key;
    Node* parent = nullptr;
    int length = 0;           // tokens of the prefix that ends here
    std::vector<int> tokens;  // the last block of it; empty for a root
    Data data;
    uint64_t bytes = 0;
    bool stored = false;
    double clock = -1;     // the tree's clock at the last use without a snapshot; below 0: never used so
    bool watched = false;  // see watch()
    int states = 0;        // if watched: number of points in or below it at which a sequence can be resumed
    std::vector<Node*> children;
    std::vector<std::unique_ptr<CachedSnapshot>> snapshots;
  };

  // How far a prompt matches the tree.
  struct Found {
    Node* node = nullptr;                // the end of the longest path of whole blocks; null: no root exists
    CachedSnapshot* snapshot = nullptr;  // the longest one of at most `most` tokens on that path
    // Tokens that the prompt shares with a cached sequence: those of the path, and part of one more block or
    // tail.
    int shared = 0;
    Node* next = nullptr;                // the block that is shared in part, a child of `node`; or null
    CachedSnapshot* overhang = nullptr;  // the snapshot whose tail is shared, at least in part; or null
  };
  Found find(const PrefixKey& root, std::span<const int> tokens, int most) const;

  // Each returns the existing entry if there is one, and sets its data if it had none. tokens: a whole block.
  // data may be null for an entry that is stored.
  Node& add_root(const PrefixKey& root);
  Node& add_block(Node& parent, std::span<const int> tokens, Data data, uint64_t bytes);
  CachedSnapshot& add_snapshot(Node& node, std::span<const int> tail, Data data, uint64_t bytes);
  void set_data(Node& node, Data data, uint64_t bytes);
  void set_data(CachedSnapshot& snapshot, Data data, uint64_t bytes);

  // From now on, changes under this root are recorded; call it before the root is added. A block is reported
  // as stored while it or a block below it has a snapshot, in memory or on disk. every_block: while the
  // block exists.
  void watch(const PrefixKey& root, bool every_block);
  // The changes since the last call. Parents are stored before their children, and removed after them.
  std::vector<BlockChange> take_changes() { return std::exchange(changes_, {}); }

  Node* node(const PrefixKey& key) const;
  void use(CachedSnapshot& snapshot) { snapshot.clock = clock_; }
  // Reports that the blocks up to this one were used without a snapshot. From now on evict() gives each of
  // them a worth of its own, instead of dropping them with the last snapshot that needs them.
  void use(Node& node);

  // Reports that a record is no longer on disk: the block with this key, or the snapshot with this key and
  // length after the block `parent`. The entry stays while its data are in memory.
  void not_stored(const PrefixKey& block);
  void not_stored(const PrefixKey& parent, const PrefixKey& snapshot, int length);
  // Removes an entry that can no longer be read, and all entries that depend on it.
  void remove(Node& node);
  void remove(CachedSnapshot& snapshot);

  // Drops data from memory until at most `budget` bytes are left, in ascending order of worth
  // (GreedyDual-Size, Cao & Irani 1997): worth = clock of the last use + tokens to compute again / bytes,
  // where the clock is the worth of the last entry dropped. A block is dropped after its descendants; a block
  // that was never used without a snapshot is dropped together with the last of its descendants. An entry
  // that is not stored is removed.
  void evict(uint64_t budget);

  uint64_t bytes() const { return bytes_; }  // in memory
  size_t nodes() const { return nodes_.size(); }
  size_t snapshots() const { return snapshots_; }

 private:
  double worth(const CachedSnapshot& snapshot) const;
  void release(CachedSnapshot& snapshot);
  Node* release(Node& node);
  void release_up(Node* node);
  void remove_if_empty_root(const Node& node);
  void count_states(Node& node, int more);

  std::unordered_map<PrefixKey, std::unique_ptr<Node>> nodes_;
  uint64_t bytes_ = 0;
  size_t snapshots_ = 0;
  double clock_ = 0;
  std::optional<PrefixKey> watched_root_;
  bool every_block_ = false;
  std::vector<BlockChange> changes_;
};

// The heads of the entries' records. The node must not be a root, which has no record.
RecordHead head_of(const PrefixTree::Node& node);
RecordHead head_of(const PrefixTree::CachedSnapshot& snapshot);

}  // namespace anabranch
