// What sequences left behind, found again by the beginning of a prompt: in memory, and on disk between runs.
// A state that comes from here has the bits that applying the tokens would have made, unless keys and values
// are kept in 8 bits.
//
// Keys and values are kept once for each block of kBlockTokens tokens, whoever shares it (prefix_tree.h); the
// rest of a state (recurrent state, conv rows, the started block, what the MTP head needs) once for each
// point that a sequence was kept at. A model without recurrent state can go on from any token of what is
// kept, another one from these points only.
//
// Engine thread only; disk_store.h writes on a thread of its own.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/cache_stats.h"
#include "cache/disk_store.h"
#include "cache/prefix_tree.h"
#include "state/sequence_state.h"

namespace anabranch {

// All that a sequence needs to go on.
struct SavedState {
  Snapshot model;
  std::optional<MtpSnapshot> mtp;  // the model has a head, and it followed the sequence
};

struct StateCacheOptions {
  Device* device = nullptr;  // of the states
  StateLayout model, mtp;    // mtp: empty when there is no head
  int mtp_hidden = 0;        // width of its hidden states
  Fingerprint fingerprint;   // states of others are never found; each KvForm needs another
  KvForm kv = KvForm::exact;
  uint64_t ram_bytes = 0;
  std::unique_ptr<DiskStore> disk;  // may be null
};

class StateCache {
 public:
  explicit StateCache(StateCacheOptions options);
  ~StateCache();

  struct Hit {
    int length = 0;          // tokens of the prompt that the state covers; 0: a miss
    int shared = 0;          // tokens that the prompt shares with what is kept, >= length
    bool from_disk = false;  // something was read
    int disk_tokens = 0;     // of `length`: those whose keys and values were read
    bool lost = false;       // a longer one was known, but could not be read
    std::string miss;        // why not all of the prompt; empty: all of it
    SavedState state;
  };
  // The longest state of a beginning of the prompt, the last token left out (its logits are needed). What was
  // kept under another salt is not found.
  Hit find(std::span<const int> prompt, std::string_view salt);

  // Keeps the state after `tokens`, which are as many as state.model.length. Shares storage (in 8 bits: of
  // all but keys and values).
  void keep(std::span<const int> tokens, std::string_view salt, const SavedState& state);

  // From now on; what is beyond goes, least used first (what is on disk stays there).
  void set_ram_budget(uint64_t bytes);

  // The model has no recurrent state and no head that speaks of one.
  bool any_token() const { return any_token_; }
  StateCacheStats stats() const;
  DiskStore* disk() const { return options_.disk.get(); }

 private:
  struct Piece;  // what a node or a checkpoint holds
  using PiecePtr = std::shared_ptr<const Piece>;
  struct Plan;
  struct Known;

  void index(const std::vector<RecordHead>& heads);
  void forget_missing();
  Plan plan(const PrefixTree::Found& found, int most) const;
  void prefetch(const Plan& plan) const;
  bool assemble(const Plan& plan, Hit& hit);
  PiecePtr piece_of(PrefixTree::Node& node, Hit& hit);
  PiecePtr piece_of(PrefixTree::Checkpoint& checkpoint, Hit& hit);
  PiecePtr read(const RecordHead& head, std::vector<Tensor> arrays);
  void store(RecordHead head, const Piece& piece);
  void used(const Plan& plan);
  void note(const Known& known, Hit& hit);

  std::vector<Tensor> new_block(bool with_mtp) const;
  std::vector<Tensor> new_point(int length, bool with_mtp) const;
  PiecePtr block_piece(const SavedState& state, int block) const;
  PiecePtr point_piece(const SavedState& state) const;

  StateCacheOptions options_;
  std::vector<KvLayout> attention_, mtp_attention_;
  std::vector<ops::GatedDeltaShape> deltas_;
  bool any_token_;  // the model can go on from any token
  PrefixTree tree_;
  StateCacheStats stats_;
};

}  // namespace anabranch
