#include "nn/gated_delta.h"

#include "ops/profile.h"

namespace anabranch::nn {

Tensor GatedDelta::operator()(const Normed& x, const Batch& batch, int part, const Residual& residual) const {
  Device& device = x.x.device();
  const auto in = [&] {
    const ops::Stage stage(device, "gated delta: norm, in-projections");
    const Linear* all[] = {&qkv, &z, &b, &a};
    return project(x, all);
  }();
  const ops::MatmulInput y = [&] {
    const ops::Stage stage(device, "gated delta: conv, gates, recurrence, norm");
    std::vector<ops::GatedDeltaSpan> spans;
    spans.reserve(batch.spans.size());
    for (const Span& span : batch.spans) {
      spans.push_back({&span.state->delta(part), span.begin, span.count, span.state->has_draft_tokens()});
      if (span.keep) spans.back().keep = &span.state->snapshot_delta(part, *span.keep);
    }
    return ops::gated_delta({in[0], in[1], in[2], in[3]}, shape, weights, spans);
  }();
  const ops::Stage stage(device, "gated delta: out-projection, add");
  return add(residual, out, y, x.adapters);
}

}  // namespace anabranch::nn
