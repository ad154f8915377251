// Saved states of sequences, found by the prefix of a prompt; in memory, and on disk between runs. A cached
// state has the same bits as one that is computed from the tokens, unless keys and values are stored in 8
// bits.
//
// Keys and values are stored once for each block of kBlockTokens tokens, and sequences share them
// (prefix_tree.h). The rest of a state (recurrent state, conv rows, the partial last block, the MTP head's
// part) is stored as a snapshot, one for each keep(). A model with recurrent state can continue only from
// snapshots; other models can continue from any cached token.
//
// Engine thread only, except the functions of SharedStates and those that say so. DiskStore writes on its own
// thread.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/cache_stats.h"
#include "cache/disk_store.h"
#include "cache/kv_events.h"
#include "cache/prefix_tree.h"
#include "cache/shared_states.h"
#include "state/sections.h"
#include "state/sequence_state.h"

namespace anabranch {

// Everything that a sequence needs to continue.
struct SavedState {
  Snapshot model;
  std::optional<MtpSnapshot> mtp;  // present if the model has an MTP head and the head saw all tokens
};

struct StateCacheOptions {
  Device* device = nullptr;           // of the states
  std::vector<Device*> devices = {};  // of each part of `model`; empty: all lie on `device`
  StateLayout model, mtp;             // mtp: empty when there is no head
  int mtp_hidden = 0;                 // width of its hidden states
  Fingerprint fingerprint;  // states of other fingerprints are never found; must differ for each KvFormat
  KvFormat kv = KvFormat::exact;
  uint64_t ram_bytes = 0;
  std::unique_ptr<DiskStore> disk;  // may be null
  // A state is written to disk only if computing it again, from the longest cached state on disk, would take
  // longer than this many seconds, and longer than writing and reading it. 0: every state is written.
  double disk_worth_s = 0;
  std::unique_ptr<KvEvents> events;  // gets the changes of states without a salt; may be null
};

class StateCache final : public SharedStates {
 public:
  explicit StateCache(StateCacheOptions options);
  ~StateCache() override;

  struct Hit {
    int length = 0;          // tokens of the prompt that the state covers; 0: a miss
    int shared = 0;          // tokens that the prompt shares with cached sequences, >= length
    bool from_disk = false;  // at least one record was read from disk
    int disk_tokens = 0;     // the part of `length` whose keys and values were read from disk
    bool lost = false;       // a longer state was known, but could not be read
    std::string miss;        // why the state does not cover the whole prompt; empty: it does
    SavedState state;
  };
  // Finds the longest cached state of a prefix of the prompt. It excludes the last token, whose logits are
  // needed. Entries that were stored under another salt are not found.
  Hit find(std::span<const int> prompt, std::string_view salt);

  // Caches the state after `tokens`; state.model.length must be their number. Shares the state's storage,
  // except for keys and values in 8 bits. token_s: seconds that each token takes to compute.
  void keep(std::span<const int> tokens, std::string_view salt, const SavedState& state, double token_s = 0);

  // Sets the memory budget and evicts entries of the least worth that exceed it. Records on disk stay.
  void set_ram_budget(uint64_t bytes);

  // Whether a sequence can continue from any cached token: the model has neither recurrent state nor an MTP
  // head.
  bool any_token() const { return any_token_; }
  StateCacheStats stats() const;
  DiskStore* disk() const { return options_.disk.get(); }

  // For exchange with other workers (shared_states.cc). Any thread.
  const Fingerprint& fingerprint() const override { return options_.fingerprint; }
  KeptPrefix kept(std::span<const PrefixKey> keys) const override;
  Result<std::string> record(const DiskRecord& name) const override;
  void forget(std::vector<DiskRecord> records) override;
  // The cached part of a prompt: the number of tokens after which it can be resumed, and the number of cached
  // whole blocks.
  struct KeptHere {
    int length = 0, blocks = 0;
  };
  KeptHere kept_here(std::span<const int> prompt, std::string_view salt);
  // Adds records of another worker, parents before children. The next find() can use them. Errors:
  // unsupported (they do not fit this model's states).
  Result<void> add(std::span<const StoredRecord> records);
  // The largest possible size of a record of this model's states.
  uint64_t most_record_bytes() const;

 private:
  using SectionsPtr = std::shared_ptr<const StateSections>;
  struct Known;
  struct Added {
    RecordHead head;
    SectionsPtr sections;
  };
  struct ResumePlan;
  struct Match;

  void index(const std::vector<RecordHead>& heads);
  void forget_missing();
  void tell();
  ResumePlan plan(const PrefixTree::Found& found, int most) const;
  int resumable(const PrefixTree::Found& found, int most) const;
  void prefetch(const ResumePlan& plan) const;
  bool assemble(const ResumePlan& plan, Hit& hit);
  SectionsPtr load(const RecordHead& head);
  // Entry: a node or a snapshot of the tree.
  template <class Entry>
  SectionsPtr sections_of(Entry& entry, Hit& hit);
  template <class Entry>
  void forget_unusable(Entry& entry);
  void store(RecordHead head, const StateSections& sections);
  bool is_worth_disk(const PrefixTree::Node& end, int length, uint64_t bytes, double token_s) const;
  void store_path(PrefixTree::Node& end);
  std::optional<Known> known(const DiskRecord& name) const;
  void take_added();
  bool forget_one(const DiskRecord& record);
  void used(const ResumePlan& plan);
  void count(const Match& match, Hit& hit);

  StateSections write_block(const SavedState& state, int block) const;
  StateSections write_snapshot(const SavedState& state) const;
  bool read_blocks(Stack stack, int block, const StateSections& sections, Snapshot& state) const;
  bool read_snapshot(const StateSections& sections, SavedState& state) const;
  SavedState empty_state(int length, bool with_mtp) const;

  StateCacheOptions options_;
  SectionFormat format_;
  bool any_token_;
  mutable std::mutex mutex_;  // guards the members below
  PrefixTree tree_;
  StateCacheStats stats_;
  std::vector<Added> added_;  // since the last find()
};

}  // namespace anabranch
