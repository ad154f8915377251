// All mutable memory of one sequence: keys and values of its attention layers, recurrent state and conv rows
// of its gated-delta layers.
//
// Ownership: one SequenceState belongs to one Sequence and is touched only by the engine thread. Layers reach
// their own part by index; Model::forward advances `length` once every layer has seen the tokens.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "ops/attention.h"
#include "ops/gated_delta.h"

namespace anabranch {

struct KvLayout {
  int kv_heads = 0, head_dim = 0;
};

// What each layer keeps, in layer order.
using LayerLayout = std::variant<KvLayout, ops::GatedDeltaShape>;
using StateLayout = std::vector<LayerLayout>;

// Bytes that one more token of context costs, and bytes that a sequence costs whatever its length.
uint64_t kv_bytes_per_token(const StateLayout& layout);
uint64_t fixed_bytes(const StateLayout& layout);

class SequenceState {
 public:
  explicit SequenceState(const StateLayout& layout);

  // Tokens applied so far: the position of the next one.
  int length() const { return length_; }
  void advance(int tokens) { length_ += tokens; }

  // The layer's part; aborts if the layer is of the other kind.
  ops::PagedKv& kv(int layer);
  ops::GatedDeltaState& delta(int layer);

 private:
  std::vector<std::variant<ops::PagedKv, ops::GatedDeltaState>> layers_;
  int length_ = 0;
};

}  // namespace anabranch
