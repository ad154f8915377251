// One forward step as plain data: rows of several sequences packed one after the other, without padding.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "state/sequence_state.h"

namespace anabranch {

// Rows [begin, begin + count) of the batch are the next `count` tokens of one sequence: committed, or
// drafts while its state is open.
struct Span {
  SequenceState* state = nullptr;
  int begin = 0;
  int count = 0;
  // Where the state after these tokens is left (SequenceState::snapshot(), made while the pass runs); or
  // null.
  Snapshot* keep = nullptr;
};

struct Batch {
  std::vector<int> ids;          // token of each row; -1 - i: element i of `chosen`
  std::optional<Tensor> chosen;  // [..] i32 on the device: tokens that the host does not know yet
  std::vector<int> positions;    // its position in its sequence
  std::vector<Span> spans;       // together they cover every row, in order
  std::vector<int> logit_rows;   // rows whose logits are wanted, ascending

  // Adds the next tokens of a sequence, with logits for none, the last or all of them. A sequence may have
  // several spans, each the tokens after the one before, so that a state between them can be kept.
  enum class Logits { none, last, all };
  void add(SequenceState& state, std::span<const int> tokens, Logits logits, Snapshot* keep = nullptr);
};

}  // namespace anabranch
