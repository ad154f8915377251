// The token prefixes that the cache has, and which of them stay in memory. Pure policy: no arrays, no files.
//
// A tree of blocks of kBlockTokens tokens. The path from a root (one for each salt) to a node spells a
// prefix. A node owns its block's keys and values. A checkpoint owns everything else that is needed to
// continue from a point: the end of its node, or less than a block behind it, after `tail`. Their data are
// opaque here, and are in memory, on disk (stored), or both. The tree has no entry without either.
//
// Not thread-safe. Pointers hold until the next call that is not const or find().
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "cache/prefix_key.h"

namespace anabranch {

class PrefixTree {
 public:
  using Data = std::shared_ptr<const void>;  // null: not in memory
  struct Node;

  struct Checkpoint {
    Node* node = nullptr;   // the prefix before the tail
    std::vector<int> tail;  // less than a block
    Data data;
    uint64_t bytes = 0;  // of data
    bool stored = false;
    double clock = 0;  // of the last use; see evict()
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
    double clock = -1;  // of its last use without a checkpoint; less than 0: it was never used without one
    std::vector<Node*> children;
    std::vector<std::unique_ptr<Checkpoint>> checkpoints;
  };

  // How far a prompt matches the tree.
  struct Found {
    Node* node = nullptr;              // the longest path of whole blocks; null: not even a root
    Checkpoint* checkpoint = nullptr;  // the last one of at most `most` tokens, on that path
    // Tokens of the prompt that some sequence begins with: those of the path, and of one more block or tail.
    int shared = 0;
    Node* next = nullptr;            // that block, if it is one: a child of `node`
    Checkpoint* overhang = nullptr;  // that tail, if it is one
  };
  Found find(const PrefixKey& root, std::span<const int> tokens, int most) const;

  // Each returns the existing entry if there is one, and gives it the data if it had none. tokens: a block.
  // Data may be null for an entry that is stored.
  Node& add_root(const PrefixKey& root);
  Node& add_block(Node& parent, std::span<const int> tokens, Data data, uint64_t bytes);
  Checkpoint& add_checkpoint(Node& node, std::span<const int> tail, Data data, uint64_t bytes);
  void set_data(Node& node, Data data, uint64_t bytes);
  void set_data(Checkpoint& checkpoint, Data data, uint64_t bytes);

  Node* node(const PrefixKey& key) const;
  void use(Checkpoint& checkpoint) { checkpoint.clock = clock_; }
  // The blocks up to here were used without a checkpoint: from now on they have a worth of their own.
  void use(Node& node);

  // A record is no longer on disk: the block with this key, or the checkpoint with this key and length behind
  // the block `parent`. Its entry stays while its data are in memory.
  void not_stored(const PrefixKey& block);
  void not_stored(const PrefixKey& parent, const PrefixKey& checkpoint, int length);
  // Removes an entry that cannot be read any more, and all entries that need it.
  void remove(Node& node);
  void remove(Checkpoint& checkpoint);

  // Takes data out of memory until at most `budget` bytes are left, those of the least worth first
  // (GreedyDual- Size, Cao & Irani 1997): worth = clock of the last use + tokens to compute again / bytes,
  // and the clock is the worth of the entry that went last. A block goes after everything that stands on it;
  // a block that was never used without a checkpoint goes with the last of these. An entry that is not stored
  // is removed.
  void evict(uint64_t budget);

  uint64_t bytes() const { return bytes_; }  // in memory
  size_t nodes() const { return nodes_.size(); }
  size_t checkpoints() const { return checkpoints_; }

 private:
  double worth(const Checkpoint& checkpoint) const;
  void release(Checkpoint& checkpoint);
  Node* release(Node& node);
  void release_up(Node* node);
  void remove_if_empty_root(const Node& node);

  std::unordered_map<PrefixKey, std::unique_ptr<Node>> nodes_;
  uint64_t bytes_ = 0;
  size_t checkpoints_ = 0;
  double clock_ = 0;
};

}  // namespace anabranch
