#include "nn/recurrence.h"

#include "ops/profile.h"

namespace anabranch::nn {

std::vector<ops::RecurrenceSpan> recurrence_spans(const Batch& batch, int part) {
  std::vector<ops::RecurrenceSpan> spans;
  spans.reserve(batch.spans.size());
  for (const Span& span : batch.spans) {
    spans.push_back({&span.state->recurrent(part), span.begin, span.count, span.state->has_draft_tokens()});
    if (span.keep) spans.back().keep = &span.state->snapshot_recurrent(part, *span.keep);
  }
  return spans;
}

std::vector<const Linear*> Recurrence::projections() const {
  std::vector<const Linear*> layers = {&qkv, z_low ? &*z_low : &z};
  for (const auto* linear : {&b, a_low ? &a_low : &a})
    if (*linear) layers.push_back(&**linear);
  return layers;
}

std::vector<const Linear*> Recurrence::after_low() const {
  std::vector<const Linear*> layers;
  if (z_low) layers.push_back(&z);
  if (a_low) layers.push_back(&*a);
  return layers;
}

Tensor Recurrence::operator()(const Normed& x, const Batch& batch, int part, const Residual& residual) const {
  Device& device = x.x.device();
  const auto in = [&] {
    const ops::Stage stage(device, "recurrence: norm, in-projections");
    auto outputs = project(x, projections());
    const auto project_again = [&](Tensor& low, const Linear& linear) {
      const Linear* const layers[] = {&linear};
      low = project(Normed{low, nullptr, x.adapters}, layers)[0];
    };
    if (z_low) project_again(outputs[1], z);
    if (a_low) project_again(outputs.back(), *a);
    return outputs;
  }();
  const ops::MatmulInput y = [&] {
    const ops::Stage stage(device, "recurrence: conv, gates, recurrence, norm");
    ops::RecurrenceInputs inputs{in[0], in[1]};
    if (b) inputs.b = in[2];
    if (a) inputs.a = in.back();
    return ops::recurrence(inputs, shape, weights, recurrence_spans(batch, part));
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
    return ops::short_conv(projected[0], shape, weights, recurrence_spans(batch, part));
  }();
  const ops::Stage stage(device, "short convolution: out-projection, add");
  return add(residual, out, y, x.adapters);
}

}  // namespace anabranch::nn
