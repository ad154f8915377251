#include "nn/batch.h"

namespace anabranch {

void Batch::add(SequenceState& state, const int* tokens, int count, bool want_logits) {
  const int begin = static_cast<int>(ids.size());
  for (int i = 0; i < count; i++) {
    ids.push_back(tokens[i]);
    positions.push_back(state.length() + i);
  }
  spans.push_back({&state, begin, count});
  if (want_logits) logit_rows.push_back(begin + count - 1);
}

}  // namespace anabranch
