// All mutable memory of one sequence: keys and values of its attention layers, recurrent state and conv rows
// of its gated-delta layers.
//
// Tokens are committed at once, or, between open() and commit(), are draft tokens. These change nothing that
// the committed tokens left: gated-delta layers keep window entries (ops/gated_delta.h), attention layers
// write beyond the committed length. After commit(tokens) the state is, to the bit, what applying these
// tokens alone would have made; the work that this takes is done by the next pass.
//
// Ownership: one SequenceState belongs to one Sequence and is touched only by the engine thread. Layers reach
// their own part by index. A copy shares what neither changes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "ops/attention.h"
#include "ops/gated_delta.h"

namespace anabranch {

// window: positions that a query sees, 0 = all. Blocks that no later query sees are dropped.
struct KvLayout {
  int kv_heads = 0, head_dim = 0;
  int window = 0;
};

// Windows up to this size are kept whole in each saved state; the blocks of larger ones are kept as those of
// full attention are, so that states can share them.
constexpr int kMostWindowInState = 1024;
inline bool is_windowed(const KvLayout& layout) {
  return layout.window > 0 && layout.window <= kMostWindowInState;
}

// What each layer keeps, in layer order.
using LayerLayout = std::variant<KvLayout, ops::GatedDeltaShape>;
using StateLayout = std::vector<LayerLayout>;

// Bytes that one more token of context costs, that a sequence costs whatever its length (with the blocks of
// windowed layers), and that draft tokens add.
uint64_t kv_bytes_per_token(const StateLayout& layout, const Device& device);
uint64_t fixed_bytes(const StateLayout& layout, const Device& device);
uint64_t window_bytes(const StateLayout& layout);
// Bytes that SequenceState::remember() takes.
uint64_t recurrent_bytes(const StateLayout& layout);

// One attention layer's memory.
struct AttentionState {
  ops::PagedKv kv;
  int window = 0;  // beyond which blocks are dropped, 0 = none are
};

// An immutable point of a sequence that it can go back to, as can others of the same model. Shares storage
// with the states it came from and went to.
struct Snapshot {
  int length = 0;
  std::vector<std::variant<ops::PagedKv, ops::GatedDeltaState>> layers;
};

// The snapshot of the MTP head that goes with a model's snapshot. Its KV cache covers the pairs (hidden
// state, next token) of the prefix, one fewer than there are tokens; `hidden` [1, H] f32 is the last
// position's hidden state, whose next token is not known yet.
struct MtpSnapshot {
  Snapshot state;
  Tensor hidden;
};

class SequenceState {
 public:
  SequenceState(Device& device, const StateLayout& layout);
  // devices: of each part.
  SequenceState(std::span<Device* const> devices, const StateLayout& layout);

  // Committed tokens; and all tokens with the drafts, which is the position of the next one.
  int length() const { return length_; }
  int applied() const { return length_ + open_; }
  bool has_draft_tokens() const { return on_trial_; }

  // From here to commit(), applied tokens are drafts, at most kMaxDraftTokens. Aborts if it is open already.
  void open();
  // The first `tokens` drafts stay, the others never were.
  void commit(int tokens);

  // Tokens applied from here on, for good, can be taken back until this is called again. Costs the memory of
  // the recurrent states once more. Aborts during a trial.
  void remember();
  // The state is what it was at remember().
  void take_back();
  // They stay: nothing is kept for take_back() any more.
  void forget();

  // Aborts during a trial.
  Snapshot snapshot();
  // The same while a pass runs: begun before it, then layer by layer, as each has applied its tokens; the
  // length is set by advance()'s caller. Layers on different threads do not meet. later: tokens that an
  // attention layer has applied beyond the point.
  void begin_snapshot(Snapshot& out) const { out.layers.resize(layers_.size()); }
  void snapshot_layer(int layer, Snapshot& out, int later = 0);
  // A gated-delta layer's place in such a snapshot, for ops::gated_delta() to fill.
  ops::GatedDeltaState& snapshot_delta(int layer, Snapshot& out);
  void restore(const Snapshot& snapshot);

  // For Model: tokens were applied to every layer.
  void advance(int tokens);
  // The layer's part; aborts if the layer is of the other kind.
  AttentionState& attention(int layer);
  ops::GatedDeltaState& delta(int layer);

 private:
  void drop_unseen();
  struct Delta {
    ops::GatedDeltaShape shape;
    ops::GatedDeltaState state;
    std::optional<ops::GatedDeltaState> before = {};  // at remember(), with `accepted` alone of a window
  };
  std::vector<std::variant<AttentionState, Delta>> layers_;
  int length_ = 0, open_ = 0;
  int remembered_ = -1;  // the length at remember(); -1: nothing is remembered
  bool on_trial_ = false;
};

}  // namespace anabranch
