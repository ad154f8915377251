// The weights of hybrids with Mamba2, short convolutions or Gated DeltaNet (hybrid_config.cc).
#include "checkpoint/experts.h"
#include "models/family.h"

namespace anabranch {
namespace {

// Rows of a matrix and, if the files have one, of its bias.
Result<nn::Linear> take_biased_rows(const ModelBuilder& builder, const std::string& name,
                                    const WeightSource& source, const std::vector<int64_t>& rows) {
  nn::Linear linear = linear_of(builder, name, source, rows);
  if (builder.checkpoint.has(name + ".bias")) {
    TRY(const auto bias, builder.checkpoint.take(name + ".bias", {source.rows}));
    linear.bias = take_elements(builder, bias, rows);
  }
  return linear;
}

// The projection back to the residual stream, with a bias if the files have one.
Result<nn::Linear> take_out(const ModelBuilder& builder, const std::string& name, int width) {
  return take_linear(builder, name, builder.spec.hidden, width, builder.checkpoint.has(name + ".bias"));
}

Result<Tensor> take_vector(const ModelBuilder& builder, const std::string& name, int size) {
  TRY(const auto values, builder.checkpoint.take(name, {size}));
  return builder.device.to_device(values);
}

// in_proj has the rows of z, x, B, C and dt, and the convolution the channels of x, B and C. The recurrence
// takes C as queries, B as keys and x as values, in this order.
Result<nn::Mixer> take_mamba2(const ModelBuilder& builder, const std::string& p,
                              const ops::RecurrenceShape& shape, float eps) {
  const int width = shape.value_heads * shape.value_dim, states = shape.key_heads * shape.key_dim;
  const int channels = shape.conv_channels(), heads = shape.value_heads;
  std::vector<int64_t> order, of_z, of_x, of_a;
  append_rows(order, width + states, channels);
  append_rows(order, width, width + states);
  append_rows(order, 0, width);
  append_rows(of_z, 0, width);
  for (const int64_t channel : order) of_x.push_back(width + channel);
  append_rows(of_a, width + channels, width + channels + heads);
  TRY(const auto source,
      builder.take_matrix(p + "in_proj.weight", int64_t{width} + channels + heads, builder.spec.hidden));
  nn::Recurrence out;
  out.shape = shape;
  TRY(out.qkv, take_biased_rows(builder, p + "in_proj", source, of_x));
  TRY(out.z, take_biased_rows(builder, p + "in_proj", source, of_z));
  TRY(out.a, take_biased_rows(builder, p + "in_proj", source, of_a));
  TRY(const auto taps, take_conv(builder.checkpoint, p + "conv1d.weight", channels, shape.conv_kernel));
  out.weights.conv_weight = builder.device.to_device(take_channels(taps, order));
  if (shape.rule.conv_bias) {
    TRY(const auto bias, builder.checkpoint.take(p + "conv1d.bias", {channels}));
    out.weights.conv_bias = take_elements(builder, bias, order);
  }
  TRY(out.weights.a_log, take_vector(builder, p + "A_log", heads));
  TRY(out.weights.dt_bias, take_vector(builder, p + "dt_bias", heads));
  TRY(out.weights.skip, take_vector(builder, p + "D", heads));
  TRY(out.weights.norm_weight, take_vector(builder, p + "norm.weight", width));
  out.weights.eps = eps;
  TRY(out.out, take_out(builder, p + "out_proj", width));
  return nn::Mixer(std::move(out));
}

// A matrix of the rows of several.
Result<nn::Linear> take_joined(const ModelBuilder& builder, std::initializer_list<std::pair<std::string, int>> parts) {
  std::vector<WeightSource> sources;
  for (const auto& [name, rows] : parts) {
    TRY(auto source, builder.take_matrix(name + ".weight", rows, builder.spec.hidden));
    sources.push_back(std::move(source));
  }
  return nn::Linear{ops::Weight::make(builder.device, join_rows(std::move(sources))), {}};
}

// The convolution of queries, keys and values, in one tensor or in three.
Result<Tensor> take_three_convs(Checkpoint& checkpoint, const std::string& p, const ops::RecurrenceShape& shape) {
  const int keys = shape.key_heads * shape.key_dim, channels = shape.conv_channels(), kernel = shape.conv_kernel;
  if (checkpoint.has(p + "conv1d.weight")) return take_conv(checkpoint, p + "conv1d.weight", channels, kernel);
  Tensor all = host_device().empty({kernel, channels}, Dtype::f32);
  int begin = 0;
  for (const auto& [name, count] : {std::pair{"q_conv1d.weight", keys},
                                    {"k_conv1d.weight", keys},
                                    {"v_conv1d.weight", channels - 2 * keys}}) {
    TRY(const auto taps, take_conv(checkpoint, p + name, count, kernel));
    for (int t = 0; t < kernel; t++)
      std::copy_n(taps.data<float>() + t * count, count, all.data<float>() + t * channels + begin);
    begin += count;
  }
  return all;
}

// OLMo's Gated DeltaNet, with a projection for each of its inputs.
Result<nn::Mixer> take_delta_of_projections(const ModelBuilder& builder, const std::string& p,
                                            const ops::RecurrenceShape& shape) {
  const int keys = shape.key_heads * shape.key_dim, values = shape.value_heads * shape.value_dim;
  const int heads = shape.value_heads, hidden = builder.spec.hidden;
  nn::Recurrence out;
  out.shape = shape;
  TRY(out.qkv, take_joined(builder, {{p + "q_proj", keys}, {p + "k_proj", keys}, {p + "v_proj", values}}));
  TRY(out.z, take_linear(builder, p + "g_proj", values, hidden));
  TRY(out.b, take_linear(builder, p + "b_proj", heads, hidden));
  TRY(out.a, take_linear(builder, p + "a_proj", heads, hidden));
  TRY(const auto taps, take_three_convs(builder.checkpoint, p, shape));
  out.weights.conv_weight = builder.device.to_device(taps);
  TRY(out.weights.a_log, take_vector(builder, p + "A_log", heads));
  TRY(out.weights.dt_bias, take_vector(builder, p + "dt_bias", heads));
  TRY(out.weights.norm_weight, take_vector(builder, p + "o_norm.weight", shape.value_dim));
  out.weights.eps = 1e-5f;  // whatever rms_norm_eps says
  TRY(out.out, take_linear(builder, p + "o_proj", hidden, values));
  return nn::Mixer(std::move(out));
}

Result<nn::Mixer> take_short_conv(const ModelBuilder& builder, const std::string& p,
                                  const ops::RecurrenceShape& shape) {
  const int channels = shape.channels;
  nn::ShortConv out;
  out.shape = shape;
  TRY(out.in, take_linear(builder, p + "in_proj", 3 * channels, builder.spec.hidden, shape.rule.conv_bias));
  TRY(const auto taps, take_conv(builder.checkpoint, p + "conv.weight", channels, shape.conv_kernel));
  out.weights.weight = builder.device.to_device(taps);
  if (shape.rule.conv_bias) {
    TRY(out.weights.bias, take_vector(builder, p + "conv.bias", channels));
  }
  TRY(out.out, take_linear(builder, p + "out_proj", builder.spec.hidden, channels, shape.rule.conv_bias));
  return nn::Mixer(std::move(out));
}

Result<nn::Mixer> take_mixer(const ModelBuilder& builder, const std::string& p, const LayerSpec& layer) {
  if (std::holds_alternative<AttentionSpec>(layer.mixer)) {
    TRY(auto attention, take_attention(builder, p + layer.form.attention, layer));
    return nn::Mixer(std::move(attention));
  }
  const auto* shape = std::get_if<ops::RecurrenceShape>(&layer.mixer);
  if (!shape) return nn::Mixer(nn::Absent());
  const std::string own = p + layer.form.recurrence;
  if (shape->channels > 0) return take_short_conv(builder, own, *shape);
  return shape->rule.delta ? take_delta_of_projections(builder, own, *shape)
                           : take_mamba2(builder, own, *shape, layer.norms.eps);
}

Result<nn::DecoderLayer> build_layer(const ModelBuilder& builder, const std::string& p,
                                     const LayerSpec& layer) {
  TRY(auto mixer, take_mixer(builder, p, layer));
  TRY(auto mlp, take_feed_forward(builder, p + layer.form.mlp, layer.mlp, layer.form));
  return join_layer(builder, p, layer, std::move(mixer), std::move(mlp));
}

}  // namespace

const Family* find_hybrid_family(const std::string& model_type) {
  static const Family family{read_hybrid_config, build_layer};
  return is_hybrid_member(model_type) ? &family : nullptr;
}

}  // namespace anabranch
