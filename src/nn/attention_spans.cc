#include "nn/attention_spans.h"

namespace anabranch::nn {

std::vector<ops::AttentionSpan> spans_of_sequences(const Batch& batch, int part) {
  std::vector<ops::AttentionSpan> spans;
  for (size_t i = 0; i < batch.spans.size(); i++) {
    const Span& span = batch.spans[i];
    if (i > 0 && span.state == batch.spans[i - 1].state && !span.whole && !batch.spans[i - 1].whole)
      spans.back().count += span.count;
    else
      spans.push_back({&span.state->attention(part).kv, span.begin, span.count, span.whole});
  }
  return spans;
}

void keep_snapshots(const Batch& batch, int part) {
  for (size_t i = 0; i < batch.spans.size(); i++) {
    const Span& span = batch.spans[i];
    if (!span.keep) continue;
    int later = 0;  // later rows of the sequence, which are already in the cache
    for (size_t next = i + 1; next < batch.spans.size() && batch.spans[next].state == span.state; next++)
      later += batch.spans[next].count;
    span.state->snapshot_layer(part, *span.keep, later);
  }
}

}  // namespace anabranch::nn
