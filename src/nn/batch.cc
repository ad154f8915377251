#include "nn/batch.h"

namespace anabranch {

void Batch::add(SequenceState& state, std::span<const int> tokens, Logits logits, Snapshot* keep) {
  const int begin = static_cast<int>(ids.size()), count = static_cast<int>(tokens.size());
  int position = state.applied();
  for (const Span& span : spans) position += span.state == &state ? span.count : 0;
  for (int i = 0; i < count; i++) {
    ids.push_back(tokens[i]);
    positions.push_back(position + i);
    if (logits == Logits::all || (logits == Logits::last && i + 1 == count)) logit_rows.push_back(begin + i);
  }
  spans.push_back({&state, begin, count, keep});
}

}  // namespace anabranch
