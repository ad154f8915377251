// One forward step as plain data: rows of several sequences packed one after the other, without padding.
#pragma once

#include <vector>

#include "state/sequence_state.h"

namespace anabranch {

// Rows [begin, begin + count) of the batch are the next `count` tokens of one sequence.
struct Span {
  SequenceState* state = nullptr;
  int begin = 0;
  int count = 0;
};

struct Batch {
  std::vector<int> ids;         // token of each row
  std::vector<int> positions;   // its position in its sequence
  std::vector<Span> spans;      // together they cover every row, in order
  std::vector<int> logit_rows;  // rows whose logits are wanted, ascending

  // Adds the next tokens of a sequence; logits for the last of them when want_logits.
  void add(SequenceState& state, const int* tokens, int count, bool want_logits);
};

}  // namespace anabranch
