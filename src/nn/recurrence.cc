#include "nn/recurrence.h"

#include "ops/profile.h"

namespace anabranch::nn {
namespace {

std::vector<ops::RecurrenceSpan> spans_of(const Batch& batch, int part) {
  std::vector<ops::RecurrenceSpan> spans;
  spans.reserve(batch.spans.size());
  for (const Span& span : batch.spans) {
    spans.push_back({&span.state->recurrent(part), span.begin, span.count, span.state->has_draft_tokens()});
    if (span.keep) spans.back().keep = &span.state->snapshot_recurrent(part, *span.keep);
  }
  return spans;
}

}  // namespace

std::vector<const Linear*> Recurrence::projections() const {
  std::vector<const Linear*> layers = {&qkv, &z};
  for (const auto* linear : {&b, &a})
    if (*linear) layers.push_back(&**linear);
  return layers;
}

Tensor Recurrence::operator()(const Normed& x, const Batch& batch, int part, const Residual& residual) const {
  Device& device = x.x.device();
  const auto in = [&] {
    const ops::Stage stage(device, "recurrence: norm, in-projections");
    return project(x, projections());
  }();
  const ops::MatmulInput y = [&] {
    const ops::Stage stage(device, "recurrence: conv, gates, recurrence, norm");
    ops::RecurrenceInputs inputs{in[0], in[1]};
    if (b) inputs.b = in[2];
    if (a) inputs.a = in.back();
    return ops::recurrence(inputs, shape, weights, spans_of(batch, part));
  }();
  const ops::Stage stage(device, "recurrence: out-projection, add");
  return add(residual, out, y, x.adapters);
}

Tensor ShortConv::operator()(const Normed& x, const Batch& batch, int part, const Residual& residual) const {
  Device& device = x.x.device();
  const Linear* all[] = {&in};
  const auto projected = [&] {
    const ops::Stage stage(device, "short convolution: norm, in-projection");
    return project(x, all);
  }();
  const ops::MatmulInput y = [&] {
    const ops::Stage stage(device, "short convolution: conv, gates");
    return ops::short_conv(projected[0], shape, weights, spans_of(batch, part));
  }();
  const ops::Stage stage(device, "short convolution: out-projection, add");
  return add(residual, out, y, x.adapters);
}

}  // namespace anabranch::nn
