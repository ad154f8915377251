// All mutable memory of one sequence: keys and values of its attention layers, recurrent state and conv rows
// of its recurrent layers (ops/recurrence.h), and conv rows of its short convolutions.
//
// Tokens are committed at once, or, between open() and commit(), are draft tokens. Draft tokens do not change
// the state of the committed tokens: recurrent layers keep window entries (ops/recurrence.h), attention
// layers write beyond the committed length. After commit(tokens) the state is bit-identical to that of
// applying only these tokens; commit() leaves a part of the work to the next pass.
//
// Ownership: one SequenceState belongs to one Sequence and is only used by the engine thread. Layers access
// their own part by index. A copy shares tensors until either side changes them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "ops/attention.h"
#include "ops/recurrence.h"

namespace anabranch {

namespace nn {
struct Adapter;  // nn/adapter.h
}

// window: number of positions that a query sees, 0 = all. Blocks that no later query sees are dropped.
// value_dim: see ops::PagedKv.
struct KvLayout {
  int kv_heads = 0, head_dim = 0;
  int window = 0;
  int value_dim = 0;
};

// Windows up to this size are stored completely in each cached state. The blocks of larger windows are stored
// like those of full attention, so that states can share them.
constexpr int kMostWindowInState = 1024;
inline bool is_windowed(const KvLayout& layout) {
  return layout.window > 0 && layout.window <= kMostWindowInState;
}

// The memory layout of each layer, in layer order.
using LayerLayout = std::variant<KvLayout, ops::RecurrenceShape>;
using StateLayout = std::vector<LayerLayout>;

// Memory of a sequence in bytes. kv_bytes_per_token(): for each token of context. fixed_bytes(): independent
// of its length (includes the blocks of windowed layers). window_bytes(): for draft tokens.
uint64_t kv_bytes_per_token(const StateLayout& layout, const Device& device);
uint64_t fixed_bytes(const StateLayout& layout, const Device& device);
uint64_t window_bytes(const StateLayout& layout);
// Bytes that SequenceState::remember() takes.
uint64_t recurrent_bytes(const StateLayout& layout);

// One attention layer's memory.
struct AttentionState {
  ops::PagedKv kv;
  int window = 0;  // blocks that only positions before the window use are dropped; 0 = no window
};

// An immutable snapshot of a sequence, to which this or another sequence of the same model can be restored.
// Shares storage with the states that it was taken from or restored to.
struct Snapshot {
  int length = 0;
  std::vector<std::variant<ops::PagedKv, ops::RecurrenceState>> layers;
};

// The MTP head's snapshot that belongs to a model's snapshot. Its KV cache covers the pairs (hidden state,
// next token) of the prefix, one fewer than there are tokens; `hidden` [1, H] f32 is the last position's
// hidden state, whose next token is not known yet.
struct MtpSnapshot {
  Snapshot state;
  Tensor hidden;
};

class SequenceState {
 public:
  SequenceState(Device& device, const StateLayout& layout);
  // devices: one for each layer of `layout`.
  SequenceState(std::span<Device* const> devices, const StateLayout& layout);

  // length(): committed tokens. applied(): including drafts, which is the position of the next token.
  int length() const { return length_; }
  int applied() const { return length_ + open_; }
  bool has_draft_tokens() const { return has_draft_; }

  // The adapters through which the state's tokens go, in this order, each with its scale. They must outlive
  // the state's last pass.
  using Adapters = std::vector<std::pair<const nn::Adapter*, float>>;
  void set_adapters(Adapters adapters) { adapters_ = std::move(adapters); }
  const Adapters& adapters() const { return adapters_; }

  // From now until commit(), applied tokens are drafts, at most kMaxDraftTokens. Aborts if drafts are already
  // open.
  void open();
  // The first `tokens` drafts are committed, the others are discarded.
  void commit(int tokens);

  // Marks the state, so that tokens committed from now on can be taken back, until the next remember(). Needs
  // memory for a second copy of the recurrent states. Aborts while drafts are open.
  void remember();
  // Returns to the state at remember().
  void take_back();
  // Keeps the tokens committed since remember(), and drops the data for take_back().
  void forget();

  // Aborts while drafts are open.
  Snapshot snapshot();
  // Take a snapshot during a pass: begin_snapshot() before the pass, then snapshot_layer() for each layer
  // that has applied its tokens, also on different threads. The caller of advance() sets the snapshot's
  // length. later: number of tokens after the snapshot's position that the attention layer has already
  // applied.
  void begin_snapshot(Snapshot& out) const { out.layers.resize(layers_.size()); }
  void snapshot_layer(int layer, Snapshot& out, int later = 0);
  // A recurrent layer's part of such a snapshot, which ops::recurrence() or ops::short_conv() fills.
  ops::RecurrenceState& snapshot_recurrent(int layer, Snapshot& out);
  void restore(const Snapshot& snapshot);

  // Called by Model after tokens were applied to every layer.
  void advance(int tokens);
  // The state of one layer. Aborts if the layer is of the other kind.
  AttentionState& attention(int layer);
  ops::RecurrenceState& recurrent(int layer);

 private:
  void drop_unseen();
  struct Recurrent {
    ops::RecurrenceShape shape;
    ops::RecurrenceState state;
    // The state at remember(); its window has only `accepted`.
    std::optional<ops::RecurrenceState> before = {};
  };
  std::vector<std::variant<AttentionState, Recurrent>> layers_;
  Adapters adapters_;
  int length_ = 0, open_ = 0;
  int remembered_ = -1;  // the length at remember(); -1: nothing is remembered
  bool has_draft_ = false;
};

}  // namespace anabranch
